//! Whatever the text: no panic, and errors that point into it. What a test did to its laboratory,
//! written as a scenario, leads to the same state.

#![allow(clippy::disallowed_methods)] // the files are the test's data

use muster_sim::run_scenario;
use muster_test_kit::arbitrary::{Deed, act, cluster, story};
use muster_test_kit::{Lab, proved};
use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;
use std::sync::LazyLock;

/// The texts of all scenarios.
static SCENARIOS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries = std::fs::read_dir(dir).expect("scenarios").map(|e| e.expect("an entry").path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    files.sort();
    files.iter().map(|path| std::fs::read_to_string(path).expect("text")).collect()
});

/// Something that a slip of the pen does to a text.
#[derive(Clone, Debug)]
enum Slip {
    /// A character becomes another.
    Character(Index, char),
    /// A number becomes another.
    Number(Index, &'static str),
    /// A word goes.
    LoseWord(Index),
    /// A word stands where another was.
    CopyWord(Index, Index),
    /// A line stands a second time, elsewhere.
    CopyLine(Index, Index),
    /// A line goes.
    LoseLine(Index),
    /// The text ends early.
    Cut(Index),
}

fn slip() -> impl Strategy<Value = Slip> {
    let at = any::<Index>;
    let numbers =
        ["0", "1", "7", "60", "4096", "1048577", "4294967295", "18446744073709551616", "-1"];
    let characters =
        "=:,;%+-@[]()|&*?!\"'#> \tx0é\u{1F600}\u{0}\u{202e}".chars().collect::<Vec<_>>();
    prop_oneof![
        (at(), prop::sample::select(characters)).prop_map(|(i, c)| Slip::Character(i, c)),
        (at(), prop::sample::select(numbers.to_vec())).prop_map(|(i, n)| Slip::Number(i, n)),
        at().prop_map(Slip::LoseWord),
        (at(), at()).prop_map(|(i, j)| Slip::CopyWord(i, j)),
        (at(), at()).prop_map(|(i, j)| Slip::CopyLine(i, j)),
        at().prop_map(Slip::LoseLine),
        at().prop_map(Slip::Cut),
    ]
}

/// The text with a slip in it.
fn slipped(text: &str, slip: &Slip) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut characters: Vec<char> = text.chars().collect();
    if lines.is_empty() {
        return String::new();
    }
    match slip {
        Slip::Character(at, c) => {
            characters[at.index(text.chars().count())] = *c;
            return characters.into_iter().collect();
        }
        Slip::Cut(at) => {
            characters.truncate(at.index(text.chars().count()));
            return characters.into_iter().collect();
        }
        Slip::Number(at, number) => {
            let is_digit = |i: usize| characters.get(i).is_some_and(char::is_ascii_digit);
            let starts: Vec<usize> = (0..characters.len())
                .filter(|i| is_digit(*i) && (*i == 0 || !is_digit(i - 1)))
                .collect();
            if !starts.is_empty() {
                let start = starts[at.index(starts.len())];
                let end = (start..=characters.len()).find(|i| !is_digit(*i)).unwrap_or(start);
                characters.splice(start..end, number.chars());
            }
            return characters.into_iter().collect();
        }
        Slip::LoseWord(at) => {
            let line = &mut lines[at.index(text.lines().count())];
            let mut words: Vec<&str> = line.split(' ').collect();
            words.remove(at.index(words.len()));
            *line = words.join(" ");
        }
        Slip::CopyWord(from, to) => {
            let word = {
                let words: Vec<&str> = text.split_whitespace().collect();
                words.get(from.index(words.len().max(1))).map_or("", |word| word).to_owned()
            };
            let line = &mut lines[to.index(text.lines().count())];
            let mut words: Vec<&str> = line.split(' ').collect();
            let at = from.index(words.len());
            words[at] = &word;
            *line = words.join(" ");
        }
        Slip::CopyLine(from, to) => {
            let line = lines[from.index(lines.len())].clone();
            let to = to.index(lines.len());
            lines.insert(to, line);
        }
        Slip::LoseLine(at) => {
            lines.remove(at.index(text.lines().count()));
        }
    }
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_slip_of_the_pen_is_told_with_its_place(
        which in any::<Index>(),
        slips in prop::collection::vec(slip(), 1..4),
    ) {
        let text = slips.iter().fold(which.get(&SCENARIOS).clone(), |text, slip| slipped(&text, slip));
        match run_scenario(&text) {
            // What it came out as comes out again.
            Ok(ran) => {
                let again = run_scenario(&ran.text);
                let same = again.is_ok_and(|again| again.difference.is_none());
                prop_assert!(same, "{}", ran.text);
            }
            Err(error) => {
                let number = error.line.unwrap_or(0) as usize;
                let line = text.lines().nth(number.wrapping_sub(1));
                prop_assert!(line.is_some(), "{error:?} is in no line");
                let width = line.map_or(0, |line| line.chars().count());
                prop_assert!(error.column.is_none_or(|c| c >= 1 && c as usize <= width), "{error:?}");
                prop_assert!(!error.message.contains(char::is_control), "{error:?}");
            }
        }
    }

    /// Write, read, carry out: the same state.
    #[test]
    fn what_was_done_to_a_lab_is_a_scenario(cluster in cluster(), story in story(24)) {
        let mut lab = Lab::new(&cluster);
        proved(&mut lab, |lab| {
            for deed in &story {
                act(lab, deed);
                if matches!(deed, Deed::Plan) {
                    lab.round();
                }
            }
            let ran = run_scenario(&lab.script());
            let ran = ran.map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(ran.difference, None);
            prop_assert_eq!(&ran.text, &lab.script());
            prop_assert!(ran.lab.state == lab.state, "another state");
            Ok(())
        })?;
    }
}

#[test]
fn a_fault_is_told_with_its_place_and_what_to_write() {
    let told = |text: &str| run_scenario(text).map(|ran| ran.difference).unwrap_err().to_string();
    for (text, wanted) in [
        (
            "> node n1 cpu=4",
            "line 1: a node has no `cpu` [E_SCENARIO_OPTION]\nhint: did you mean cpus?",
        ),
        (
            "\n> sumbit a",
            "line 2: a scenario has no `sumbit` [E_SCENARIO_COMMAND]\nhint: did you mean submit?",
        ),
        (
            ">plan",
            "line 1: this line is neither a command nor a comment [E_SCENARIO_COMMAND]\nhint: write > plan",
        ),
        (
            "> node n[1-4 cpus=4",
            "line 1: `n[1-4` is not a host list: a bracket is not closed [E_SCENARIO_VALUE]\nhint: write names and ranges, for example n[1-4,07],login",
        ),
        (
            "> node n[1-9999]",
            "line 1: `n[1-9999]` stands for more than 4096 hosts [E_SCENARIO_VALUE]",
        ),
        (
            "> submit a time",
            "line 1: `time` lacks its value [E_SCENARIO_VALUE]\nhint: write time=VALUE",
        ),
        (
            "> submit a array=0-99999",
            "line 1: a scenario holds at most 20000 jobs [E_SCENARIO_LARGE]",
        ),
        (
            "> node n1\n> drain m1",
            "line 2: there is no node `m1` [E_SCENARIO_NAME]\nhint: did you mean n1?",
        ),
        (
            "> node n1\n> submit a\n  job 1 a\n> exit a",
            "line 4: job 1 does not run [E_SCENARIO_ORDER]\nhint: start it first: > plan",
        ),
        (
            "> at 5\n> at 4",
            "line 2: t=4 is over: it is t=5 [E_SCENARIO_ORDER]\nhint: the clock goes forward",
        ),
        (
            "> account a parent=b\n> account b parent=a",
            "line 2: account b would be above itself [E_SCENARIO_ORDER]\nhint: name another parent",
        ),
        (
            "> reservation r start=5 end=5",
            "line 1: reservation r ends before it starts [E_SCENARIO_VALUE]\nhint: let end be after start",
        ),
        (
            "  nothing",
            "line 1: what is printed here is of no command [E_SCENARIO_COMMAND]\nhint: write it below its command, without a line between",
        ),
    ] {
        assert_eq!(told(text), wanted, "{text}");
    }
}
