//! Faults of the disk: each ends in a clear error or in a shorter log, and nothing is damaged.

use super::{FILE, LOCK, SqliteStore, backup, restore};
use crate::contract::{Author, Subject};
use crate::{Store, StoreError};
use muster_model::{EventKind, State};
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn dir() -> TempDir {
    TempDir::new().expect("a directory can be made")
}

fn open(dir: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(dir)
}

fn refused(dir: &Path) -> StoreError {
    match open(dir) {
        Ok(_) => panic!("it opens"),
        Err(error) => error,
    }
}

/// A closed store with some jobs in it; gives its state.
fn filled(dir: &TempDir) -> State {
    let mut author = Author::open(dir);
    author.site();
    for i in 0..4 {
        let job = author.submit("ada", &format!("script {i}"));
        if i % 2 == 0 {
            author.run(job, 0);
        }
    }
    author.state
}

fn load_error(dir: &Path) -> StoreError {
    match open(dir).and_then(|store| store.load()) {
        Ok(_) => panic!("it loads"),
        Err(error) => error,
    }
}

fn sql(dir: &Path, text: &str) {
    Connection::open(dir.join(FILE)).unwrap().execute_batch(text).unwrap();
}

#[test]
fn a_second_daemon_is_told_who_was_first() {
    let dir = dir();
    let first = open(dir.path()).unwrap();
    let error = refused(dir.path());
    let pid = std::process::id().to_string();
    assert!(matches!(&error, StoreError::Locked { pid: found, .. } if *found == pid), "{error}");
    assert!(error.to_string().contains("hint: "));
    drop(first);
    open(dir.path()).unwrap();
    assert!(dir.path().join(LOCK).exists());
}

#[test]
fn a_newer_log_is_refused_and_left_as_it_is() {
    let dir = dir();
    filled(&dir);
    sql(dir.path(), "PRAGMA user_version = 99");
    let before = fs::read(dir.path().join(FILE)).unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, StoreError::NewerSchema { found: 99, known: 1 }), "{error}");
    assert_eq!(error.code(), "E_STORE_NEWER_SCHEMA");
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), before);
}

#[test]
fn files_that_are_no_log_are_refused_and_left_as_they_are() {
    let other = dir();
    Connection::open(other.path().join(FILE)).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let garbage = dir();
    fs::write(garbage.path().join(FILE), "this is no database ".repeat(500)).unwrap();
    for dir in [other, garbage] {
        let before = fs::read(dir.path().join(FILE)).unwrap();
        let error = refused(dir.path());
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("muster restore"), "{error}");
        assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), before);
    }
}

#[test]
fn damage_in_the_middle_of_the_file_is_said() {
    let dir = dir();
    filled(&dir);
    let path = dir.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let from = 4096.min(bytes.len());
    for byte in &mut bytes[from..] {
        *byte = 0x5a;
    }
    fs::write(&path, bytes).unwrap();
    let error = load_error(dir.path());
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn an_event_that_cannot_be_read_is_named() {
    for garbled in [r#"{"at":1"#, r#"{"at":1,"event":"from_the_future"}"#, ""] {
        let dir = dir();
        filled(&dir);
        sql(dir.path(), &format!("UPDATE event SET body = '{garbled}' WHERE seq = 4"));
        let error = load_error(dir.path());
        assert!(error.to_string().contains("event 4 "), "{error}");
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }
}

#[test]
fn a_missing_event_is_named() {
    let dir = dir();
    filled(&dir);
    sql(dir.path(), "DELETE FROM event WHERE seq = 5");
    let error = load_error(dir.path());
    assert!(error.to_string().contains("event 5 is missing"), "{error}");
}

#[test]
fn an_event_that_does_not_fit_is_named() {
    let dir = dir();
    filled(&dir);
    sql(
        dir.path(),
        r#"UPDATE event SET body = '{"at":1,"event":"job_released","job":77}' WHERE seq = 3"#,
    );
    let error = load_error(dir.path());
    assert!(matches!(error, StoreError::Unfit { seq: 3, .. }), "{error}");
}

#[test]
fn an_older_snapshot_stands_in_for_a_damaged_one() {
    let dir = dir();
    filled(&dir);
    let mut author = Author::open(&dir);
    for _ in 0..2 {
        author.write(vec![EventKind::Round]);
        author.store.snapshotter().unwrap().snapshot(&author.state).unwrap();
    }
    author.write(vec![EventKind::Round]);
    let (state, newest) = (author.state.clone(), author.state.seq - 1);
    drop(author);
    sql(dir.path(), &format!("UPDATE snapshot_part SET body = x'7b' WHERE seq = {newest}"));
    let loaded = open(dir.path()).unwrap().load().unwrap();
    assert_eq!((loaded.state, loaded.snapshot), (state, newest - 1));
    assert!(loaded.warnings[0].contains(&format!("snapshot {newest} is damaged")));
    sql(dir.path(), "UPDATE snapshot_part SET body = x'7b'");
    let error = load_error(dir.path());
    assert!(error.to_string().contains("every snapshot"), "{error}");
}

#[test]
fn an_unfinished_snapshot_is_swept_away() {
    let dir = dir();
    let state = filled(&dir);
    sql(dir.path(), "INSERT INTO snapshot_part (seq, part, body) VALUES (3, 0, x'00')");
    let author = Author::open(&dir);
    assert_eq!(author.state, state);
    drop(author);
    let left: i64 = Connection::open(dir.path().join(FILE))
        .unwrap()
        .query_row("SELECT count(*) FROM snapshot_part", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

/// Copies a running store's files, as a crash would leave them.
fn crashed_copy(of: &Path, wal: &[u8]) -> TempDir {
    let copy = dir();
    fs::copy(of.join(FILE), copy.path().join(FILE)).unwrap();
    fs::write(copy.path().join("muster.db-wal"), wal).unwrap();
    copy
}

#[test]
fn a_garbled_or_cut_tail_loses_only_what_was_at_the_tail() {
    let dir = dir();
    let mut author = Author::open(&dir);
    author.site();
    let mut states = vec![author.state.clone()];
    for i in 0..6 {
        author.submit("ada", &format!("script {i}"));
        states.push(author.state.clone());
    }
    let wal = fs::read(dir.path().join("muster.db-wal")).unwrap();
    let is_prefix = |copy: &TempDir| {
        let found = open(copy.path()).unwrap().load().unwrap().state;
        states.iter().position(|state| *state == found)
    };
    assert_eq!(is_prefix(&crashed_copy(dir.path(), &wal)), Some(6));
    let mut garbled = wal.clone();
    let end = garbled.len();
    garbled[end - 200..].fill(0xff);
    assert_eq!(is_prefix(&crashed_copy(dir.path(), &garbled)), Some(5));
    let mut last = 6;
    for cut in (0..wal.len()).rev().step_by(3001) {
        let copy = crashed_copy(dir.path(), &wal[..cut]);
        match is_prefix(&copy) {
            Some(at) => {
                assert!(at <= last, "a shorter tail has more in it");
                last = at;
            }
            // Before the first batch there is the empty state, or no table yet.
            None => assert_eq!(open(copy.path()).unwrap().load().unwrap().state, State::default()),
        }
    }
}

/// A small file system of its own; says why where there can be none.
struct Mount(PathBuf);

impl Mount {
    fn make(dir: &TempDir, size: &str) -> Option<Self> {
        let path = dir.path().join("small");
        fs::create_dir(&path).unwrap();
        let mount = Self(path);
        let made = mount.run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        if !made {
            println!("skipped: no tmpfs can be mounted here (it takes root)");
            std::mem::forget(mount);
            return None;
        }
        Some(mount)
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        let status = Command::new(program).args(args).arg(&self.0).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.run("umount", &["-l"]);
    }
}

struct At(PathBuf);

impl Subject for At {
    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(SqliteStore::open(&self.0)?))
    }
}

#[test]
fn a_full_disk_refuses_and_goes_on_once_there_is_room() {
    let dir = dir();
    let Some(mount) = Mount::make(&dir, "4m") else { return };
    let subject = At(mount.0.join("state"));
    let mut author = Author::open(&subject);
    author.site();
    author.submit("ada", "before");
    let filler = mount.0.join("filler");
    // Takes all the room there is: the copy ends in an error, as it should.
    drop(fs::write(&filler, vec![0u8; 8 << 20]));
    let stored = author.state.clone();
    let error = loop {
        let before = author.state.clone();
        let batch = author.batch(vec![EventKind::Round; 50]);
        if let Err(error) = author.store.append(&batch) {
            author.state = before;
            break error;
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(author.state.seq >= stored.seq);
    assert_eq!(author.store.load().unwrap().state, author.state, "something of it was stored");
    fs::remove_file(&filler).unwrap();
    author.submit("ada", "after");
    let _same = author.reopen(&subject);
}

#[test]
fn a_read_only_disk_is_said() {
    let dir = dir();
    let Some(mount) = Mount::make(&dir, "4m") else { return };
    let state = mount.0.join("state");
    drop(open(&state).unwrap());
    assert!(mount.run("mount", &["-o", "remount,ro"]), "the mount becomes read-only");
    let error = refused(&state);
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    let error = refused(&mount.0.join("new"));
    assert!(error.to_string().contains("new"), "{error}");
}

#[test]
fn a_backup_of_a_running_store_is_whole_and_is_restored() {
    let dir = dir();
    filled(&dir);
    let author = Author::open(&dir);
    let copy = dir.path().join("backup.db");
    backup(dir.path(), &copy).unwrap();
    assert!(matches!(backup(dir.path(), &copy), Err(StoreError::Exists { .. })));
    let fence = author.store.fence();

    let refused = restore(&copy, dir.path());
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    let state = author.state.clone();
    drop(author);
    let aside = restore(&copy, dir.path()).unwrap();
    assert_eq!(aside, Some(dir.path().join("replaced-1")));
    assert!(dir.path().join("replaced-1").join(FILE).exists(), "what was there is gone");

    let new = TempDir::new().unwrap();
    fs::write(new.path().join("muster.db-wal"), "of another database").unwrap();
    let aside = restore(&copy, new.path()).unwrap();
    assert_eq!(aside, Some(new.path().join("replaced-1")));
    assert!(!new.path().join("muster.db-wal").exists(), "another database's log is in use");
    let empty = TempDir::new().unwrap();
    assert_eq!(restore(&copy, empty.path()).unwrap(), None);
    let restored = Author::open(&new);
    assert_eq!(restored.state, state);
    assert!(restored.store.fence() >= fence);
}

#[test]
fn a_bad_backup_is_not_restored() {
    let dir = dir();
    let bad = dir.path().join("bad.db");
    fs::write(&bad, "no database, but long enough to be taken for one".repeat(100)).unwrap();
    let new = TempDir::new().unwrap();
    let refused = restore(&bad, new.path());
    assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{refused:?}");
    assert!(!new.path().join(FILE).exists());
    assert!(restore(&dir.path().join("absent.db"), new.path()).is_err());
}

#[test]
fn nobody_else_reads_the_store_or_a_backup() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = tempfile::tempdir().unwrap();
    // As an earlier release may have left it.
    std::fs::write(dir.path().join(FILE), "").unwrap();
    std::fs::set_permissions(dir.path().join(FILE), std::fs::Permissions::from_mode(0o644))
        .unwrap();
    let store = open(dir.path()).unwrap();
    let copy = dir.path().join("copy");
    backup(dir.path(), &copy).unwrap();
    for name in [FILE, "muster.db-wal", "copy"] {
        assert_eq!(mode(&dir.path().join(name)), 0o600, "{name}");
    }
    drop(store);
    let other = tempfile::tempdir().unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o644)).unwrap();
    restore(&copy, other.path()).unwrap();
    assert_eq!(mode(&other.path().join(FILE)), 0o600);
}
