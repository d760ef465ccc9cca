//! The Debian package, built with dpkg-deb from a staged tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::{need, root, sh};

/// Shells and where Debian keeps their completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/muster"),
    ("zsh", "usr/share/zsh/vendor-completions/_muster"),
    ("fish", "usr/share/fish/vendor_completions.d/muster.fish"),
];

/// Stages everything around the binary and packs it.
///
/// # Errors
/// A file is missing, or a tool fails.
pub(super) fn build(binary: &Path, out: &Path, version: &str) -> Result<PathBuf, String> {
    need::need("dpkg-dev", "dpkg-deb", "1.19").map_err(|skip| skip.reason)?;
    let stage = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tree = Tree(stage.path().join("muster"));
    tree.file(binary, "usr/bin/muster", 0o755)?;
    let packaging = root::dir().join("packaging");
    tree.file(
        &packaging.join("systemd/muster.service"),
        "usr/lib/systemd/system/muster.service",
        0o644,
    )?;
    tree.file(&packaging.join("muster.toml"), "etc/muster/muster.toml", 0o644)?;
    tree.documents()?;
    tree.links(binary)?;
    tree.manuals(binary)?;
    for (shell, path) in COMPLETIONS {
        let text = sh::read(sh::command(binary).args(["completions", shell]))?;
        tree.text(&text, path, 0o644)?;
    }
    tree.control(version)?;
    let package = out.join(format!("muster_{version}_{}.deb", architecture()?));
    let mut pack = sh::command("dpkg-deb");
    pack.args(["--root-owner-group", "--build"]).arg(&tree.0).arg(&package);
    sh::read(&mut pack)?;
    Ok(package)
}

/// The staged file system.
struct Tree(PathBuf);

impl Tree {
    fn path(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        Ok(path)
    }

    fn file(&self, from: &Path, name: &str, mode: u32) -> Result<(), String> {
        let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.bytes(&bytes, name, mode)
    }

    fn text(&self, text: &str, name: &str, mode: u32) -> Result<(), String> {
        self.bytes(text.as_bytes(), name, mode)
    }

    fn bytes(&self, bytes: &[u8], name: &str, mode: u32) -> Result<(), String> {
        let path = self.path(name)?;
        fs::write(&path, bytes)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    fn documents(&self) -> Result<(), String> {
        let top = root::dir();
        self.file(&top.join("README.md"), "usr/share/doc/muster/README.md", 0o644)?;
        self.file(&top.join("CHANGELOG.md"), "usr/share/doc/muster/changelog", 0o644)?;
        let notice = fs::read_to_string(top.join("NOTICE")).map_err(|error| error.to_string())?;
        let licence = "The full text of the licence is in /usr/share/common-licenses/Apache-2.0.";
        self.text(&format!("{notice}\n{licence}\n"), "usr/share/doc/muster/copyright", 0o644)
    }

    /// Slurm's names, relative, as `muster slurm-links` makes them for a user.
    fn links(&self, binary: &Path) -> Result<(), String> {
        let made = tempfile::tempdir().map_err(|error| error.to_string())?;
        sh::read(sh::command(binary).arg("slurm-links").arg(made.path()))?;
        for entry in fs::read_dir(made.path()).map_err(|error| error.to_string())?.flatten() {
            let name = format!("usr/lib/muster/slurm/{}", entry.file_name().to_string_lossy());
            symlink("../../../bin/muster", self.path(&name)?).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn manuals(&self, binary: &Path) -> Result<(), String> {
        let folder = self.path("usr/share/man/man1/x")?;
        let folder = folder.parent().unwrap_or(&folder);
        sh::read(sh::command(binary).arg("man").arg(folder))?;
        for entry in fs::read_dir(folder).map_err(|error| error.to_string())?.flatten() {
            // -n: the same input gives the same bytes.
            sh::read(sh::command("gzip").args(["-9n"]).arg(entry.path()))?;
        }
        Ok(())
    }

    fn control(&self, version: &str) -> Result<(), String> {
        let folder = root::dir().join("packaging/debian");
        for script in ["postinst", "prerm", "postrm"] {
            self.file(&folder.join(script), &format!("DEBIAN/{script}"), 0o755)?;
        }
        self.text("/etc/muster/muster.toml\n", "DEBIAN/conffiles", 0o644)?;
        let size = sh::read(sh::command("du").arg("-sk").arg(&self.0))?;
        let size = size.split_whitespace().next().unwrap_or("0").to_owned();
        let text = fs::read_to_string(folder.join("control")).map_err(|error| error.to_string())?;
        let text = text
            .replace("@VERSION@", version)
            .replace("@ARCHITECTURE@", &architecture()?)
            .replace("@DEPENDS@", &depends()?)
            .replace("@SIZE@", &size);
        self.text(&text, "DEBIAN/control", 0o644)
    }
}

fn architecture() -> Result<String, String> {
    Ok(sh::read(sh::command("dpkg").arg("--print-architecture"))?.trim().to_owned())
}

/// The C library of this machine, or a newer one.
fn depends() -> Result<String, String> {
    let version = sh::read(sh::command("dpkg-query").args(["-W", "-f", "${Version}", "libc6"]))?;
    Ok(format!("libc6 (>= {})", version.split('-').next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::build;
    use crate::{need, sh};

    /// Answers the questions that packing asks.
    const STAND_IN: &str = r##"#!/bin/sh
case $1 in
completions) echo "# $2" ;;
man) echo '.TH muster 1' > "$2/muster.1" ;;
slurm-links) ln -s /usr/bin/muster "$2/sbatch" ;;
esac
"##;

    #[test]
    fn a_package_has_everything_in_its_place() {
        if need::which("dpkg-deb").is_none() {
            eprintln!("skipped: dpkg-deb is not installed");
            return;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let text = dir.path().join("stand-in");
        let binary = dir.path().join("muster");
        fs::write(&text, STAND_IN).expect("the stand-in");
        // Copied by a process of its own: a file that another test's child still has open for
        // writing cannot be run.
        sh::read(sh::command("install").args(["-m", "755"]).arg(&text).arg(&binary))
            .expect("install");
        let package = build(&binary, dir.path(), "1.2.3").expect("a package");
        let list = sh::read(sh::command("dpkg-deb").arg("-c").arg(&package)).expect("its list");
        for wanted in [
            "root/root",
            "./usr/bin/muster",
            "./usr/lib/muster/slurm/sbatch -> ../../../bin/muster",
            "./usr/lib/systemd/system/muster.service",
            "./usr/share/man/man1/muster.1.gz",
            "./usr/share/zsh/vendor-completions/_muster",
            "./etc/muster/muster.toml",
        ] {
            assert!(list.contains(wanted), "{wanted} is not in\n{list}");
        }
        let fields = sh::read(sh::command("dpkg-deb").arg("-f").arg(&package)).expect("fields");
        assert!(fields.contains("Version: 1.2.3\n"), "{fields}");
        assert!(!fields.contains('@') || fields.matches('@').count() == 1, "{fields}");
        assert!(fields.contains("Depends: libc6 (>= "), "{fields}");
    }
}
