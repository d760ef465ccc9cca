//! The standard streams of tasks: files by pattern, srun's own streams, labelled lines.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use muster_slurm_syntax::pattern;

use super::options::{Options, Target};

/// Longest line kept while its end has not come, in bytes; a longer one is cut.
const LINE_BYTES_MAX: usize = 1 << 20;

/// One of srun's own two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Output of a task on its way to one of srun's own streams, line by line with a label.
#[derive(Debug)]
pub(crate) struct Pump {
    /// The reading end of the task's stream.
    pub(crate) pipe: File,
    label: String,
    to: Own,
    rest: Vec<u8>,
}

impl Pump {
    /// Reads what is there now; false when the stream has ended.
    pub(crate) fn pump(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        let count = match self.pipe.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return true,
            Err(_) => 0,
        };
        self.rest.extend_from_slice(&bytes[..count]);
        let mut out = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            out.extend_from_slice(self.label.as_bytes());
            out.extend(self.rest.drain(..=end));
        }
        if (count == 0 || self.rest.len() > LINE_BYTES_MAX) && !self.rest.is_empty() {
            out.extend_from_slice(self.label.as_bytes());
            out.append(&mut self.rest);
            out.push(b'\n');
        }
        write_own(self.to, &out);
        count > 0
    }
}

/// Writes to one of srun's own streams; a reader that went away is no error.
pub(crate) fn write_own(to: Own, bytes: &[u8]) {
    let _ = match to {
        Own::Output => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        Own::Error => std::io::stderr().lock().write_all(bytes),
    };
}

/// Who a task is, for file name patterns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    /// Its rank.
    pub(crate) task: u32,
    /// Its node's index in the step.
    pub(crate) node_index: u32,
    /// Its node's name.
    pub(crate) node_name: &'a str,
}

/// What the job says to file name patterns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// Its raw number.
    pub(crate) id: u32,
    /// Its array and index.
    pub(crate) array: Option<(u32, u32)>,
    /// Its name.
    pub(crate) name: String,
    /// Its user's name.
    pub(crate) user: String,
    /// How often it was put back in the queue.
    pub(crate) restarts: u32,
}

/// Opens streams, each file once.
#[derive(Debug)]
pub(crate) struct Opener<'a> {
    options: &'a Options,
    job: &'a Job,
    step: u32,
    tasks: u32,
    directory: &'a Path,
    files: BTreeMap<PathBuf, Rc<OwnedFd>>,
    /// Output that is labelled on its way.
    pub(crate) pumps: Vec<Pump>,
}

/// An open stream for a task; `None` is nowhere.
pub(crate) type Stream = Option<Rc<OwnedFd>>;

impl<'a> Opener<'a> {
    /// An opener for the tasks of a step.
    pub(crate) fn new(
        options: &'a Options,
        job: &'a Job,
        step: u32,
        tasks: u32,
        directory: &'a Path,
    ) -> Self {
        Self { options, job, step, tasks, directory, files: BTreeMap::new(), pumps: Vec::new() }
    }

    /// Standard output of a task.
    pub(crate) fn output(&mut self, who: Who<'_>) -> Result<Stream, String> {
        self.open_output(&self.options.output.clone(), who, Own::Output)
    }

    /// Standard error of a task: where its output goes, unless it was asked for elsewhere.
    pub(crate) fn error(&mut self, who: Who<'_>) -> Result<Stream, String> {
        let target = match (&self.options.error, &self.options.output) {
            (Some(target), _) => target.clone(),
            (None, Target::File(name)) => Target::File(name.clone()),
            (None, _) => Target::Srun,
        };
        self.open_output(&target, who, Own::Error)
    }

    fn open_output(&mut self, target: &Target, who: Who<'_>, own: Own) -> Result<Stream, String> {
        match target {
            Target::Nothing => Ok(None),
            Target::Task(task) if *task != who.task => Ok(None),
            Target::Task(_) | Target::Srun => self.own(who, own).map(Some),
            Target::File(name) => self.file(name, who).map(Some),
        }
    }

    fn own(&mut self, who: Who<'_>, own: Own) -> Result<Rc<OwnedFd>, String> {
        if !self.options.label {
            let borrowed = match own {
                Own::Output => std::io::stdout().as_fd().try_clone_to_owned(),
                Own::Error => std::io::stderr().as_fd().try_clone_to_owned(),
            };
            return borrowed.map(Rc::new).map_err(|error| error.to_string());
        }
        let (reader, writer) = std::io::pipe().map_err(|error| format!("a pipe: {error}"))?;
        self.pumps.push(Pump {
            pipe: File::from(OwnedFd::from(reader)),
            label: label(who.task, self.tasks),
            to: own,
            rest: Vec::new(),
        });
        Ok(Rc::new(writer.into()))
    }

    fn file(&mut self, name: &str, who: Who<'_>) -> Result<Rc<OwnedFd>, String> {
        let path = self.path(name, who);
        if let Some(open) = self.files.get(&path) {
            return Ok(Rc::clone(open));
        }
        let mut how = OpenOptions::new();
        how.create(true);
        // Appending writes of several tasks never overwrite one another.
        how.append(true);
        let open = how.open(&path).and_then(|file| {
            // A file that is no regular one (a terminal, a pipe) has nothing to cut off.
            if !self.options.append && file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            Ok(file)
        });
        let file = open
            .map_err(|error| format!("Could not open stdout file {}: {error}", path.display()))?;
        let file = Rc::new(OwnedFd::from(file));
        self.files.insert(path, Rc::clone(&file));
        Ok(file)
    }

    /// Standard input of a task, where it is a file or nowhere; [`Target::Srun`] is the caller's.
    pub(crate) fn input(&mut self, who: Who<'_>) -> Result<Stream, String> {
        let Target::File(name) = &self.options.input else { return Ok(None) };
        let path = self.path(name, who);
        let file = File::open(&path)
            .map_err(|error| format!("Could not open stdin file {}: {error}", path.display()))?;
        Ok(Some(Rc::new(file.into())))
    }

    fn path(&self, name: &str, who: Who<'_>) -> PathBuf {
        let short = who.node_name.split('.').next().unwrap_or(who.node_name);
        let values = pattern::Values {
            job_id: self.job.id,
            array: self.job.array,
            step: Some(self.step),
            node_name: short,
            node_index: who.node_index,
            task: who.task,
            user: &self.job.user,
            job_name: &self.job.name,
            restarts: self.job.restarts,
        };
        self.directory.join(pattern::expand(name, &values))
    }
}

/// `0: `, with leading zeros where the last task has more digits.
fn label(task: u32, tasks: u32) -> String {
    let digits = tasks.saturating_sub(1).to_string().len();
    format!("{task:0digits$}: ")
}

/// Standard input copied to every task.
#[derive(Debug)]
pub(crate) struct Broadcast {
    source: File,
    pipes: Vec<File>,
}

impl Broadcast {
    /// Takes srun's own standard input.
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self { source: own_input()?.into(), pipes: Vec::new() })
    }

    /// The reading end of one more task.
    pub(crate) fn add(&mut self) -> Result<OwnedFd, String> {
        let (reader, writer) = std::io::pipe().map_err(|error| format!("a pipe: {error}"))?;
        self.pipes.push(File::from(OwnedFd::from(writer)));
        Ok(reader.into())
    }

    /// What is copied.
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// True while somebody may read.
    pub(crate) fn is_open(&self) -> bool {
        !self.pipes.is_empty()
    }

    /// Copies what is there now; at the end closes every pipe.
    pub(crate) fn copy(&mut self) {
        let mut bytes = [0; 4096];
        let count = self.source.read(&mut bytes).unwrap_or(0);
        if count == 0 {
            self.pipes.clear();
        }
        // A task that ended or closed its input drops out.
        self.pipes.retain_mut(|pipe| pipe.write_all(&bytes[..count]).is_ok());
    }
}

/// srun's own standard input.
pub(crate) fn own_input() -> Result<OwnedFd, String> {
    std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())
}

/// The descriptors of one frame, each once, with their numbers in it.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    list: Vec<Rc<OwnedFd>>,
}

impl Descriptors {
    /// The number of a stream in the frame.
    pub(crate) fn number(&mut self, stream: &Stream) -> muster_api::step::Stream {
        let Some(fd) = stream else { return muster_api::step::Stream::Null };
        let known = self.list.iter().position(|other| Rc::ptr_eq(other, fd));
        let index = known.unwrap_or_else(|| {
            self.list.push(Rc::clone(fd));
            self.list.len() - 1
        });
        muster_api::step::Stream::Fd(index as u16)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// They themselves.
    pub(crate) fn borrowed(&self) -> Vec<BorrowedFd<'_>> {
        self.list.iter().map(|fd| fd.as_fd()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        super::super::options::read(&args, &|_: &str| None).expect("read")
    }

    const WHO: Who<'static> = Who { task: 1, node_index: 0, node_name: "n1" };

    #[test]
    fn labels_are_as_wide_as_the_last() {
        assert_eq!(label(0, 2), "0: ");
        assert_eq!(label(3, 12), "03: ");
    }

    #[test]
    fn files_follow_their_pattern_and_are_opened_once() {
        let dir = tempfile::tempdir().expect("directory");
        let job = Job { id: 34, ..Job::default() };
        let options = options("-o out-%j-%t.txt hostname");
        let mut opener = Opener::new(&options, &job, 0, 2, dir.path());
        let first = opener.output(WHO).expect("open").expect("a file");
        let second = opener.error(WHO).expect("open").expect("the same file");
        assert!(Rc::ptr_eq(&first, &second));
        assert!(dir.path().join("out-34-1.txt").exists());
        let mut descriptors = Descriptors::default();
        descriptors.number(&Some(first));
        descriptors.number(&Some(second));
        assert_eq!(descriptors.len(), 1);
    }

    #[test]
    fn a_file_is_cut_unless_it_is_appended_to() {
        let dir = tempfile::tempdir().expect("directory");
        std::fs::write(dir.path().join("a"), "old\n").expect("written");
        let job = Job::default();
        let append = options("-o a --open-mode=append hostname");
        Opener::new(&append, &job, 0, 1, dir.path()).output(WHO).expect("open");
        assert_eq!(std::fs::read_to_string(dir.path().join("a")).expect("read"), "old\n");
        let cut = options("-o a hostname");
        Opener::new(&cut, &job, 0, 1, dir.path()).output(WHO).expect("open");
        assert_eq!(std::fs::read_to_string(dir.path().join("a")).expect("read"), "");
    }

    #[test]
    fn only_the_task_asked_for_is_heard() {
        let options = options("-o 0 hostname");
        let job = Job::default();
        let mut opener = Opener::new(&options, &job, 0, 2, Path::new("/"));
        assert!(opener.output(WHO).expect("open").is_none());
        assert!(opener.output(Who { task: 0, ..WHO }).expect("open").is_some());
    }
}
