//! `cargo xtask k8s up|down|status`: a bed that stays until it is told to go.

use std::path::Path;
use std::process::Command;

use super::{Bed, Players, Programs, SMALL, Shape, available};
use crate::args::Args;
use crate::bed::Record;
use crate::sh;

const USAGE: &str = "\
usage: cargo xtask k8s up [--nodes N] [--gpus G] [--scheduler] [--players none|fast|real]
       cargo xtask k8s down|status";

/// The most nodes that a bed is asked for.
const NODES_MAX: u32 = 20_000;

/// The most GPUs of a node.
const GPUS_MAX: u32 = 64;

/// Says where the bed of this work tree lies.
const RECORD: Record = Record { name: "k8s-bed", sign: "kubeconfig", task: "k8s" };

/// Runs `cargo xtask k8s`.
///
/// # Errors
/// A wrong command line, a Kubernetes that does not start, or none that is up.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    let (first, rest) = words.split_first().ok_or(USAGE)?;
    if first == "up" {
        return up(shape(rest)?);
    }
    Args::new(rest).finish()?;
    match first.as_str() {
        "down" => RECORD.down(),
        "status" => tell(&RECORD.up()?),
        _ => Err(USAGE.to_owned()),
    }
}

fn shape(words: &[String]) -> Result<Shape, String> {
    let mut args = Args::new(words);
    let nodes = number(&mut args, "--nodes", SMALL.nodes, 1..=NODES_MAX)?;
    let gpus = number(&mut args, "--gpus", SMALL.gpus, 0..=GPUS_MAX)?;
    let scheduler = args.switch("--scheduler");
    let players = match args.value("--players")?.as_deref() {
        None => SMALL.players,
        Some("none") => Players::None,
        Some("fast") => Players::Fast,
        Some("real") => Players::Real,
        Some(other) => return Err(format!("--players {other}: there are none, fast and real")),
    };
    args.finish()?;
    Ok(Shape { nodes, gpus, scheduler, players })
}

fn number(
    args: &mut Args,
    name: &str,
    usual: u32,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, String> {
    let Some(value) = args.value(name)? else { return Ok(usual) };
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        format!("{name} {value}: a number from {} to {} is meant", range.start(), range.end())
    })
}

fn up(shape: Shape) -> Result<(), String> {
    RECORD.vacant()?;
    let bed = Bed::start(available()?, shape)?;
    let dir = bed.dir().to_owned();
    RECORD.write(&dir)?;
    bed.leave();
    tell(&dir)
}

/// How to reach it and how it stands.
fn tell(dir: &Path) -> Result<(), String> {
    let kubeconfig = dir.join("kubeconfig");
    println!("export KUBECONFIG={}", kubeconfig.display());
    println!("as muster's service account: {}", dir.join("kubeconfig-muster").display());
    println!("logs: {}", dir.join("*.log").display());
    println!("to end it: cargo xtask k8s down\n");
    let player = Programs::build()?.path("player");
    print!("{}", sh::read(Command::new(player).args(["status", "--kubeconfig"]).arg(kubeconfig))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Players, SMALL, shape};

    fn read(words: &[&str]) -> Result<super::Shape, String> {
        shape(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        let shape = read(&["--nodes", "9", "--scheduler", "--players=none"]).expect("right");
        assert_eq!((shape.nodes, shape.gpus, shape.scheduler), (9, SMALL.gpus, true));
        assert_eq!(shape.players, Players::None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for words in [["--nodes", "0"], ["--nodes", "x"], ["--gpus", "-1"], ["--players", "kwok"]] {
            assert!(read(&words).is_err(), "{words:?}");
        }
    }
}
