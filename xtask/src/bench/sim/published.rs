//! Figures that others published, held against replays: to nine digits on KTH-SP2, and the best learned
//! scheduler beaten without a longer wait for anybody.

use std::path::Path;

use super::{Row, replay_with};
use crate::bench::{Bound, Figure};

const LEARNED: &str = "--estimates=learned";

/// What is replayed, and the average bounded slowdown and flow time that come out (Gaussier, Glesser,
/// Reis and Trystram, SC 2015; those with learned run times by a simulation that was written from the
/// study's description without the core); a flow time of nought is not told.
const FIGURES: [(&str, &[&str], f64, f64); 10] = [
    ("EASY", &["--policy=easy"], 92.576_539_733_629_5, 15_696.798_181_243_6),
    ("EASY++", &["--policy=easy-sjbf"], 69.405_400_580_303_5, 14_764.002_668_445_6),
    (
        "EASY++, clairvoyant",
        &["--policy=easy-sjbf", "--estimates=clairvoyant"],
        49.847_718_931_340_6,
        14_295.946_841_754_2,
    ),
    (
        "EASY++, doubled",
        &["--policy=easy-sjbf", "--estimates=doubled"],
        58.912_532_239_972_9,
        14_063.917_594_185_6,
    ),
    ("EASY++, learned, limit", &["--policy=easy-sjbf", LEARNED], 62.856_882_727_292_2, 0.0),
    (
        "EASY++, learned, double",
        &["--policy=easy-sjbf", LEARNED, "--correction=double"],
        64.527_474_221_915_8,
        0.0,
    ),
    (
        "EASY++, learned, steps",
        &["--policy=easy-sjbf", LEARNED, "--correction=steps"],
        63.500_677_170_407_6,
        0.0,
    ),
    (
        "EASY, learned, limit",
        &["--policy=easy", LEARNED, "--rounds=fitting"],
        65.723_589_440_049_1,
        0.0,
    ),
    (
        "EASY, learned, double",
        &["--policy=easy", LEARNED, "--rounds=fitting", "--correction=double"],
        76.922_442_322_375_9,
        0.0,
    ),
    (
        "EASY, learned, steps",
        &["--policy=easy", LEARNED, "--rounds=fitting", "--correction=steps"],
        85.442_905_586_027_9,
        0.0,
    ),
];

/// The slowdown of the study's best learned scheduler, one of whose jobs is there for 829,512 s.
const BEST: f64 = 45.797;

/// How far each figure is from what was published, in parts of it.
pub(super) fn figures(binary: &Path, trace: &Path) -> Result<Vec<Figure>, String> {
    let mut found = Vec::new();
    for (name, words, slowdown, flow) in FIGURES {
        let (summary, _) = replay_with(binary, trace, words, 1)?;
        let of = |key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
        let own = of("average_bounded_slowdown");
        let mut off = (own / slowdown - 1.0).abs();
        if flow > 0.0 {
            off = off.max((of("average_flow_time_s") / flow - 1.0).abs());
        }
        let note = format!("{own} for {slowdown}; parts of the published figure");
        let off = if off.is_nan() { 1.0 } else { off };
        let name = format!("{name}, off by");
        found.push(Figure::bounded(&name, off, "", Bound::AtMost(1e-9), note));
    }
    Ok(found)
}

/// The default policy beside EASY: on each trace less slowdown, on KTH-SP2 less than the best and
/// nobody there for longer than 1.1 times EASY's longest.
pub(super) fn default_policy(rows: &[Row]) -> Vec<Figure> {
    let mut found = Vec::new();
    let of = |trace: &str, policy: &str| {
        rows.iter().find(|row| row.trace == trace && row.policy == policy)
    };
    for own in rows.iter().filter(|row| row.policy == "muster") {
        let Some(easy) = of(own.trace, "easy") else { continue };
        let (mine, its) =
            (own.number("average_bounded_slowdown"), easy.number("average_bounded_slowdown"));
        let name = format!("muster's slowdown by EASY's, {}", own.trace);
        let note = format!("{mine:.5} by {its:.5}");
        found.push(Figure::bounded(&name, mine / its, "", Bound::AtMost(1.0), note));
        if own.trace == "kth-sp2" {
            let name = "muster's slowdown, kth-sp2";
            let note = "the best learned scheduler of the study";
            found.push(Figure::bounded(name, mine, "", Bound::AtMost(BEST), note));
            let (mine, its) = (own.number("max_flow_time_s"), easy.number("max_flow_time_s"));
            let name = "its longest flow time by EASY's, kth-sp2";
            let note = format!("{mine} s by {its} s");
            found.push(Figure::bounded(name, mine / its, "", Bound::AtMost(1.1), note));
        }
    }
    found
}
