//! `muster sim scenario`: stories in text, run against the planner and the checker.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use muster_sim::{Difference, ScenarioError, run_scenario};
use serde_json::{Value, json};

use crate::say::{self, Outcome, print};

/// The largest file that is read, bytes.
const BYTES_MAX: u64 = 4 << 20;

/// The words of `muster sim scenario`.
#[derive(Args)]
pub(crate) struct ScenarioArgs {
    /// Scenario files; a directory stands for the .txt files in it
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Write the transcripts of those that come out otherwise anew
    #[arg(long)]
    bless: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What became of a file.
enum Found {
    /// It came out as it stands.
    Same,
    /// It came out otherwise.
    Differs(Difference),
    /// It came out otherwise and was written anew.
    Blessed(Difference),
    /// Its text is wrong.
    Wrong(ScenarioError),
    /// It cannot be read or written.
    File(String),
}

/// Runs the command: code 1 where one comes out otherwise, 2 where one cannot be read.
pub(crate) fn run(args: &ScenarioArgs) -> Outcome {
    let mut all = Vec::new();
    let mut keep = |path: &Path, found: Found| {
        let path = plain(&path.display().to_string());
        if !args.json {
            print(&told(&path, &found));
        }
        all.push((path, found));
    };
    for path in &args.paths {
        match files(path) {
            Ok(files) => files.iter().for_each(|file| keep(file, of_file(file, args.bless))),
            Err(why) => keep(path, Found::File(why)),
        }
    }
    let count = |which: fn(&Found) -> bool| all.iter().filter(|(_, found)| which(found)).count();
    let same = count(|found| matches!(found, Found::Same));
    let blessed = count(|found| matches!(found, Found::Blessed(_)));
    let differ = count(|found| matches!(found, Found::Differs(_)));
    let unread = count(|found| matches!(found, Found::Wrong(_) | Found::File(_)));
    if args.json {
        let scenarios: Vec<Value> = all.iter().map(|(path, found)| as_json(path, found)).collect();
        say::json(&json!({
            "scenarios": scenarios, "ok": same, "written": blessed, "different": differ,
            "unreadable": unread,
        }))?;
    } else {
        let mut line = format!("{} scenarios: {same} ok", all.len());
        for (n, word) in [(blessed, "written anew"), (differ, "different"), (unread, "unreadable")]
        {
            if n > 0 {
                let _ = write!(line, ", {n} {word}");
            }
        }
        print(&format!("{line}\n"));
    }
    Ok(match (differ, unread) {
        (0, 0) => 0,
        (_, 0) => 1,
        _ => 2,
    })
}

/// The file, or the scenarios of a directory in order of name.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: io::Error| error.to_string();
    if !fs::metadata(path).map_err(wrong)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(wrong)? {
        files.push(entry.map_err(wrong)?.path());
    }
    files.retain(|file| file.extension().is_some_and(|end| end == "txt"));
    files.sort();
    if files.is_empty() {
        return Err("there is no .txt file in this directory".to_owned());
    }
    Ok(files)
}

fn of_file(path: &Path, bless: bool) -> Found {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => return Found::File(error.to_string()),
    };
    let ran = match run_scenario(&text) {
        Ok(ran) => ran,
        Err(error) => return Found::Wrong(error),
    };
    match ran.difference {
        None => Found::Same,
        Some(difference) if bless => match fs::write(path, &ran.text) {
            Ok(()) => Found::Blessed(difference),
            Err(error) => Found::File(error.to_string()),
        },
        Some(difference) => Found::Differs(difference),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Text of a file without what would move the cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// One file in words.
fn told(path: &str, found: &Found) -> String {
    match found {
        Found::Same => format!("ok       {path}\n"),
        Found::Blessed(difference) => format!("written  {path}:{}\n", difference.line),
        Found::Differs(difference) => differs(path, difference),
        Found::Wrong(error) => {
            let (code, place) = (error.fault.code(), place(path, error));
            let mut text = format!("wrong    {place}\n  {} [{code}]\n", plain(&error.message));
            if let Some(hint) = &error.hint {
                let _ = writeln!(text, "  hint: {}", plain(hint));
            }
            text
        }
        Found::File(why) => format!("wrong    {path}\n  {} [E_SCENARIO_FILE]\n", plain(why)),
    }
}

fn differs(path: &str, difference: &Difference) -> String {
    let Difference { line, command, expected, happened } = difference;
    let text = |line: &Option<String>| line.as_deref().map_or("nothing more".to_owned(), plain);
    format!(
        "differs  {path}:{line}\n  > {}\n  expected: {}\n  happened: {}\n",
        plain(command),
        text(expected),
        text(happened),
    )
}

/// `FILE:LINE:COLUMN`, as far as it is known.
fn place(path: &str, error: &ScenarioError) -> String {
    let numbers = error.line.into_iter().chain(error.line.and(error.column));
    numbers.fold(path.to_owned(), |place, number| format!("{place}:{number}"))
}

fn as_json(path: &str, found: &Found) -> Value {
    let changed = |result: &str, d: &Difference| {
        json!({
            "file": path, "result": result, "line": d.line, "command": d.command,
            "expected": d.expected, "happened": d.happened,
        })
    };
    match found {
        Found::Same => json!({ "file": path, "result": "ok" }),
        Found::Differs(difference) => changed("different", difference),
        Found::Blessed(difference) => changed("written", difference),
        Found::Wrong(error) => json!({
            "file": path, "result": "unreadable", "code": error.fault.code(),
            "message": error.message, "hint": error.hint, "line": error.line,
            "column": error.column,
        }),
        Found::File(why) => json!({
            "file": path, "result": "unreadable", "code": "E_SCENARIO_FILE", "message": why,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(dir: &Path, bless: bool) -> i32 {
        run(&ScenarioArgs { paths: vec![dir.to_owned()], bless, json: true }).unwrap()
    }

    const RIGHT: &str = "# One.\n> node n1 cpus=4\n> submit a time=10\n  job 1 a\n";

    #[test]
    fn the_code_says_what_was_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("one.txt");
        assert_eq!(ran(dir.path(), false), 2, "no scenario");
        fs::write(&file, RIGHT).unwrap();
        assert_eq!(ran(dir.path(), false), 0);
        fs::write(&file, RIGHT.replace("job 1 a", "job 2 a")).unwrap();
        assert_eq!(ran(dir.path(), false), 1);
        assert_eq!(ran(dir.path(), true), 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), RIGHT);
        fs::write(&file, [b'>', b' ', 0xff]).unwrap();
        assert_eq!(ran(&file, false), 2, "not in UTF-8");
    }

    #[test]
    fn the_scenarios_of_this_repository_come_out_as_written() {
        assert_eq!(ran(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios"), false), 0);
    }

    #[test]
    fn a_difference_and_a_fault_name_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("one.txt");
        let told_of = |text: &str| {
            fs::write(&file, text).unwrap();
            told("one.txt", &of_file(&file, false))
        };
        assert_eq!(
            told_of(&RIGHT.replace("job 1 a", "job 2 a")),
            "differs  one.txt:4\n  > submit a time=10\n  expected: job 2 a\n  happened: job 1 a\n"
        );
        assert_eq!(
            told_of(&RIGHT.replace("time=10", "tiem=10")),
            "wrong    one.txt:3:12\n  a job has no `tiem` [E_SCENARIO_OPTION]\n  hint: did you mean \
             time?\n"
        );
    }
}
