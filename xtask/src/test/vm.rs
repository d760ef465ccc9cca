//! cgroup v2 on a kernel of its own: a small virtual machine with Debian's kernel, busybox and
//! muster, for machines (such as many containers and CI hosts) that have cgroup v1.

use std::path::{Path, PathBuf};

use super::Options;
use crate::stage::{Outcome, Report, Skip};
use crate::{need, root, sh};

/// Emulated in software: a boot takes seconds, the checks about a minute.
const LIMIT_S: &str = "600";

/// The checks of `xtask/vm/checks.sh`, in the machine; only in a long run.
pub(super) fn checks(options: &Options, report: &mut Report) {
    report.check("cgroup v2 in a virtual machine", || {
        if !options.long {
            return Err(Skip::unavoidable("only in a long run (--long)").into());
        }
        run()
    });
}

fn run() -> Outcome {
    let qemu = need::need("qemu-system-x86", "qemu-system-x86_64", "")?;
    need::need("busybox-static", "busybox", "")?;
    need::need("cpio", "cpio", "")?;
    let dir = root::target().join("vm");
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let kernel = kernel(&dir)?;
    let image = image(&dir)?;
    let mut machine = sh::command("timeout");
    machine.args(["-k", "10", LIMIT_S]).arg(&qemu.path);
    machine.args(["-accel", "tcg", "-m", "1024", "-smp", "2", "-nographic", "-no-reboot"]);
    machine.arg("-kernel").arg(kernel).arg("-initrd").arg(image);
    machine.args(["-append", "console=ttyS0 quiet panic=-1"]);
    let said = sh::read(&mut machine)?;
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| l.starts_with("vm:")).collect();
    println!("{}", lines.join("\n"));
    if lines.contains(&"vm: all passed") {
        return Ok(format!("{} checks", lines.iter().filter(|l| l.starts_with("vm: ok")).count()));
    }
    let end: Vec<&str> = said.lines().rev().take(30).collect();
    println!("{}", end.into_iter().rev().collect::<Vec<_>>().join("\n"));
    Err(format!("the machine's checks failed: {}", lines.last().unwrap_or(&"no output")).into())
}

/// Debian's kernel for virtual machines, unpacked and not installed.
fn kernel(dir: &Path) -> Result<PathBuf, String> {
    let boot = dir.join("kernel/boot");
    if let Some(kernel) = vmlinuz(&boot) {
        return Ok(kernel);
    }
    // The meta package depends on the one that holds the kernel.
    let depends = sh::read(sh::command("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .ok_or("linux-image-cloud-amd64 depends on nothing")?;
    sh::run(sh::command("apt-get").current_dir(dir).args(["download", "-qq", package]))?;
    let archive = std::fs::read_dir(dir)
        .map_err(|error| format!("{}: {error}", dir.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|end| end == "deb"))
        .ok_or("the kernel's package was not downloaded")?;
    sh::run(sh::command("dpkg-deb").arg("-x").arg(archive).arg(dir.join("kernel")))?;
    vmlinuz(&boot).ok_or_else(|| "the kernel's package holds no kernel".to_owned())
}

fn vmlinuz(boot: &Path) -> Option<PathBuf> {
    std::fs::read_dir(boot)
        .ok()?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz")))
}

/// An initial file system: busybox, muster with the libraries it asks for, and the checks.
fn image(dir: &Path) -> Result<PathBuf, String> {
    sh::run(&mut sh::cargo(&["build", "--release", "--locked", "--package", "muster"]))?;
    let tree = dir.join("tree");
    let _ = std::fs::remove_dir_all(&tree);
    for folder in ["bin", "proc", "sys", "dev", "tmp", "run", "root", "etc", "lib64"] {
        std::fs::create_dir_all(tree.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    }
    let busybox = need::which("busybox").ok_or("busybox is not there")?;
    let muster = root::target().join("release/muster");
    copy(&busybox, &tree.join("bin/busybox"))?;
    copy(&muster, &tree.join("bin/muster"))?;
    for library in libraries(&muster) {
        let inside = library.strip_prefix("/").unwrap_or(&library);
        copy(&library, &tree.join(inside))?;
    }
    for name in ["init", "checks.sh"] {
        copy(&root::dir().join("xtask/vm").join(name), &tree.join(name))?;
    }
    let write = |name: &str, text: &str| {
        std::fs::write(tree.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")?;
    write("etc/group", "root:x:0:\n")?;
    let image = dir.join("image.cpio");
    let pack = format!("find . | cpio --quiet -o -H newc -F {}", image.display());
    sh::run(
        sh::command("sh").current_dir(&tree).args(["-c", &format!("chmod +x init && {pack}")]),
    )?;
    Ok(image)
}

/// The shared libraries of a program, with the loader; none where it is static.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let Ok(said) = sh::read(sh::command("ldd").arg(program)) else { return Vec::new() };
    let path = |line: &str| line.split_whitespace().find(|w| w.starts_with('/')).map(PathBuf::from);
    said.lines().filter_map(path).collect()
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}
