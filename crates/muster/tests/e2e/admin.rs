//! What an admin does: reservations, the configuration, associations, priorities.

use crate::place::{Place, said, until};
use std::process::Output;

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// A place whose daemon reads this configuration.
fn configured(text: &str) -> (Place, crate::place::Daemon) {
    let place = Place::new();
    std::fs::write(place.path("muster.toml"), text).unwrap();
    let file = place.path("muster.toml").display().to_string();
    let words = ["--practice", "2x4", "--config", file.as_str()];
    let daemon = place.try_start(&words, &[]).unwrap_or_else(|| panic!("{}", place.log()));
    (place, daemon)
}

#[test]
fn a_job_that_a_reservation_drew_says_which() {
    let place = Place::new();
    let _daemon = place.start();
    let words = ["reservation", "create", "lab", "--nodes", "node2", "--flags", "MAGNETIC"];
    let made = place.muster(&[&words[..], &["--duration", "3h"]].concat());
    assert!(made.status.success(), "{}", said(&made));
    let job = place.slurm("sbatch", &["--parsable", "-t5", "--wrap", "sleep 300"]);
    let job = out(&job).trim().to_owned();
    let named = || out(&place.slurm("squeue", &["-h", "-o", "%t %N %v", "-j", &job]));
    until("it runs there", || (named() == "R node2 lab\n").then_some(()));
    let record = out(&place.slurm("scontrol", &["show", "job", &job]));
    assert!(record.contains("\n   Reservation=lab\n"), "{record}");
    let told = out(&place.muster(&["job", &job]));
    assert!(told.lines().any(|l| l.trim_start().starts_with("reservation") && l.ends_with("lab")));
}

#[test]
fn reservations_are_refused_with_what_is_wrong() {
    let place = Place::new();
    let _daemon = place.start();
    let refused = |words: &[&str], wanted: &[&str]| {
        let output = place.muster(&[&["reservation"], words].concat());
        let text = said(&output);
        assert_eq!(code(&output), 1, "{words:?}: {text}");
        for part in wanted {
            assert!(text.contains(part), "{words:?}: {text}");
        }
    };
    refused(&["create", "r"], &["[E_RESERVATION_EMPTY]", "nodes"]);
    refused(&["create", "r", "--nvlink"], &["[E_RESERVATION_EMPTY]"]);
    let at = ["create", "r", "--nodes", "1", "--start", "2036-12-08T08:00", "--at", "09:00"];
    refused(&at, &["at: start says 08:00, not 09:00", "[E_VALUE_BAD]"]);
    let end = ["create", "r", "--nodes", "1", "--end", "2036-12-08T08:00", "--duration", "1h"];
    refused(&end, &["duration: it begins", "leave one of them out"]);
    let rule =
        ["create", "r", "--nodes", "1", "--duration", "1h", "--every", "FREQ=WEEKLY;BYDAY=XX"];
    refused(&rule, &["column 19: XX is no day of the week"]);
    refused(&["plan", "--nodes", "9", "--duration", "1h"], &["at no time are 9 nodes"]);
    refused(&["show", "nope"], &["there is no reservation nope"]);
    let slurm = place.slurm("scontrol", &["create", "reservation", "users=root", "duration=10"]);
    assert_eq!(code(&slurm), 1);
    let sentence =
        "CoreCnt, Nodes, NodeCnt, TRES or Watts must be specified.  No reservation created.";
    assert!(said(&slurm).contains(sentence), "{}", said(&slurm));
    // Nothing of all that was made.
    assert_eq!(out(&place.slurm("scontrol", &["show", "res"])), "No reservations in the system\n");
}

#[test]
fn a_reservation_stands_with_its_section() {
    let section = "[[reservation]]\nname = \"class\"\nevery = \"weekly\"\nat = \"09:00\"\n\
                   tz = \"Asia/Seoul\"\nduration = \"3h\"\nnodes = 1\nusers = [\"root\"]\n";
    let (place, _daemon) = configured(section);
    let shown = || place.muster(&["reservation", "show", "class"]);
    until("it is made", || shown().status.success().then_some(()));
    let text = out(&shown());
    assert!(text.contains(" 09:00 to 12:00 (3:00:00)"), "{text}");
    assert!(text.contains("in the configuration file"), "{text}");
    let delete = place.muster(&["reservation", "delete", "class"]);
    assert!(said(&delete).contains("[E_RESERVATION_STANDING]"), "{}", said(&delete));
    let change = section.replace("3h", "2h");
    std::fs::write(place.path("muster.toml"), change).unwrap();
    let reload = place.muster(&["config", "reload"]);
    assert_eq!(out(&reload), "[[reservation]] class\n  duration: \"3h\" -> \"2h\"\n");
    assert!(out(&shown()).contains(" 09:00 to 11:00 (2:00:00)"), "{}", out(&shown()));
    std::fs::write(place.path("muster.toml"), "").unwrap();
    let reload = place.muster(&["config", "reload"]);
    assert!(out(&reload).starts_with("[[reservation]] class (gone)\n"), "{}", said(&reload));
    assert_eq!(code(&shown()), 1);
}

#[test]
fn a_configuration_is_checked_for_what_it_most_likely_does_not_mean() {
    let place = Place::new();
    let text =
        "[local]\npractice = \"2x1\"\n[[partition]]\nname = \"a\"\nnodes = [\"node[1-3]\"]\n";
    std::fs::write(place.path("doubtful.toml"), text).unwrap();
    let checked = place.muster(&["config", "check", "doubtful.toml"]);
    assert_eq!(code(&checked), 0);
    let told = said(&checked);
    assert!(told.contains("doubtful.toml:5:10: there is no node node3 [W_CONFIG]"), "{told}");
    assert_eq!(code(&place.muster(&["config", "check", "--strict", "doubtful.toml"])), 1);
    std::fs::write(place.path("wrong.toml"), "[policy]\nbackfill = \"eazy\"\n").unwrap();
    let wrong = place.muster(&["config", "check", "wrong.toml"]);
    assert_eq!(code(&wrong), 1);
    assert!(said(&wrong).contains("wrong.toml:2:12: backfill in [policy] is none, easy,"));
}

#[test]
fn associations_and_site_factors_show_and_add_up() {
    let (place, _daemon) = configured(
        "[policy]\norder = \"multifactor\"\n[priority]\nassociation = 1000\n\
         [[account]]\nname = \"lab\"\npriority = 50\nshares = 40\ngrp_tres = \"gres/gpu=2\"\n\
         [[account]]\nname = \"ops\"\npriority = 100\n[[association]]\naccount = \"lab\"\n\
         user = \"root\"\nmax_wall = \"1d\"\n",
    );
    let list = ["-nP", "list", "assoc", "account=lab", "format=account,user,share,grptres,maxwall"];
    let listed = out(&place.slurm("sacctmgr", &list));
    assert_eq!(listed, "lab||40|gres/gpu=2|\nlab|root|1||1-00:00:00\n");
    let refused = place.slurm("sacctmgr", &["-i", "add", "account", "new"]);
    assert_eq!(code(&refused), 1);
    assert!(said(&refused).contains("edit [[account]] in "), "{}", said(&refused));
    let run = ["--parsable", "-A", "lab", "--gpus=2", "-t5", "--wrap", "sleep 300"];
    let running = out(&place.slurm("sbatch", &run)).trim().to_owned();
    until("it runs", || {
        let state = out(&place.slurm("squeue", &["-h", "-o", "%t", "-j", &running]));
        (state == "R\n").then_some(())
    });
    let manager =
        out(&place.slurm("scontrol", &["show", "assoc_mgr", "flags=assoc", "accounts=lab"]));
    assert!(manager.contains("gres/gpu=2(2)"), "{manager}");
    let waiting = out(&place.slurm("sbatch", &run)).trim().to_owned();
    let factor = ["update", &format!("JobId={waiting}"), "SiteFactor=70"];
    let factor = place.slurm("scontrol", &factor);
    assert!(factor.status.success(), "{}", said(&factor));
    let row = out(&place.slurm("sprio", &["-hl", "-j", &waiting]));
    let cells: Vec<&str> = row.split_whitespace().collect();
    // JOBID PARTITION USER PRIORITY SITE AGE ASSOC …: half of the highest, and what the site adds.
    assert_eq!((cells[3], cells[4], cells[6]), ("570", "70", "500"), "{row}");
    let table = out(&place.muster(&["priority", &waiting]));
    let (titles, cells) = table.split_once('\n').unwrap();
    let at = |title: &str| titles.split_whitespace().position(|t| t == title).unwrap();
    let cell = |title: &str| cells.split_whitespace().nth(at(title)).unwrap();
    assert_eq!((cell("PRIORITY"), cell("SITE"), cell("ASSOC")), ("570", "70", "500"), "{table}");
}

#[test]
fn what_is_not_there_ends_with_its_code() {
    let (place, _daemon) = configured("[[licence]]\nname = \"sim\"\ntotal = 2\n");
    for words in [
        &["job", "999"][..],
        &["why", "999"],
        &["priority", "999"],
        &["share", "-A", "nope"],
        &["queue", "999"],
        &["history", "999"],
        &["node", "show", "nope"],
        &["reservation", "show", "nope"],
        &["reservation", "delete", "nope"],
    ] {
        let output = place.muster(words);
        assert_eq!(code(&output), 1, "{words:?}: {}", said(&output));
        assert!(said(&output).contains("[E_"), "{words:?}: {}", said(&output));
    }
    for (name, words, wanted) in [
        ("squeue", &["-j", "999"][..], 1),
        ("scontrol", &["show", "job", "999"], 1),
        ("scontrol", &["show", "step", "999.0"], 1),
        ("scontrol", &["show", "node", "nope"], 1),
        ("scontrol", &["show", "partition", "nope"], 1),
        ("scontrol", &["show", "reservation", "nope"], 1),
        ("scontrol", &["show", "licenses", "nope"], 1),
        ("scontrol", &["show", "topology", "nope"], 1),
        ("sacct", &["-j", "999"], 0),
        ("sprio", &["-j", "999"], 0),
        ("sacctmgr", &["-n", "list", "account", "nope"], 0),
    ] {
        let output = place.slurm(name, words);
        assert_eq!(code(&output), wanted, "{name} {words:?}: {}", said(&output));
    }
    for words in [&["queue"][..], &["history"], &["reservation", "list"], &["priority"]] {
        let output = place.muster(words);
        assert_eq!(code(&output), 0, "{words:?}: {}", said(&output));
    }
}
