//! How full filesystems are: bytes and inodes, as `df` shows them.
//!
//! Each is asked in a thread of its own. One that does not answer (its server is gone) is told as
//! such, is not asked again before it answers, and no other waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::statvfs::{Statvfs, statvfs};

use crate::apart::Apart;
use crate::files::{ReadError, Skipped, read};

/// So long all together are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Mounts that are looked at; a node of containers has thousands of the same.
const MOUNTS_MAX: usize = 256;

/// With a smaller share left, of bytes or of inodes, a filesystem is nearly full.
const NEARLY_FULL: f64 = 0.05;

/// Filesystems that hold files of people though no device is below them.
const WITHOUT_DEVICE: [&str; 12] = [
    "zfs",
    "btrfs",
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "beegfs",
    "beegfs_nodev",
    "ceph",
    "cifs",
    "9p",
    "virtiofs",
];

/// Images, full from the beginning, and what is mounted where somebody looks.
const NEVER: [&str; 5] = ["squashfs", "iso9660", "udf", "erofs", "autofs"];

/// Memory that programs use as a disk: data loaders and NCCL fail where it is full.
const MEMORY: [&str; 2] = ["/dev/shm", "/tmp"];

/// One filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Where it is mounted.
    pub path: String,
    /// What is mounted: a device, an export, a name.
    pub device: String,
    /// Its type.
    pub kind: String,
    /// It takes no writes.
    pub read_only: bool,
    /// How much there is; none where it does not answer.
    pub sizes: Option<Sizes>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes.
    pub size: u64,
    /// Of them in use.
    pub used: u64,
    /// Of them free to others than root.
    pub free: u64,
    /// Inodes; 0 where the filesystem makes them as they are needed.
    pub inodes: u64,
    /// Of them free.
    pub inodes_free: u64,
}

impl Sizes {
    /// The share in use, as `df` counts it: what only root may use is neither.
    pub fn used_share(&self) -> Option<f64> {
        let all = self.used.saturating_add(self.free);
        (all > 0).then(|| self.used as f64 / all as f64)
    }

    /// The share of inodes in use.
    pub fn inodes_share(&self) -> Option<f64> {
        let used = self.inodes.saturating_sub(self.inodes_free);
        (self.inodes > 0).then(|| used as f64 / self.inodes as f64)
    }
}

impl Space {
    /// Little is left of what can be written to.
    pub fn nearly_full(&self) -> bool {
        let full = |share: Option<f64>| share.is_some_and(|share| share > 1.0 - NEARLY_FULL);
        let sizes = self.sizes.filter(|_| !self.read_only);
        sizes.is_some_and(|sizes| full(sizes.used_share()) || full(sizes.inodes_share()))
    }
}

/// Asks the filesystems of this machine, or reads what `df` said of a captured one.
#[derive(Default)]
pub struct Reader {
    asked: BTreeMap<String, Apart<Sizes>>,
}

impl Reader {
    /// All filesystems that hold files, by where they are mounted.
    ///
    /// # Errors
    /// Nobody tells what is mounted.
    pub fn read(&mut self, root: &Path, skipped: &mut Skipped) -> Result<Vec<Space>, ReadError> {
        if root != Path::new("/") {
            return Ok(df(&read(root, "commands/df.txt")?, skipped));
        }
        let mut found = mounts(&read(root, "proc/self/mountinfo")?, skipped);
        // What is gone is forgotten; a thread that hangs ends when it comes back.
        self.asked.retain(|path, _| found.iter().any(|space| space.path == *path));
        for space in &found {
            let path = space.path.clone();
            let ask = || Apart::new(move || statvfs(path.as_str()).ok().map(|found| sizes(&found)));
            self.asked.entry(space.path.clone()).or_insert_with(ask).ask();
        }
        let end = Instant::now() + PATIENCE;
        for space in &mut found {
            space.sizes = self.asked.get_mut(&space.path).and_then(|apart| apart.answer(end));
        }
        // A size of nothing holds no files.
        found.retain(|space| space.sizes.is_none_or(|sizes| sizes.size > 0));
        Ok(found)
    }
}

fn sizes(found: &Statvfs) -> Sizes {
    let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
    Sizes {
        size: bytes(found.blocks()),
        used: bytes(found.blocks().saturating_sub(found.blocks_free())),
        free: bytes(found.blocks_available()),
        inodes: found.files(),
        inodes_free: found.files_free(),
    }
}

/// What holds files of all that is mounted; each filesystem once.
fn mounts(text: &str, skipped: &mut Skipped) -> Vec<Space> {
    let mut found: BTreeMap<String, (Space, String)> = BTreeMap::new();
    for line in text.lines() {
        let Some((space, number)) = mount(line) else {
            skipped.note(line);
            continue;
        };
        if holds_files(&space) {
            // What is mounted over another hides it.
            found.insert(space.path.clone(), (space, number));
        }
    }
    let mut all: Vec<(Space, String)> = found.into_values().collect();
    // Of one that is mounted at several places the shortest tells; bind mounts of containers do not.
    all.sort_by_key(|(space, _)| space.path.len());
    let mut seen = BTreeSet::new();
    all.retain(|(_, number)| seen.insert(number.clone()));
    all.truncate(MOUNTS_MAX);
    let mut all: Vec<Space> = all.into_iter().map(|(space, _)| space).collect();
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all
}

/// One line of mountinfo, with the number of its device.
fn mount(line: &str) -> Option<(Space, String)> {
    let (place, what) = line.split_once(" - ")?;
    let place: Vec<&str> = place.split(' ').collect();
    let [_, _, number, _, path, options, ..] = place[..] else { return None };
    let mut what = what.split(' ');
    let (kind, device) = (what.next()?, what.next()?);
    let above = what.next().unwrap_or_default();
    let read_only = |options: &str| options.split(',').any(|option| option == "ro");
    let space = Space {
        path: unescaped(path),
        device: unescaped(device),
        kind: kind.to_owned(),
        read_only: read_only(options) || read_only(above),
        sizes: None,
    };
    Some((space, number.to_owned()))
}

fn holds_files(space: &Space) -> bool {
    let kind = space.kind.as_str();
    let has_device = space.device.starts_with('/');
    match kind {
        _ if NEVER.contains(&kind) => false,
        "tmpfs" => MEMORY.contains(&space.path.as_str()),
        // Of a container all that there is.
        "overlay" => space.path == "/",
        _ => has_device || WITHOUT_DEVICE.contains(&kind),
    }
}

/// `\040` is a blank.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                whole.push(char::from(code));
                whole.push_str(&part[3..]);
            }
            None => {
                whole.push('\\');
                whole.push_str(part);
            }
        }
    }
    whole
}

/// What `df -B1 --output=source,fstype,itotal,iavail,size,used,avail,target` says.
fn df(text: &str, skipped: &mut Skipped) -> Vec<Space> {
    let mut found = Vec::new();
    for line in text.lines().skip(1) {
        match df_line(line) {
            Some(space) if holds_files(&space) => found.push(space),
            Some(_) => {}
            None => skipped.note(line),
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn df_line(line: &str) -> Option<Space> {
    let mut words = line.split_ascii_whitespace();
    let (device, kind) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut number = || match words.next()? {
        "-" => Some(0),
        word => word.parse().ok(),
    };
    let (inodes, inodes_free) = (number()?, number()?);
    let sizes = Sizes { inodes, inodes_free, size: number()?, used: number()?, free: number()? };
    let path = words.collect::<Vec<_>>().join(" ");
    (!path.is_empty()).then_some(Space { path, device, kind, read_only: false, sizes: Some(sizes) })
}

#[cfg(test)]
mod tests {
    use super::{Reader, Sizes, Space, mounts, unescaped};
    use crate::files::{ReadError, Skipped};
    use crate::test_tree::tree;

    #[test]
    fn what_holds_files_is_told_once_and_what_does_not_is_not() {
        let text = "\
22 27 0:21 / /proc rw - proc proc rw
25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw,size=24683664k
26 24 0:24 / /run/user/0 rw - tmpfs tmpfs rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 254:0 /var/data /mnt/bound\\040here rw - ext4 /dev/vda rw
32 27 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro
33 27 0:50 / /work rw - lustre mgs@tcp:/work rw
34 27 0:51 / /home rw - nfs4 server:/home ro
35 27 0:52 / /net rw - autofs auto.net rw
36 27 0:53 / /var/lib/docker/overlay2/a/merged rw - overlay overlay rw
37 27 8:17 / /old rw - ext4 /dev/sdb1 rw
38 37 8:33 / /old rw - xfs /dev/sdc1 rw
what is this
";
        let mut skipped = Skipped::default();
        let found = mounts(text, &mut skipped);
        let seen: Vec<(&str, &str, bool)> = found
            .iter()
            .map(|space| (space.path.as_str(), space.kind.as_str(), space.read_only))
            .collect();
        let wanted = [
            ("/", "ext4", false),
            ("/dev/shm", "tmpfs", false),
            ("/home", "nfs4", true),
            ("/old", "xfs", false),
            ("/work", "lustre", false),
        ];
        assert_eq!(seen, wanted);
        assert_eq!(skipped.count, 1);
    }

    #[test]
    fn nearly_full_is_what_df_shows_as_nearly_full_of_bytes_or_of_inodes() {
        let space = |used, free, inodes, inodes_free| Space {
            sizes: Some(Sizes { size: 1_000, used, free, inodes, inodes_free }),
            ..Space::default()
        };
        assert!(!space(900, 50, 100, 50).nearly_full());
        assert!(space(960, 40, 100, 50).nearly_full());
        // Root keeps the rest for itself.
        assert!(space(930, 20, 0, 0).nearly_full());
        assert!(space(10, 990, 100, 4).nearly_full());
        assert!(!Space { read_only: true, ..space(1_000, 0, 0, 0) }.nearly_full());
        assert!(!Space::default().nearly_full());
        assert_eq!(Sizes::default().used_share(), None);
    }

    #[test]
    fn this_machine_has_a_root_with_a_size() {
        let mut reader = Reader::default();
        let found = reader.read("/".as_ref(), &mut Skipped::default()).expect("mounts");
        for space in &found {
            println!("{space:?} {}", space.nearly_full());
        }
        let whole = found.iter().filter_map(|space| space.sizes).all(|sizes| sizes.size > 0);
        assert!(whole, "{found:?}");
    }

    #[test]
    fn a_captured_machine_has_what_df_said() {
        let root = tree(
            r"commands/df.txt: Filesystem Type Inodes IFree 1B-blocks Used Avail Mounted on\n/dev/vda ext4 100 40 1000 600 300 /\nnone tmpfs 5 5 5 0 5 /run\nwork@tcp:/w lustre - - 9000 8900 100 /work a\nodd\n",
        );
        let mut skipped = Skipped::default();
        let found = Reader::default().read(root.path(), &mut skipped).expect("df");
        assert_eq!((found.len(), skipped.count), (2, 1));
        let sizes = Sizes { size: 1_000, used: 600, free: 300, inodes: 100, inodes_free: 40 };
        assert_eq!((found[0].path.as_str(), found[0].sizes), ("/", Some(sizes)));
        assert_eq!((found[1].path.as_str(), found[1].nearly_full()), ("/work a", true));
        let none = Reader::default().read(tree("").path(), &mut skipped);
        assert!(matches!(none, Err(ReadError::Absent(_))));
    }

    #[test]
    fn names_are_as_they_were() {
        for (told, name) in
            [("/a\\040b", "/a b"), ("/a\\134040", "/a\\040"), ("/a\\", "/a\\"), ("/a\\9", "/a\\9")]
        {
            assert_eq!(unescaped(told), name);
        }
    }
}
