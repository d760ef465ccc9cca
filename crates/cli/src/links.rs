//! `muster slurm-links`: Slurm's names as links to this program, in a directory of their own.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::say::{Failure, Outcome, note, print};

/// Makes the links and prints the line that puts them first in PATH.
pub(crate) fn run(dir: Option<PathBuf>, names: &[&str]) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("where this program lies: {error}")))?;
    let dir = dir.unwrap_or_else(|| state_dir().join("slurm-bin"));
    make(&dir, &program, names)?;
    let dir = dir.canonicalize().unwrap_or(dir);
    note(&format!("{} links are in {}; put them first in PATH:", names.len(), dir.display()));
    print(&format!("export PATH={}:$PATH\n", shell_word(&dir.to_string_lossy())));
    Ok(0)
}

/// Makes every link; one that is there already and is a link is made anew.
fn make(dir: &Path, program: &Path, names: &[&str]) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::new(format!("{}: {error} [E_LINK]", path.display()))
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for name in names {
        let link = dir.join(name);
        match link.symlink_metadata() {
            Ok(there) if !there.file_type().is_symlink() => {
                return Err(Failure::new(format!(
                    "{} is there and is no link [E_LINK]\nhint: name a directory of its own for muster's links",
                    link.display()
                )));
            }
            Ok(_) => std::fs::remove_file(&link).map_err(|error| failed(&link, error))?,
            Err(_) => {}
        }
        symlink(program, &link).map_err(|error| failed(&link, error))?;
    }
    Ok(())
}

/// As the daemon finds it (DESIGN.md, section 9).
fn state_dir() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = variable("MUSTER_STATE") {
        return dir.into();
    }
    if nix::unistd::Uid::effective().is_root() {
        return "/var/lib/muster".into();
    }
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    variable("XDG_STATE_HOME").map(PathBuf::from).or_else(home).unwrap_or_default().join("muster")
}

/// As a shell reads it back.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=,@%".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_anew_and_files_are_left_alone() {
        let dir = tempfile::tempdir().expect("directory");
        let bin = dir.path().join("bin");
        for _ in 0..2 {
            make(&bin, Path::new("/usr/bin/muster"), &["sbatch", "squeue"]).expect("made");
        }
        assert_eq!(
            std::fs::read_link(bin.join("squeue")).expect("a link"),
            Path::new("/usr/bin/muster")
        );
        std::fs::remove_file(bin.join("sbatch")).expect("removed");
        std::fs::write(bin.join("sbatch"), "#!/bin/sh\n").expect("written");
        let refused = make(&bin, Path::new("/x"), &["sbatch"]).expect_err("refused");
        assert!(refused.text.contains("is no link"), "{}", refused.text);
    }

    #[test]
    fn odd_paths_are_quoted() {
        assert_eq!(shell_word("/a b"), "'/a b'");
        assert_eq!(shell_word("/opt/muster-1.0/bin"), "/opt/muster-1.0/bin");
    }
}
