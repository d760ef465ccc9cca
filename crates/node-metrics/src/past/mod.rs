//! What a machine did in the past: figures over stretches of time, whoever noted them down.

pub mod look;
pub mod sadf;

/// A figure of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// The share of its CPUs that was busy.
    Cpu,
    /// The share of time in which some task waited for a CPU.
    CpuWaiting,
    /// The share in which some task waited for memory.
    MemoryWaiting,
    /// The share in which some task waited for I/O.
    IoWaiting,
    /// Tasks that ran or waited to run, on average over a minute.
    Load,
    /// Memory that programs could still get, bytes.
    MemoryFree,
    /// Bytes read from disks a second.
    Read,
    /// Bytes written to disks a second.
    Written,
    /// Reads from disks a second.
    Reads,
    /// The share of time in which the busiest disk was busy.
    DiskBusy,
    /// Bytes a second that came in over the network.
    Received,
    /// Bytes a second that went out.
    Sent,
    /// Use of its GPUs, their mean, 0 to 1.
    Gpu,
    /// GPU memory in use, of all that there is, 0 to 1.
    GpuMemory,
    /// Watts of its GPUs together.
    GpuPower,
    /// CPUs that jobs hold.
    CpusHeld,
    /// Memory that jobs hold, bytes.
    MemoryHeld,
    /// GPUs that jobs hold, in whole or in part.
    GpusHeld,
}

/// How many figures there are.
pub const FIGURES: usize = Figure::ALL.len();

impl Figure {
    /// All of them, in the order in which they are kept; new ones come last.
    pub const ALL: [Self; 18] = [
        Self::Cpu,
        Self::CpuWaiting,
        Self::MemoryWaiting,
        Self::IoWaiting,
        Self::Load,
        Self::MemoryFree,
        Self::Read,
        Self::Written,
        Self::Reads,
        Self::DiskBusy,
        Self::Received,
        Self::Sent,
        Self::Gpu,
        Self::GpuMemory,
        Self::GpuPower,
        Self::CpusHeld,
        Self::MemoryHeld,
        Self::GpusHeld,
    ];

    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::CpuWaiting => "cpu_waiting",
            Self::MemoryWaiting => "memory_waiting",
            Self::IoWaiting => "io_waiting",
            Self::Load => "load",
            Self::MemoryFree => "memory_free",
            Self::Read => "read",
            Self::Written => "written",
            Self::Reads => "reads",
            Self::DiskBusy => "disk_busy",
            Self::Received => "received",
            Self::Sent => "sent",
            Self::Gpu => "gpu",
            Self::GpuMemory => "gpu_memory",
            Self::GpuPower => "gpu_power",
            Self::CpusHeld => "cpus_held",
            Self::MemoryHeld => "memory_held",
            Self::GpusHeld => "gpus_held",
        }
    }

    /// What its values are in: `share`, `tasks`, `cpus`, `gpus`, `bytes`, `bytes_per_s`, `per_s` or
    /// `watts`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Cpu
            | Self::CpuWaiting
            | Self::MemoryWaiting
            | Self::IoWaiting
            | Self::DiskBusy
            | Self::Gpu
            | Self::GpuMemory => "share",
            Self::Load => "tasks",
            Self::CpusHeld => "cpus",
            Self::GpusHeld => "gpus",
            Self::MemoryFree | Self::MemoryHeld => "bytes",
            Self::Read | Self::Written | Self::Received | Self::Sent => "bytes_per_s",
            Self::Reads => "per_s",
            Self::GpuPower => "watts",
        }
    }
}

/// A value for each of [`Figure::ALL`]; none where nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Values([Option<f64>; FIGURES]);

impl Values {
    /// The value of a figure.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.0[figure as usize]
    }

    /// Sets the value of a figure. What is no number, or below 0, is not known.
    pub fn set(&mut self, figure: Figure, value: Option<f64>) {
        self.0[figure as usize] = value.filter(|value| value.is_finite() && *value >= 0.0);
    }

    /// Each figure's value, in the order of [`Figure::ALL`].
    pub fn all(&self) -> &[Option<f64>; FIGURES] {
        &self.0
    }

    /// What is known, in the order of [`Figure::ALL`].
    pub fn known(&self) -> impl Iterator<Item = (Figure, f64)> + '_ {
        Figure::ALL.into_iter().filter_map(|figure| Some((figure, self.get(figure)?)))
    }

    /// True where nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// What a machine did in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// When the stretch ended, milliseconds since 1970.
    pub end_ms: i64,
    /// How long it was.
    pub ms: u64,
    /// The mean of each figure.
    pub values: Values,
}

impl Point {
    /// When the stretch began.
    pub fn begin_ms(&self) -> i64 {
        self.end_ms.saturating_sub_unsigned(self.ms)
    }
}

/// Stretches of equal length, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// When the first begins, milliseconds since 1970.
    pub from_ms: i64,
    /// How long each is.
    pub step_ms: u64,
    /// How many.
    pub steps: usize,
}

/// How long a stretch can be, seconds: what people count in.
const STEPS_S: [i64; 14] =
    [1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800];

/// Some million years away from 1970.
const FAR_MS: i64 = 1 << 57;

impl Layout {
    /// The finest with at most so many stretches (and one that is cut) over a time.
    pub fn over(from_ms: i64, to_ms: i64, most: usize) -> Self {
        // Instants that no calendar has are as good as these.
        let (from_ms, to_ms) = (from_ms.clamp(-FAR_MS, FAR_MS), to_ms.clamp(-FAR_MS, FAR_MS));
        let span = (to_ms - from_ms).max(0);
        let most = i64::try_from(most.max(1)).unwrap_or(i64::MAX);
        let fits = |step: &&i64| span / (**step * 1_000) <= most;
        let week = STEPS_S[STEPS_S.len() - 1];
        let step = STEPS_S.iter().find(fits).copied();
        // However long the time is, there are no more.
        let step = step.unwrap_or_else(|| (span / 1_000 / most / week + 1) * week) * 1_000;
        let from_ms = from_ms.div_euclid(step) * step;
        let steps = ((to_ms - from_ms).max(0) as u64).div_ceil(step.unsigned_abs());
        Self { from_ms, step_ms: step.unsigned_abs(), steps: steps as usize }
    }
}

impl Layout {
    /// The same time in stretches that are no shorter.
    #[must_use]
    pub fn no_finer_than(self, step_ms: u64) -> Self {
        let step = i64::try_from(step_ms.max(1)).unwrap_or(i64::MAX);
        let span_ms = self.step_ms.saturating_mul(self.steps as u64);
        let to_ms = self.from_ms.saturating_add_unsigned(span_ms);
        let from_ms = self.from_ms.div_euclid(step) * step;
        let steps = ((to_ms - from_ms).max(0) as u64).div_ceil(step_ms.max(1));
        if self.step_ms >= step_ms {
            self
        } else {
            Self { from_ms, step_ms, steps: steps as usize }
        }
    }
}

/// The figures of which something is known, each with its value in every stretch.
pub fn lines(values: &[Values]) -> Vec<(Figure, Vec<Option<f64>>)> {
    let line = |figure| values.iter().map(|values| values.get(figure)).collect::<Vec<_>>();
    let all = Figure::ALL.into_iter().map(|figure| (figure, line(figure)));
    all.filter(|(_, values)| values.iter().any(Option::is_some)).collect()
}

/// The values of each stretch: the mean of the points in it, weighed by the time that they share
/// with it.
pub fn stretches(points: &[Point], layout: Layout) -> Vec<Values> {
    let Layout { from_ms, step_ms, steps } = layout;
    let mut sums = vec![[(0.0, 0.0); FIGURES]; steps];
    let step = i128::from(step_ms.max(1));
    for point in points {
        let (begin, end) = (i128::from(point.begin_ms()), i128::from(point.end_ms));
        let from = i128::from(from_ms);
        let first = ((begin - from).div_euclid(step)).max(0) as usize;
        for (at, sum) in sums.iter_mut().enumerate().skip(first) {
            let start = from + step * at as i128;
            let shared = end.min(start + step) - begin.max(start);
            if shared <= 0 {
                break;
            }
            for (sum, value) in sum.iter_mut().zip(point.values.0) {
                let Some(value) = value else { continue };
                *sum = (sum.0 + value * shared as f64, sum.1 + shared as f64);
            }
        }
    }
    let mean = |sum: [(f64, f64); FIGURES]| {
        Values(sum.map(|(sum, weight)| (weight > 0.0).then(|| sum / weight)))
    };
    sums.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::{Figure, Layout, Point, Values, lines, stretches};

    fn point(end_s: i64, seconds: u64, load: Option<f64>) -> Point {
        let mut values = Values::default();
        values.set(Figure::Load, load);
        Point { end_ms: end_s * 1_000, ms: seconds * 1_000, values }
    }

    fn loads(points: &[Point], from_s: i64, step_s: u64, steps: usize) -> Vec<Option<f64>> {
        let layout = Layout { from_ms: from_s * 1_000, step_ms: step_s * 1_000, steps };
        let found = stretches(points, layout);
        found.iter().map(|values| values.get(Figure::Load)).collect()
    }

    #[test]
    fn a_stretch_is_the_mean_of_what_falls_into_it_by_time() {
        let points = [point(10, 10, Some(1.0)), point(40, 30, Some(3.0)), point(50, 10, None)];
        assert_eq!(loads(&points, 0, 20, 3), [Some(2.0), Some(3.0), None]);
        assert_eq!(loads(&points, 5, 10, 2), [Some(2.0), Some(3.0)]);
        // Before the first, after the last, and none at all.
        assert_eq!(loads(&points, -20, 10, 3), [None, None, Some(1.0)]);
        assert_eq!(loads(&points, 100, 10, 1), [None]);
        assert_eq!(loads(&[], 0, 0, 0), []);
    }

    #[test]
    fn stretches_are_as_fine_as_their_number_allows() {
        for (from, to, most, wanted) in [
            (0, 86_400_000, 48, (0, 1_800_000, 48)),
            (1_000, 86_400_000, 48, (0, 1_800_000, 48)),
            (599_000, 601_000, 1_000, (599_000, 1_000, 2)),
            (-1_000, 1_000, 1, (-5_000, 5_000, 2)),
            (0, 0, 0, (0, 1_000, 0)),
            (5, 1, 9, (0, 1_000, 1)),
        ] {
            let layout = Layout::over(from, to, most);
            assert_eq!((layout.from_ms, layout.step_ms, layout.steps), wanted, "{from} {to}");
        }
        for most in [0, 1, 7, 1_000] {
            for (from, to) in [(0, i64::MAX), (i64::MIN, 0), (i64::MIN, i64::MAX)] {
                let layout = Layout::over(from, to, most);
                assert!(layout.steps <= most.max(1) + 2, "{layout:?}");
                let points = [point(10, 10, Some(1.0))];
                assert_eq!(stretches(&points, layout).len(), layout.steps);
            }
        }
    }

    #[test]
    fn stretches_can_be_made_longer_over_the_same_time() {
        let fine = Layout { from_ms: 90_000, step_ms: 10_000, steps: 6 };
        let minutes = Layout { from_ms: 60_000, step_ms: 60_000, steps: 2 };
        assert_eq!(fine.no_finer_than(60_000), minutes);
        assert_eq!(minutes.no_finer_than(10_000), minutes);
    }

    #[test]
    fn lines_are_of_what_is_known() {
        let mut values = [Values::default(); 2];
        values[1].set(Figure::Sent, Some(2.0));
        assert_eq!(lines(&values), [(Figure::Sent, vec![None, Some(2.0)])]);
    }

    #[test]
    fn what_is_no_number_is_not_known() {
        let mut values = Values::default();
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            values.set(Figure::Cpu, Some(odd));
            assert!(values.is_empty(), "{odd}");
        }
    }

    #[test]
    fn figures_are_told_apart_by_their_names_and_places() {
        for (at, figure) in Figure::ALL.into_iter().enumerate() {
            assert_eq!(figure as usize, at);
        }
        let names: std::collections::BTreeSet<_> = Figure::ALL.map(Figure::name).into();
        assert_eq!(names.len(), Figure::ALL.len());
    }
}
