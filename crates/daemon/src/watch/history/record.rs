//! A stretch of time as it is kept: what every machine and node did in it, in few bytes.
//!
//! A record is its length, a checksum and a body. The body is the stretch, the names that are new in
//! this file, and of each subject its number, which figures are known, and each as the upper half of
//! a `f32`: eight significant bits, which no graph can show to be less than all.

use muster_node_metrics::past::{FIGURES, Figure, Point, Values};
use std::collections::BTreeMap;
use std::io::{self, Read};

/// A longer record is none.
const BODY_BYTES_MAX: usize = 32 << 20;

/// Length and checksum in front of each body.
const HEAD_BYTES: usize = 8;

/// The numbers of subjects in one file.
pub(super) type Names = BTreeMap<String, u64>;

/// When a stretch ended, seconds since 1970, and how long it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::watch) struct Stretch {
    pub(in crate::watch) end_s: i64,
    pub(in crate::watch) seconds: u32,
}

impl Stretch {
    /// The values of this stretch as a point.
    pub(super) fn point(self, values: &Values) -> Point {
        Point { end_ms: self.end_s * 1_000, ms: u64::from(self.seconds) * 1_000, values: *values }
    }
}

/// The bytes of a record; names that are new get the next numbers.
pub(super) fn encode(stretch: Stretch, did: &[(String, Values)], names: &mut Names) -> Vec<u8> {
    let (mut new, mut subjects) = (Vec::new(), Vec::with_capacity(16 * did.len()));
    for (name, values) in did {
        let at = names.get(name).copied().unwrap_or_else(|| {
            new.push(name);
            names.insert(name.clone(), names.len() as u64);
            names.len() as u64 - 1
        });
        number(&mut subjects, at);
        let (mut mask, mut known) = (0_u64, [0; 2 * FIGURES]);
        let mut length = 0;
        for (bit, value) in values.all().iter().enumerate() {
            let Some(value) = value else { continue };
            mask |= 1 << bit;
            known[length..length + 2].copy_from_slice(&upper_half(*value).to_le_bytes());
            length += 2;
        }
        number(&mut subjects, mask);
        subjects.extend_from_slice(&known[..length]);
    }
    let mut body = Vec::with_capacity(subjects.len() + 32);
    body.extend(stretch.end_s.to_le_bytes());
    body.extend(stretch.seconds.to_le_bytes());
    number(&mut body, new.len() as u64);
    for name in new {
        number(&mut body, name.len() as u64);
        body.extend(name.as_bytes());
    }
    number(&mut body, did.len() as u64);
    body.extend(subjects);
    let mut record = Vec::with_capacity(HEAD_BYTES + body.len());
    record.extend((body.len() as u32).to_le_bytes());
    record.extend(crc32fast::hash(&body).to_le_bytes());
    record.extend(body);
    record
}

/// Rounded to the nearest.
fn upper_half(value: f64) -> u16 {
    let bits = (value as f32).min(f32::MAX).to_bits();
    (bits.saturating_add(0x8000).min(0x7f7f_ffff) >> 16) as u16
}

fn whole(half: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(half) << 16))
}

/// Seven bits a byte, the last without the eighth.
fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the records of one file, up to the first that is not whole.
pub(super) struct Records<R> {
    from: R,
    /// Names by their numbers.
    names: Vec<String>,
    /// How far the whole ones go.
    pub(super) good_bytes: u64,
    body: Vec<u8>,
}

impl<R: Read> Records<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, names: Vec::new(), good_bytes: 0, body: Vec::new() }
    }

    /// The numbers of all names so far.
    pub(super) fn names(&self) -> Names {
        self.names.iter().zip(0..).map(|(name, at)| (name.clone(), at)).collect()
    }

    /// The next one: when it was; what was done in it is read by [`Self::each`]. None at the end.
    pub(super) fn next(&mut self) -> Option<(Stretch, usize)> {
        let mut head = [0; HEAD_BYTES];
        self.from.read_exact(&mut head).ok()?;
        let [a, b, c, d, rest @ ..] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > BODY_BYTES_MAX {
            return None;
        }
        self.body.clear();
        let read = self.from.by_ref().take(length as u64).read_to_end(&mut self.body);
        let whole = read.is_ok_and(|read| read == length);
        if !whole || crc32fast::hash(&self.body) != u32::from_le_bytes(rest) {
            return None;
        }
        let mut cursor = Cursor(&self.body);
        let end_s = i64::from_le_bytes(cursor.array()?);
        let seconds = u32::from_le_bytes(cursor.array()?);
        for _ in 0..cursor.number()? {
            let length = cursor.number()?;
            let name = cursor.take(usize::try_from(length).ok()?)?;
            self.names.push(String::from_utf8_lossy(name).into_owned());
        }
        self.good_bytes += (HEAD_BYTES + length) as u64;
        Some((Stretch { end_s, seconds }, length - cursor.0.len()))
    }

    /// What each subject did in the record that was read last; `at` is where [`Self::next`] said.
    pub(super) fn each(&self, at: usize, mut see: impl FnMut(&str, Values)) -> Option<()> {
        let mut cursor = Cursor(self.body.get(at..)?);
        for _ in 0..cursor.number()? {
            let (name, values) = cursor.subject()?;
            see(self.names.get(usize::try_from(name).ok()?)?, values);
        }
        Some(())
    }

    /// What one subject did in it.
    pub(super) fn of(&self, at: usize, wanted: &str) -> Option<Values> {
        let wanted = self.names.iter().position(|name| name == wanted)? as u64;
        let mut cursor = Cursor(self.body.get(at..)?);
        for _ in 0..cursor.number()? {
            let name = cursor.number()?;
            if name == wanted {
                return cursor.values();
            }
            let mask = cursor.number()?;
            cursor.take(2 * mask.count_ones() as usize)?;
        }
        None
    }
}

/// What is left of a body.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn subject(&mut self) -> Option<(u64, Values)> {
        Some((self.number()?, self.values()?))
    }

    fn values(&mut self) -> Option<Values> {
        let mut mask = self.number()?;
        let mut values = Values::default();
        while mask != 0 {
            let value = whole(u16::from_le_bytes(self.array()?));
            // Figures that a later release knows are passed over.
            if let Some(figure) = Figure::ALL.get(mask.trailing_zeros() as usize) {
                values.set(*figure, Some(value));
            }
            mask &= mask - 1;
        }
        Some(values)
    }
}

/// A file's records as a reader.
pub(super) fn open(path: &std::path::Path) -> io::Result<Records<io::BufReader<std::fs::File>>> {
    Ok(Records::new(io::BufReader::with_capacity(1 << 16, std::fs::File::open(path)?)))
}

#[cfg(test)]
mod tests {
    use super::{Names, Records, Stretch, encode, upper_half, whole};
    use muster_node_metrics::past::{Figure, Values};

    fn values(load: f64) -> Values {
        let mut values = Values::default();
        values.set(Figure::Load, Some(load));
        values.set(Figure::GpusHeld, Some(8.0));
        values
    }

    fn file() -> Vec<u8> {
        let mut names = Names::new();
        let did = |names: &[&str]| {
            names.iter().map(|name| ((*name).to_owned(), values(1.0))).collect::<Vec<_>>()
        };
        let stretch = |end_s| Stretch { end_s, seconds: 60 };
        let mut bytes = encode(stretch(60), &did(&["", "node1"]), &mut names);
        bytes.extend(encode(stretch(120), &did(&["node2", "node1"]), &mut names));
        bytes
    }

    fn seen(bytes: &[u8]) -> Vec<(i64, String, Values)> {
        let (mut records, mut all) = (Records::new(bytes), Vec::new());
        while let Some((stretch, at)) = records.next() {
            records
                .each(at, |name, values| all.push((stretch.end_s, name.to_owned(), values)))
                .expect("a whole body");
        }
        all
    }

    #[test]
    fn what_was_written_is_read() {
        let found = seen(&file());
        let names: Vec<(i64, &str)> =
            found.iter().map(|(end, name, _)| (*end, name.as_str())).collect();
        assert_eq!(names, [(60, ""), (60, "node1"), (120, "node2"), (120, "node1")]);
        assert!(found.iter().all(|(.., found)| *found == values(1.0)));
        let bytes = file();
        let mut records = Records::new(&bytes[..]);
        let (_, at) = records.next().expect("the first");
        assert_eq!(records.of(at, "node1"), Some(values(1.0)));
        assert_eq!(records.of(at, "node2"), None);
    }

    #[test]
    fn a_file_that_was_cut_or_spoilt_anywhere_is_read_up_to_there() {
        let whole = file();
        let first = seen(&whole[..whole.len() - 1]).len();
        assert_eq!(first, 2);
        for at in 0..whole.len() {
            assert!(seen(&whole[..at]).len() <= first, "{at}");
            let mut spoilt = whole.clone();
            spoilt[at] ^= 0x55;
            assert!(seen(&spoilt).len() <= first, "{at}");
        }
        // What a crash leaves of a file that grew: nothing but zeros.
        let mut zeros = whole.clone();
        zeros.extend([0; 64]);
        assert_eq!(seen(&zeros).len(), 4);
    }

    #[test]
    fn values_lose_less_than_a_graph_can_show() {
        for value in [0.0, 1.0, 3.0, 128.0, 255.0, 0.31, 1e-9, 7.3e11, 1e300] {
            let found = whole(upper_half(value));
            let wanted = value.min(f64::from(f32::MAX));
            assert!((found - wanted).abs() <= wanted / 250.0, "{value} {found}");
            assert!(found.is_finite());
        }
        assert_eq!(whole(upper_half(200.0)).to_bits(), 200.0_f64.to_bits());
    }

    #[test]
    fn a_node_costs_eleven_bytes_a_stretch() {
        let mut names = Names::new();
        let mut held = Values::default();
        for figure in [Figure::CpusHeld, Figure::MemoryHeld, Figure::GpusHeld] {
            held.set(figure, Some(1.0));
        }
        let did: Vec<_> = (0..1_000).map(|at| (format!("node{at}"), held)).collect();
        let stretch = Stretch { end_s: 60, seconds: 60 };
        encode(stretch, &did, &mut names);
        let again = encode(stretch, &did, &mut names);
        assert!(again.len() <= 11 * 1_000 + 32, "{}", again.len());
    }
}
