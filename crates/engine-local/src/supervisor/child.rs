//! Starting one process of a job: as its user, in its cgroup, with its streams.
//!
//! Everything that can be refused because of who the user is happens after the change of user, so
//! that the kernel judges it by the user's rights: entering the directory, opening the streams,
//! running the program. A child that cannot go on says why through a pipe that a successful exec
//! closes.
// Fork and what follows it in the child.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, pipe2};
use serde::{Deserialize, Serialize};

use super::transcript::Sender;
use crate::cgroup::Group;
use crate::spec::{OpenMode, ResourceLimit, UserSpec};

/// One process to start.
pub(crate) struct ChildSpec<'a> {
    pub(crate) program: Executable<'a>,
    pub(crate) environment: Vec<CString>,
    pub(crate) cwd: &'a str,
    pub(crate) umask: u32,
    pub(crate) resources: &'a [ResourceLimit],
    pub(crate) user: &'a UserSpec,
    pub(crate) group: &'a Group,
    pub(crate) streams: Streams<'a>,
    /// Standard input is a terminal that the process shall own.
    pub(crate) owns_terminal: bool,
    /// A file that the supervisor shall have, opened by the user.
    pub(crate) transcript: Option<TranscriptFile<'a>>,
    /// CPUs to stay on; empty leaves it as it is.
    pub(crate) cpus: &'a [u32],
    /// Said on its standard error before the program runs; `{pid}` is its number.
    pub(crate) notice: &'a str,
}

/// What to run.
pub(crate) enum Executable<'a> {
    /// The script at this path, with this text and its arguments.
    Script { path: &'a Path, text: &'a str, arguments: &'a [String] },
    /// A program found through `PATH`, with its arguments.
    Command { argv: &'a [String] },
}

/// Where the standard streams come from.
pub(crate) enum Streams<'a> {
    /// Files that the user opens.
    Files {
        input: Option<&'a str>,
        output: Option<&'a str>,
        error: Option<&'a str>,
        open_mode: OpenMode,
    },
    /// Descriptors that are open already; absent is nowhere.
    Descriptors([Option<RawFd>; 3]),
}

/// Where what a terminal shows is written to.
pub(crate) struct TranscriptFile<'a> {
    pub(crate) path: &'a str,
    pub(crate) open_mode: OpenMode,
    /// The user named it: without it the job does not start.
    pub(crate) required: bool,
    pub(super) sender: Sender,
}

/// Why a process could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartFailure {
    /// What a shell would exit with: 127 for "not found", 126 for "may not be run", else 1.
    pub(crate) code: u8,
    /// What was tried and what the system said.
    pub(crate) message: String,
}

impl StartFailure {
    fn new(what: &str, errno: Errno) -> Self {
        Self { code: 1, message: format!("{what}: {}", errno.desc()) }
    }
}

/// A process on its way to exec.
pub(crate) struct Started {
    pub(crate) pid: Pid,
    /// Closed without a word when the program runs; else says why it does not.
    pub(crate) verdict: OwnedFd,
}

/// Reads a verdict that has become readable; `None` when the program runs.
pub(crate) fn read_verdict(verdict: OwnedFd) -> Option<StartFailure> {
    use std::io::Read;
    let mut text = Vec::new();
    let read = std::fs::File::from(verdict).take(64 << 10).read_to_end(&mut text);
    if read.is_ok() && text.is_empty() {
        return None;
    }
    Some(serde_json::from_slice(&text).unwrap_or_else(|_| StartFailure {
        code: 1,
        message: "the process died before its program ran".to_owned(),
    }))
}

/// Forks the child; what follows is its own matter.
pub(crate) fn start(spec: &ChildSpec<'_>) -> io::Result<Started> {
    let (verdict, report) = pipe2(OFlag::O_CLOEXEC)?;
    let (result, born_here) = fork_into(spec.group)?;
    match result {
        ForkResult::Parent { child } => Ok(Started { pid: child, verdict }),
        ForkResult::Child => {
            let failure = become_program(spec, born_here);
            let text = serde_json::to_vec(&failure).unwrap_or_default();
            std::fs::File::from(report).write_all(&text).ok();
            // SAFETY: ends the child at once, without the supervisor's own exit handling.
            unsafe { libc::_exit(i32::from(failure.code)) }
        }
    }
}

/// Forks into the group's cgroup where the kernel can (`CLONE_INTO_CGROUP`, Linux 5.7); says
/// whether it did.
fn fork_into(group: &Group) -> io::Result<(ForkResult, bool)> {
    if let Some(path) = group.birthplace() {
        let directory =
            open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let arguments = libc::clone_args {
            flags: CLONE_INTO_CGROUP,
            exit_signal: libc::SIGCHLD as u64,
            cgroup: directory.as_raw_fd() as u64,
            // SAFETY: zero means "not used" for every other field.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: without a stack and CLONE_VM it is a fork. This process has one thread, so the
        // child may allocate and call anything.
        let pid = unsafe {
            libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
        };
        match pid {
            0 => return Ok((ForkResult::Child, true)),
            1.. => return Ok((ForkResult::Parent { child: Pid::from_raw(pid as i32) }, true)),
            // An older kernel, or a filter that does not know the call.
            _ => {}
        }
    }
    // SAFETY: as above.
    Ok((unsafe { fork() }?, false))
}

/// `CLONE_INTO_CGROUP` of `<linux/sched.h>`.
pub(super) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Turns this process into the program; returns only when that failed.
fn become_program(spec: &ChildSpec<'_>, born_here: bool) -> StartFailure {
    match prepare(spec, born_here) {
        Ok(()) => {
            let mut environment = spec.environment.clone();
            environment.push(c_string(format!("SLURM_TASK_PID={}", std::process::id()).as_bytes()));
            execute(&spec.program, &environment)
        }
        Err(failure) => failure,
    }
}

fn prepare(spec: &ChildSpec<'_>, born_here: bool) -> Result<(), StartFailure> {
    prepare_process(spec, born_here)?;
    enter_directory(spec.cwd)?;
    connect_streams(&spec.streams, spec.cwd)?;
    if let Some(transcript) = &spec.transcript {
        hand_over(transcript, spec.cwd)?;
    }
    if spec.owns_terminal {
        // SAFETY: descriptor 0 is open; the request takes no pointer.
        unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
    }
    if !spec.notice.is_empty() {
        let text = spec.notice.replace("{pid}", &std::process::id().to_string());
        // A reader that is gone misses it.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Ok(())
}

/// Everything before the first look at the user's files: who and where the process is.
pub(super) fn prepare_process(spec: &ChildSpec<'_>, born_here: bool) -> Result<(), StartFailure> {
    // The group is entered first: from here on nothing escapes it.
    spec.group.enter(born_here).map_err(|e| StartFailure {
        code: 1,
        message: format!("cannot enter the job's cgroup: {e}"),
    })?;
    // A new session; fails only for a leader, which a fresh child is not.
    nix::unistd::setsid().map_err(|e| StartFailure::new("cannot start a session", e))?;
    reset_signals();
    set_limits(spec.resources);
    set_affinity(spec.cpus);
    become_user(spec.user)?;
    nix::sys::stat::umask(Mode::from_bits_truncate(spec.umask));
    Ok(())
}

/// Ignored and blocked signals are inherited by programs, and Rust ignores SIGPIPE.
fn reset_signals() {
    for signal in 1..32 {
        // SAFETY: setting the default action; KILL and STOP refuse, which is fine.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let none = nix::sys::signal::SigSet::empty();
    // Cannot fail with a valid set.
    none.thread_set_mask().ok();
}

fn set_limits(resources: &[ResourceLimit]) {
    for limit in resources {
        let wanted = libc::rlimit {
            rlim_cur: limit.soft.unwrap_or(libc::RLIM_INFINITY),
            rlim_max: limit.hard.unwrap_or(libc::RLIM_INFINITY),
        };
        // SAFETY: `wanted` and `own` are valid for the calls.
        let refused = unsafe { libc::setrlimit(limit.resource, &raw const wanted) } != 0;
        if refused {
            let mut own = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: as above. A limit above our own is cut to ours, as Slurm does.
            unsafe {
                libc::getrlimit(limit.resource, &raw mut own);
                own.rlim_cur = wanted.rlim_cur.min(own.rlim_max);
                libc::setrlimit(limit.resource, &raw const own);
            }
        }
    }
}

/// Binding is a courtesy: CPUs that are not there any more leave the process unbound.
fn set_affinity(cpus: &[u32]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = nix::sched::CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize).ok();
    }
    nix::sched::sched_setaffinity(Pid::from_raw(0), &set).ok();
}

pub(super) fn become_user(user: &UserSpec) -> Result<(), StartFailure> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    if !Uid::effective().is_root() {
        if uid == Uid::effective() {
            return Ok(());
        }
        return Err(StartFailure {
            code: 1,
            message: format!("muster does not run as root and cannot start processes of uid {uid}"),
        });
    }
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    nix::unistd::setgroups(&groups).map_err(|e| StartFailure::new("cannot set groups", e))?;
    nix::unistd::setresgid(gid, gid, gid)
        .map_err(|e| StartFailure::new("cannot set the group", e))?;
    nix::unistd::setresuid(uid, uid, uid)
        .map_err(|e| StartFailure::new("cannot become the user", e))
}

/// Enters the working directory. Slurm runs a job whose directory is missing in `/tmp`; muster
/// does not: a job that writes by relative names would leave its results where nobody looks.
pub(super) fn enter_directory(cwd: &str) -> Result<(), StartFailure> {
    nix::unistd::chdir(cwd)
        .map_err(|e| StartFailure::new(&format!("cannot enter the working directory {cwd}"), e))
}

fn connect_streams(streams: &Streams<'_>, cwd: &str) -> Result<(), StartFailure> {
    match streams {
        Streams::Descriptors(fds) => {
            // Moved above the standard ones first, so that none is overwritten before its use.
            let mut moved = Vec::with_capacity(3);
            for fd in fds {
                moved.push(match fd {
                    Some(fd) => duplicate_above(*fd)?,
                    None => open_null()?,
                });
            }
            for (target, fd) in moved.iter().enumerate() {
                put(fd, target as RawFd)?;
            }
            Ok(())
        }
        Streams::Files { input, output, error, open_mode } => {
            let stdin = match input {
                Some(path) => open_file(cwd, path, OFlag::O_RDONLY, "input")?,
                None => open_null()?,
            };
            put(&stdin, 0)?;
            let flags = output_flags(*open_mode);
            let stdout = match output {
                Some(path) => open_file(cwd, path, flags, "output")?,
                None => open_null()?,
            };
            put(&stdout, 1)?;
            match error {
                Some(path) if Some(path) != output.as_ref() => {
                    put(&open_file(cwd, path, flags, "error")?, 2)
                }
                _ => put(&stdout, 2),
            }
        }
    }
}

/// How a file for output is opened.
pub(super) fn output_flags(mode: OpenMode) -> OFlag {
    let emptied = match mode {
        OpenMode::Truncate => OFlag::O_TRUNC,
        OpenMode::Append => OFlag::empty(),
    };
    emptied
        | OFlag::O_WRONLY
        | OFlag::O_CREAT
        | OFlag::O_APPEND
        | OFlag::O_CLOEXEC
        | OFlag::O_NOCTTY
}

/// Opens the transcript as the user and gives it to the supervisor.
fn hand_over(transcript: &TranscriptFile<'_>, cwd: &str) -> Result<(), StartFailure> {
    match open_file(cwd, transcript.path, output_flags(transcript.open_mode), "output") {
        Ok(file) => transcript.sender.hand_over(&file),
        Err(failure) if transcript.required => Err(failure),
        // Nobody asked for it: a terminal in a directory that cannot be written to is fine.
        Err(_) => Ok(()),
    }
}

fn duplicate_above(fd: RawFd) -> Result<OwnedFd, StartFailure> {
    // SAFETY: `fd` is open in the supervisor and so in this child.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(StartFailure::new("cannot pass a stream on", Errno::last()));
    }
    // SAFETY: just made by the kernel for us.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

fn open_null() -> Result<OwnedFd, StartFailure> {
    open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(|e| StartFailure::new("cannot open /dev/null", e))
}

fn open_file(cwd: &str, path: &str, flags: OFlag, role: &str) -> Result<OwnedFd, StartFailure> {
    let full = Path::new(cwd).join(path);
    let mode = Mode::from_bits_truncate(0o666);
    open(&full, flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY, mode).map_err(|e| {
        let hint = if e == Errno::ENOENT {
            "\nhint: make its directory before the job starts"
        } else {
            ""
        };
        StartFailure {
            code: 1,
            message: format!("cannot open the {role} file {}: {}{hint}", full.display(), e.desc()),
        }
    })
}

fn put(fd: &OwnedFd, target: RawFd) -> Result<(), StartFailure> {
    if fd.as_raw_fd() == target {
        // SAFETY: keeps an open descriptor open over exec.
        unsafe { libc::fcntl(target, libc::F_SETFD, 0) };
        return Ok(());
    }
    // SAFETY: both are valid numbers; the copy stays open over exec.
    if unsafe { libc::dup2(fd.as_raw_fd(), target) } < 0 {
        return Err(StartFailure::new("cannot set up a standard stream", Errno::last()));
    }
    Ok(())
}

/// Runs the program; returns only when that failed.
fn execute(program: &Executable<'_>, environment: &[CString]) -> StartFailure {
    match program {
        Executable::Script { path, arguments, .. } => execute_script(path, arguments, environment),
        Executable::Command { argv } => execute_command(argv, environment),
    }
}

pub(super) fn c_string(bytes: &[u8]) -> CString {
    // Cut at a zero byte, which no argument from outside can carry past the submission.
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

fn exec(path: &CStr, arguments: &[CString], environment: &[CString]) -> Errno {
    match nix::unistd::execve(path, arguments, environment) {
        Ok(never) => match never {},
        Err(errno) => errno,
    }
}

fn execute_script(path: &Path, arguments: &[String], environment: &[CString]) -> StartFailure {
    let script = c_string(path.as_os_str().as_bytes());
    let rest = arguments.iter().map(|a| c_string(a.as_bytes()));
    let argv: Vec<CString> = std::iter::once(script.clone()).chain(rest).collect();
    let errno = exec(&script, &argv, environment);
    let interpreter = first_line_words(path);
    if matches!(errno, Errno::EACCES | Errno::ENOEXEC) {
        // The state directory's file system may forbid running programs: the interpreter may not.
        if let Some(program) = interpreter.first() {
            let words = interpreter.iter().map(|w| c_string(w.as_bytes()));
            let all: Vec<CString> = words.chain(argv).collect();
            exec(&c_string(program.as_bytes()), &all, environment);
        }
    }
    let named = interpreter.first().map_or("none", String::as_str);
    let (code, what) = match errno {
        Errno::ENOENT => (127, format!("the script's interpreter {named:?} was not found")),
        other => (126, format!("cannot run the script by {named:?}: {}", other.desc())),
    };
    let hint = if named.ends_with('\r') {
        "\nhint: the script has Windows line ends; convert it with dos2unix"
    } else {
        ""
    };
    super::notes::script_not_run(named, errno, hint);
    StartFailure { code, message: format!("{what}{hint}") }
}

/// The interpreter and its one argument, as the kernel reads a script's first line.
fn first_line_words(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).unwrap_or_default();
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line.strip_prefix(b"#!").unwrap_or_default()).into_owned();
    let mut words = line.trim_matches([' ', '\t']).splitn(2, [' ', '\t']);
    words
        .by_ref()
        .map(|w| w.trim_matches([' ', '\t']).to_owned())
        .filter(|w| !w.is_empty())
        .collect()
}

fn execute_command(argv: &[String], environment: &[CString]) -> StartFailure {
    let Some(name) = argv.first() else {
        return StartFailure { code: 1, message: "no program was given".to_owned() };
    };
    let arguments: Vec<CString> = argv.iter().map(|a| c_string(a.as_bytes())).collect();
    let mut worst = Errno::ENOENT;
    for candidate in candidates(name, environment) {
        match exec(&c_string(candidate.as_os_str().as_bytes()), &arguments, environment) {
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::ENOEXEC => {
                // A script without a first line naming its interpreter: the shell's, as execvp does.
                let file = c_string(candidate.as_os_str().as_bytes());
                let shell = [c_string(b"/bin/sh"), file];
                let all: Vec<CString> =
                    shell.into_iter().chain(arguments.iter().skip(1).cloned()).collect();
                worst = exec(c"/bin/sh", &all, environment);
            }
            other => worst = other,
        }
    }
    match worst {
        Errno::ENOENT => StartFailure { code: 127, message: format!("{name}: command not found") },
        other => {
            StartFailure { code: 126, message: format!("cannot run {name}: {}", other.desc()) }
        }
    }
}

fn candidates(name: &str, environment: &[CString]) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![PathBuf::from(name)];
    }
    let path = environment
        .iter()
        .find_map(|v| v.to_bytes().strip_prefix(b"PATH="))
        .unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
    path.split(|b| *b == b':')
        .map(|d| if d.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(d)) })
        .map(|directory| directory.join(name))
        .collect()
}

/// Variables as exec wants them; a name that cannot be one is left out.
pub(crate) fn render_environment(variables: &crate::environment::Variables) -> Vec<CString> {
    variables
        .iter()
        .filter(|(name, _)| !name.is_empty() && !name.contains('='))
        .filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok())
        .collect()
}
