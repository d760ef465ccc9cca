//! `--distribution`, `--cpu-bind`, `--gpu-bind` and `--tres-bind` (srun and sbatch manuals).

use crate::count::parse_count;
use crate::problem::{Code, Problem, quoted};
use muster_model::binding::{
    CpuBind, CpuBindKind, CpuOrder, Distribution, GpuBind, GpuBindKind, Mask, NodeOrder,
};

/// Most entries of a list after repetitions are written out.
const ENTRIES_MAX: usize = 65_536;

fn bad(what: String, hint: &str) -> Problem {
    Problem::new(Code::ValueBad, what).hint(hint)
}

/// Reads the argument of `--distribution`; `plane` is `SLURM_DIST_PLANESIZE`.
///
/// # Errors
/// [`Code::ValueBad`].
pub fn distribution(text: &str, plane: Option<u32>) -> Result<Distribution, Problem> {
    const HINT: &str = "write block, cyclic, plane=N or arbitrary, then perhaps :SOCKETS:CORES \
                        (block, cyclic, fcyclic or *) and ,Pack or ,NoPack";
    let lower = text.to_ascii_lowercase();
    let mut flags = lower.split(',');
    let mut parts = flags.next().unwrap_or_default().split(':');
    let nodes = match parts.next().unwrap_or_default() {
        "*" | "block" => NodeOrder::Block,
        "cyclic" => NodeOrder::Cyclic,
        "arbitrary" => NodeOrder::Arbitrary,
        "plane" => match plane {
            Some(size) => NodeOrder::Plane(size),
            None => {
                let what = "a plane has no size".to_owned();
                return Err(bad(what, "write plane=N"));
            }
        },
        word => match word.strip_prefix("plane=") {
            Some(size) => NodeOrder::Plane(parse_count(size, 1)?),
            None => {
                let what = format!("{} is no order of tasks over nodes", quoted(word));
                return Err(bad(what, HINT));
            }
        },
    };
    let mut next = || match parts.next() {
        None | Some("*") => Ok(None),
        Some("block") => Ok(Some(CpuOrder::Block)),
        Some("cyclic") => Ok(Some(CpuOrder::Cyclic)),
        Some("fcyclic") => Ok(Some(CpuOrder::FullCyclic)),
        Some(word) => Err(bad(format!("{} is no order of tasks over CPUs", quoted(word)), HINT)),
    };
    let (sockets, cores) = (next()?, next()?);
    if let Some(more) = parts.next() {
        return Err(bad(format!("{} is one order too many", quoted(more)), HINT));
    }
    let pack = match flags.next() {
        None => None,
        Some("pack") => Some(true),
        Some("nopack") => Some(false),
        Some(word) => {
            return Err(bad(format!("{} is neither Pack nor NoPack", quoted(word)), HINT));
        }
    };
    if let Some(more) = flags.next() {
        return Err(bad(format!("{} is one flag too many", quoted(more)), HINT));
    }
    if matches!(nodes, NodeOrder::Plane(_)) && (sockets.is_some() || cores.is_some()) {
        let what = "a plane goes with no other order".to_owned();
        return Err(bad(what, "write plane=N alone"));
    }
    Ok(Distribution { nodes, sockets, cores, pack })
}

/// Takes `verbose,` and `quiet,` off the front; true where the last said is verbose.
fn loudness(text: &str) -> (bool, &str) {
    let (mut rest, mut verbose) = (text, false);
    loop {
        let (word, after) = rest.split_once(',').unwrap_or((rest, ""));
        match word.to_ascii_lowercase().as_str() {
            "v" | "verbose" => verbose = true,
            "q" | "quiet" => verbose = false,
            _ => return (verbose, rest),
        }
        rest = after;
    }
}

/// Reads the argument of `--cpu-bind`.
///
/// # Errors
/// [`Code::ValueBad`].
pub fn cpu_bind(text: &str) -> Result<CpuBind, Problem> {
    const HINT: &str = "write none, threads, cores, sockets, ldoms, rank, rank_ldom, map_cpu:LIST, \
                        mask_cpu:LIST, map_ldom:LIST or mask_ldom:LIST, after verbose, or quiet,";
    let (verbose, rest) = loudness(text);
    let (word, list) = match rest.split_once(':') {
        Some((word, list)) => (word, Some(list)),
        None => (rest, None),
    };
    let kind = match (word.to_ascii_lowercase().as_str(), list) {
        ("", None) => CpuBindKind::Auto,
        ("no" | "none", None) => CpuBindKind::None,
        ("threads" | "thread", None) => CpuBindKind::Threads,
        ("cores" | "core", None) => CpuBindKind::Cores,
        ("sockets" | "socket", None) => CpuBindKind::Sockets,
        ("ldoms" | "ldom", None) => CpuBindKind::Domains,
        ("rank", None) => CpuBindKind::Rank,
        ("rank_ldom", None) => CpuBindKind::RankDomain,
        ("map_cpu" | "mapcpu" | "map", Some(list)) => CpuBindKind::Map(numbers(list)?),
        ("mask_cpu" | "maskcpu" | "mask", Some(list)) => CpuBindKind::Mask(masks(list)?),
        ("map_ldom", Some(list)) => CpuBindKind::MapDomain(numbers(list)?),
        ("mask_ldom", Some(list)) => CpuBindKind::MaskDomain(masks(list)?),
        _ => return Err(bad(format!("{} is no way to bind tasks to CPUs", quoted(rest)), HINT)),
    };
    Ok(CpuBind { kind, verbose })
}

/// Reads the argument of `--gpu-bind`.
///
/// # Errors
/// [`Code::ValueBad`].
pub fn gpu_bind(text: &str) -> Result<GpuBind, Problem> {
    const HINT: &str = "write none, closest, single:TASKS, per_task:GPUS, map_gpu:LIST or \
                        mask_gpu:LIST, perhaps after verbose,";
    let (verbose, rest) = loudness(text);
    let (word, list) = match rest.split_once(':') {
        Some((word, list)) => (word, Some(list)),
        None => (rest, None),
    };
    let kind = match (word.to_ascii_lowercase().as_str(), list) {
        ("none", None) => GpuBindKind::None,
        ("closest", None) => GpuBindKind::Closest,
        ("single", Some(tasks)) => GpuBindKind::Single(parse_count(tasks, 1)?),
        ("per_task", Some(gpus)) => GpuBindKind::PerTask(parse_count(gpus, 1)?),
        ("map_gpu" | "map", Some(list)) => GpuBindKind::Map(numbers(list)?),
        ("mask_gpu" | "mask", Some(list)) => GpuBindKind::Mask(masks(list)?),
        _ => return Err(bad(format!("{} is no way to bind tasks to GPUs", quoted(rest)), HINT)),
    };
    Ok(GpuBind { kind, verbose })
}

/// Reads the argument of `--tres-bind`: `gres/gpu:` before what `--gpu-bind` takes.
///
/// # Errors
/// [`Code::ValueBad`]; [`Code::OptionRefused`] for other resources than GPUs.
pub fn tres_bind(text: &str) -> Result<GpuBind, Problem> {
    let lower = text.to_ascii_lowercase();
    for head in ["gres/gpu:", "gpu:"] {
        if lower.starts_with(head) {
            return gpu_bind(&text[head.len()..]);
        }
    }
    let what = format!("muster binds no tasks to {}", quoted(text));
    Err(Problem::new(Code::OptionRefused, what)
        .hint("GPUs can be bound: write --tres-bind=gres/gpu:KIND, for example gres/gpu:closest"))
}

/// `0,1`, `0*2,1*2`, `0x1f`.
fn numbers(list: &str) -> Result<Vec<u32>, Problem> {
    entries(list, |word| {
        let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let found = match hex {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        found.filter(|_| !word.starts_with('+'))
    })
}

/// `0x1,0x2`, `f*4`.
fn masks(list: &str) -> Result<Vec<Mask>, Problem> {
    entries(list, Mask::parse)
}

/// A list whose entries may be repeated: `ENTRY*TIMES`.
fn entries<T: Clone>(list: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Problem> {
    const HINT: &str = "write the entries with commas, for example 0,1 or 0*2,1*2; masks in base \
                        16, for example 0x3,0xc";
    let mut all = Vec::new();
    for piece in list.split(',') {
        let (word, times) = match piece.split_once('*') {
            Some((word, times)) => (word, parse_count(times, 1)? as usize),
            None => (piece, 1),
        };
        let Some(entry) = read(word) else {
            return Err(bad(format!("{} is no entry of the list", quoted(piece)), HINT));
        };
        if all.len() + times > ENTRIES_MAX {
            let what = format!("the list has more than {ENTRIES_MAX} entries");
            return Err(bad(what, HINT));
        }
        all.extend(std::iter::repeat_n(entry, times));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_read_back_as_they_are_printed() {
        for text in [
            "block",
            "cyclic",
            "plane=4",
            "arbitrary",
            "block:cyclic",
            "cyclic:block:fcyclic",
            "block:*:cyclic",
            "block,Pack",
            "cyclic:fcyclic,NoPack",
        ] {
            let read = distribution(text, None).unwrap_or_else(|p| panic!("{text}: {p}"));
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(distribution("*:Block", None).expect("read").to_string(), "block:block");
        assert_eq!(distribution("plane", Some(3)).expect("read").plane(), Some(3));
    }

    #[test]
    fn wrong_distributions_are_refused() {
        for text in [
            "",
            "blocks",
            "plane",
            "plane=0",
            "plane=x",
            "block:x",
            "block:block:block:block",
            "block,pac",
            "block,Pack,Pack",
            "plane=2:block",
            "arbitrary=3",
        ] {
            let found = distribution(text, None);
            assert!(found.is_err(), "{text}: {found:?}");
        }
    }

    #[test]
    fn cpu_binds_read_back_as_they_are_printed() {
        for text in [
            "",
            "verbose",
            "none",
            "verbose,cores",
            "threads",
            "sockets",
            "ldoms",
            "rank",
            "rank_ldom",
            "map_cpu:0,1",
            "mask_cpu:0x3,0xc",
            "map_ldom:1",
            "mask_ldom:0x1",
        ] {
            let read = cpu_bind(text).unwrap_or_else(|p| panic!("{text}: {p}"));
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(cpu_bind("q,map_cpu:0x0*2,3").expect("read").list(), "0,0,3");
        assert_eq!(cpu_bind("v,quiet,no").expect("read").to_string(), "none");
        for text in ["help", "core:1", "map_cpu", "map_cpu:", "map_cpu:a", "mask_cpu:0", "boards"] {
            assert!(cpu_bind(text).is_err(), "{text}");
        }
    }

    #[test]
    fn t28_gpu_binds_and_their_lists() {
        for (text, printed) in [
            ("closest", "closest"),
            ("verbose,single:2", "verbose,single:2"),
            ("per_task:1", "per_task:1"),
            ("map:0,1", "map_gpu:0,1"),
            ("map_gpu:0*2,1*2", "map_gpu:0,0,1,1"),
            ("mask:0x1,0x2", "mask_gpu:0x1,0x2"),
            ("none", "none"),
        ] {
            assert_eq!(gpu_bind(text).expect("read").to_string(), printed);
            let by_tres = tres_bind(&format!("gres/gpu:{text}")).expect("read");
            assert_eq!(by_tres.to_string(), printed);
        }
        for text in ["", "single", "single:0", "per_task:x", "map:", "map:-1", "mask:0", "near"] {
            assert!(gpu_bind(text).is_err(), "{text}");
        }
        assert!(tres_bind("gres/shard:closest").is_err());
        assert!(gpu_bind(&format!("map:0*{}", ENTRIES_MAX + 1)).is_err());
    }
}
