//! The queue that both ways are given: gangs, arrays, short and long jobs, the same each time.

use std::fmt::Write as _;

/// A submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Work {
    /// The words for `sbatch`.
    pub(super) words: String,
    /// How long it runs, seconds; each task of an array.
    pub(super) seconds: u64,
}

/// What the mix is made of: so many of each, and what one looks like.
const GANGS: u64 = 7;
const ARRAYS: u64 = 6;
const LONG: u64 = 16;
const SHORT: u64 = 130;

/// All of it, mixed. A GPU goes with two CPUs everywhere, so that the CPUs tell how full the nodes
/// are; limits are whole minutes, as Slurm has them, and so far above what the jobs take.
pub(super) fn mix() -> Vec<Work> {
    let mut draw = Draw(0x2545_F491_4F6C_DD1D);
    let mut all = Vec::new();
    for n in 0..GANGS {
        let words = format!("-N{} --exclusive --gres=gpu:4 -t 2", 2 + n % 4);
        all.push(Work { words, seconds: 15 + draw.below(20) });
    }
    for n in 0..ARRAYS {
        let mut words = String::from("-c2 --gres=gpu:1 -t 1 --array=0-15");
        if n % 3 == 0 {
            let _ = write!(words, "%8");
        }
        all.push(Work { words, seconds: 8 + draw.below(8) });
    }
    for _ in 0..LONG {
        all.push(Work { words: "-c2 -t 2".to_owned(), seconds: 40 + draw.below(30) });
    }
    for _ in 0..SHORT {
        let words = format!("-c{} -t 1", 1 + draw.below(4));
        all.push(Work { words, seconds: 2 + draw.below(6) });
    }
    for at in (1..all.len()).rev() {
        all.swap(at, draw.below(at as u64 + 1) as usize);
    }
    all
}

/// Numbers that look drawn: xorshift64* (Vigna 2016).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % end
    }
}

#[cfg(test)]
mod tests {
    use super::mix;

    #[test]
    fn it_is_the_same_each_time_and_mixed() {
        let (one, other) = (mix(), mix());
        assert_eq!(one, other);
        let first = one.iter().take(one.len() / 2);
        let of = |word: &str| first.clone().filter(|work| work.words.contains(word)).count();
        assert!(of("--exclusive") > 0 && of("--array") > 0, "{one:?}");
    }
}
