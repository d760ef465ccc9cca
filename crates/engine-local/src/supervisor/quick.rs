//! The quick start of a script: a child that borrows the supervisor's memory until it runs.
//!
//! Copying an address space, and faulting its pages in again on both sides, costs more than the
//! program of a short job. A borrower (`CLONE_VM`, `CLONE_VFORK`) copies nothing, but the supervisor
//! stands still until the program runs, so nothing in here may wait: a directory on a network that
//! is away, or a named pipe that nobody reads, must not keep it from its clock and its orders. Paths
//! are walked only as far as the kernel knows them already (`RESOLVE_CACHED`, Linux 5.12), files
//! must lie on a local disk, and whatever is not as usual is left to `child.rs`, which forks,
//! may wait, and says what is wrong. Should a child stand still all the same (its user may stop it
//! as soon as it is his), an alarm ends the supervisor, and the daemon ends the job.
// Memory is lent to the child, which runs on a stack of its own.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::child::{
    CLONE_INTO_CGROUP, ChildSpec, Executable, Streams, c_string, output_flags, prepare_process,
};

/// Memory for the child's stack.
const STACK_BYTES: usize = 256 << 10;
/// Its variable that only the child knows; a process number has at most ten digits.
const TASK_PID: &[u8] = b"SLURM_TASK_PID=";
/// How long a child may take; it needs a fraction of a millisecond.
const ALARM_S: libc::c_uint = 60;
/// The part of the job's memory that the program's words and environment may fill: where the kernel
/// runs out of it before the program runs, it would kill all who share the child's memory.
const MEMORY_PART: u64 = 4;
/// `RESOLVE_CACHED` of `<linux/openat2.h>`: fail rather than ask a disk or a server.
const RESOLVE_CACHED: u64 = 0x20;
/// `AT_STATX_DONT_SYNC` of `<linux/stat.h>`.
const DONT_SYNC: libc::c_int = 0x4000;

/// Everything the child works with.
struct Plan<'a> {
    spec: &'a ChildSpec<'a>,
    interpreter: CString,
    script: CString,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    task_pid: Cell<[u8; 32]>,
    cwd: CString,
    output: Option<Target>,
    error: Option<Target>,
    flags: OFlag,
    /// The child sets it when only the program is missing.
    prepared: Cell<bool>,
    /// The child sets it when it gives up.
    refused: Cell<bool>,
}

/// A file to write to: the directory, where it is another than the working directory, and the name.
struct Target {
    directory: Option<CString>,
    name: CString,
}

/// Starts a script; `None` where that needs the long way. `memory_mib` is the job's limit.
pub(super) fn start(spec: &ChildSpec<'_>, memory_mib: Option<u64>) -> Option<Pid> {
    let Executable::Script { path, arguments, text } = &spec.program else { return None };
    let Streams::Files { input: None, output, error, open_mode } = &spec.streams else {
        return None;
    };
    let birthplace =
        spec.group.birthplace().filter(|_| !spec.owns_terminal && spec.transcript.is_none())?;
    let bytes: usize = spec.environment.iter().map(|variable| variable.as_bytes().len() + 9).sum();
    let bytes = bytes + arguments.iter().map(|word| word.len() + 9).sum::<usize>();
    if memory_mib.is_some_and(|mib| (mib << 20) / MEMORY_PART < bytes as u64) {
        return None;
    }
    let words: Vec<CString> = arguments.iter().map(|a| c_string(a.as_bytes())).collect();
    let error = error.filter(|error| Some(*error) != *output);
    let mut plan = Plan {
        spec,
        interpreter: c_string(interpreter(text)?.as_bytes()),
        script: c_string(path.as_os_str().as_bytes()),
        arguments: Vec::with_capacity(words.len() + 2),
        environment: Vec::with_capacity(spec.environment.len() + 2),
        task_pid: Cell::new([0; 32]),
        cwd: c_string(spec.cwd.as_bytes()),
        output: output.map(Target::of),
        error: error.map(Target::of),
        flags: output_flags(*open_mode),
        prepared: Cell::new(false),
        refused: Cell::new(false),
    };
    plan.arguments.push(plan.script.as_ptr());
    plan.arguments.extend(words.iter().map(|word| word.as_ptr()));
    plan.arguments.push(std::ptr::null());
    plan.environment.extend(spec.environment.iter().map(|variable| variable.as_ptr()));
    plan.environment.push(plan.task_pid.as_ptr().cast());
    plan.environment.push(std::ptr::null());
    let pid = plan.launch(birthplace)?;
    if plan.prepared.get() && !plan.refused.get() {
        return Some(pid);
    }
    // It ends at once, and what it left undone is done again from the start.
    waitpid(pid, None).ok();
    None
}

/// The program that the kernel runs for a script, by its first line.
fn interpreter(text: &str) -> Option<&str> {
    let line = text.strip_prefix("#!")?.lines().next()?;
    line.split([' ', '\t', '\r']).find(|word| !word.is_empty()).filter(|word| word.starts_with('/'))
}

impl Target {
    fn of(path: &str) -> Self {
        let (directory, name) = match path.rsplit_once('/') {
            Some(("", name)) => (Some("/"), name),
            Some((directory, name)) => (Some(directory), name),
            None => (None, path),
        };
        let directory = directory.map(|directory| c_string(directory.as_bytes()));
        Self { directory, name: c_string(name.as_bytes()) }
    }

    fn is_null(&self) -> bool {
        self.name.as_bytes() == b"null"
            && self.directory.as_ref().is_some_and(|d| d.as_bytes() == b"/dev")
    }

    /// Opens it below the working directory.
    fn open(&self, flags: OFlag) -> Option<OwnedFd> {
        let directory = match &self.directory {
            Some(directory) => Some(known_directory(directory)?),
            None => None,
        };
        let at = directory.as_ref().map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        // SAFETY: the name ends with a zero byte and lives over the call.
        let fd = unsafe { libc::openat(at, self.name.as_ptr(), flags.bits(), 0o666) };
        if fd < 0 {
            return None;
        }
        // SAFETY: just made by the kernel for us.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let found = about(fd)?;
        if found.kind != libc::S_IFREG || !found.local {
            return None;
        }
        // SAFETY: the descriptor is open; a program must not find it non-blocking.
        unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND) };
        Some(file)
    }
}

impl Plan<'_> {
    /// Lends this process's memory to a child in the cgroup until it runs its program or gives up.
    fn launch(&self, birthplace: &Path) -> Option<Pid> {
        let directory = open(
            birthplace,
            OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        let arguments = libc::clone_args {
            flags: CLONE_INTO_CGROUP | (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
            exit_signal: libc::SIGCHLD as u64,
            cgroup: directory.as_raw_fd() as u64,
            stack: stack() as u64,
            stack_size: STACK_BYTES as u64,
            // SAFETY: zero means "not used" for every other field.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: the child runs `in_child` on the stack given and never returns from it; this
        // process, which has one thread, stands still meanwhile, so that the plan and everything
        // it points to stay as they are and the allocator is used by one of the two at a time.
        let pid = unsafe {
            libc::alarm(ALARM_S);
            let pid = clone_and_call(&arguments, in_child, (&raw const *self).cast());
            libc::alarm(0);
            pid
        };
        i32::try_from(pid).ok().filter(|pid| *pid > 0).map(Pid::from_raw)
    }

    /// In the child: everything up to the program; `None` where the long way is needed.
    fn carry_out(&self) -> Option<()> {
        prepare_process(self.spec, true).ok()?;
        self.note_pid();
        known_file(&self.interpreter)?;
        let cwd = known_directory(&self.cwd)?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::fchdir(cwd.as_raw_fd()) } != 0 {
            return None;
        }
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
        put(null.as_raw_fd(), 0)?;
        self.connect(self.output.as_ref(), &null, 1)?;
        match &self.error {
            Some(error) => self.connect(Some(error), &null, 2)?,
            None => put(1, 2)?,
        }
        self.prepared.set(true);
        // SAFETY: both lists end with a null pointer and point to strings that live in the plan.
        unsafe {
            let (words, variables) = (self.arguments.as_ptr(), self.environment.as_ptr());
            libc::execve(self.script.as_ptr(), words, variables);
        }
        None
    }

    fn connect(&self, target: Option<&Target>, null: &OwnedFd, number: RawFd) -> Option<()> {
        match target.filter(|target| !target.is_null()) {
            Some(target) => put(target.open(self.flags)?.as_raw_fd(), number),
            None => put(null.as_raw_fd(), number),
        }
    }

    fn note_pid(&self) {
        let mut text = [0; 32];
        text[..TASK_PID.len()].copy_from_slice(TASK_PID);
        let (mut digits, mut rest, mut length) = ([0; 10], std::process::id(), 0);
        while length == 0 || rest > 0 {
            digits[length] = b'0' + (rest % 10) as u8;
            (rest, length) = (rest / 10, length + 1);
        }
        digits[..length].reverse();
        text[TASK_PID.len()..TASK_PID.len() + length].copy_from_slice(&digits[..length]);
        self.task_pid.set(text);
    }
}

extern "C" fn in_child(plan: *const libc::c_void) -> ! {
    // SAFETY: `Plan::launch` gives a plan that lives as long as this child borrows its memory.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    // Comes back only where the program does not run.
    plan.carry_out();
    plan.refused.set(true);
    // SAFETY: ends the child at once, without the supervisor's own exit handling.
    unsafe { libc::_exit(1) }
}

/// The lowest address of the child's stack: one for the whole life of this process.
fn stack() -> usize {
    static STACK: OnceLock<usize> = OnceLock::new();
    *STACK.get_or_init(|| {
        Box::leak(vec![0_u128; STACK_BYTES / 16].into_boxed_slice()).as_ptr() as usize
    })
}

/// Makes a child that calls `work` on the stack of `arguments`; gives its number, or an error below
/// zero.
///
/// # Safety
/// `arguments` name a stack of enough bytes, aligned to 16, and share memory until `work` is done
/// with it.
#[cfg(target_arch = "x86_64")]
unsafe fn clone_and_call(
    arguments: &libc::clone_args,
    work: extern "C" fn(*const libc::c_void) -> !,
    with: *const libc::c_void,
) -> i64 {
    let result: i64;
    // SAFETY: the child continues behind `syscall` with an empty stack of its own, touches no
    // other, and ends in `work`; the parent sees a system call that changes these registers.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") arguments,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") with,
            in("r13") work,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The switch to the child's stack is written for one kind of processor; others go the long way.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn clone_and_call(
    _: &libc::clone_args,
    _: extern "C" fn(*const libc::c_void) -> !,
    _: *const libc::c_void,
) -> i64 {
    -i64::from(libc::ENOSYS)
}

/// A directory on a local disk, found without waiting.
fn known_directory(path: &CString) -> Option<OwnedFd> {
    known(path, libc::O_DIRECTORY)
}

/// A file on a local disk, found without waiting.
fn known_file(path: &CString) -> Option<OwnedFd> {
    known(path, 0)
}

fn known(path: &CString, flags: libc::c_int) -> Option<OwnedFd> {
    // `struct open_how`: flags, mode, resolve.
    let how = [(flags | libc::O_PATH | libc::O_CLOEXEC) as u64, 0, RESOLVE_CACHED];
    // SAFETY: the path ends with a zero byte, and both live over the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            how.as_ptr(),
            size_of_val(&how),
        )
    };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: just made by the kernel for us.
    let found = unsafe { OwnedFd::from_raw_fd(fd) };
    about(fd).filter(|about| about.local).map(|_| found)
}

/// What a descriptor leads to.
struct About {
    kind: libc::mode_t,
    /// It lies on a block device of this machine.
    local: bool,
}

/// Looks without asking a server (`statx`, whose fields are counted in 32 bits here).
fn about(fd: RawFd) -> Option<About> {
    let mut found = [0_u32; 64];
    let flags = libc::AT_EMPTY_PATH | DONT_SYNC;
    // SAFETY: `struct statx` has 256 bytes.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_statx,
            fd,
            c"".as_ptr(),
            flags,
            libc::STATX_TYPE,
            found.as_mut_ptr(),
        )
    };
    let (mode, major) = (found[7] & 0xffff, found[34]);
    (failed == 0).then_some(About { kind: mode & libc::S_IFMT, local: major != 0 })
}

fn put(fd: RawFd, target: RawFd) -> Option<()> {
    // A child of a process whose own standard streams are open never gets one of their numbers.
    // SAFETY: both are valid numbers; the copy stays open over exec.
    (fd != target && unsafe { libc::dup2(fd, target) } >= 0).then_some(())
}
