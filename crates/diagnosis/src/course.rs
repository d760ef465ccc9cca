//! What a job did over its whole life, in a bounded number of points: where they are full, two
//! become one, and each stands for twice the time.

use crate::sample::Sample;

/// Points of a course; a graph on a page has room for no more.
pub const POINTS_MAX: usize = 240;

/// A line of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// CPUs in use.
    Cpu,
    /// The share of time in which some task waited for a CPU.
    CpuWaiting,
    /// The share of time in which some task waited for I/O.
    IoWaiting,
    /// Memory of its own, bytes.
    Memory,
    /// GPU use, mean over its GPUs, 0 to 1.
    Gpu,
    /// The fullest GPU's memory in use, 0 to 1.
    GpuMemory,
    /// Watts of its GPUs together.
    GpuPower,
    /// Bytes read a second.
    Read,
    /// Bytes written a second.
    Written,
    /// Reads a second.
    Reads,
    /// Metadata operations a second on network filesystems.
    Metadata,
    /// Bytes a second over the network.
    Network,
}

impl Line {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Cpu,
        Self::CpuWaiting,
        Self::IoWaiting,
        Self::Memory,
        Self::Gpu,
        Self::GpuMemory,
        Self::GpuPower,
        Self::Read,
        Self::Written,
        Self::Reads,
        Self::Metadata,
        Self::Network,
    ];

    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::CpuWaiting => "cpu_waiting",
            Self::IoWaiting => "io_waiting",
            Self::Memory => "memory",
            Self::Gpu => "gpu",
            Self::GpuMemory => "gpu_memory",
            Self::GpuPower => "gpu_power",
            Self::Read => "read",
            Self::Written => "written",
            Self::Reads => "reads",
            Self::Metadata => "metadata",
            Self::Network => "network",
        }
    }

    /// What its values are in: `cpus`, `share`, `bytes`, `bytes_per_s`, `per_s` or `watts`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Cpu => "cpus",
            Self::CpuWaiting | Self::IoWaiting | Self::Gpu | Self::GpuMemory => "share",
            Self::Memory => "bytes",
            Self::GpuPower => "watts",
            Self::Read | Self::Written | Self::Network => "bytes_per_s",
            Self::Reads | Self::Metadata => "per_s",
        }
    }

    /// Its value between two samples; `None` where it is not known or a count began anew.
    fn between(self, before: &Sample, now: &Sample) -> Option<f64> {
        let seconds = now.at - before.at;
        let rate = |of: &dyn Fn(&Sample) -> Option<f64>| {
            let grown = of(now)? - of(before)?;
            (grown >= 0.0 && seconds > 0.0).then(|| grown / seconds)
        };
        let gpus = now.gpus.iter();
        match self {
            Self::Cpu => rate(&|s| s.cpu_seconds),
            Self::CpuWaiting => rate(&|s| s.cpu_waiting),
            Self::IoWaiting => rate(&|s| s.io_waiting),
            Self::Memory => now.memory,
            Self::Gpu => {
                let known: Vec<f64> = gpus.filter_map(|gpu| gpu.busy).collect();
                (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
            }
            Self::GpuMemory => gpus.filter_map(|gpu| gpu.memory).reduce(f64::max),
            Self::GpuPower => gpus.filter_map(|gpu| gpu.watts).reduce(|sum, more| sum + more),
            Self::Read => {
                rate(&|s| sum([s.disk_read_bytes, s.machine_read_bytes, s.shared_read_bytes]))
            }
            Self::Written => rate(&|s| {
                sum([s.disk_written_bytes, s.machine_written_bytes, s.shared_written_bytes])
            }),
            Self::Reads => rate(&|s| sum([s.disk_reads, s.machine_reads, s.shared_reads])),
            Self::Metadata => rate(&|s| s.shared_metadata),
            Self::Network => rate(&|s| sum([s.rdma_bytes, s.ethernet_bytes, None])),
        }
    }
}

fn sum(parts: [Option<f64>; 3]) -> Option<f64> {
    parts.into_iter().flatten().reduce(|sum, more| sum + more)
}

/// The mean of so many values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    value: f32,
    count: u32,
}

impl Mean {
    fn with(self, other: Self) -> Self {
        let count = self.count + other.count;
        if count == 0 {
            return self;
        }
        let total = f64::from(self.value) * f64::from(self.count)
            + f64::from(other.value) * f64::from(other.count);
        Self { value: (total / f64::from(count)) as f32, count }
    }
}

/// What happened in one stretch of time, by [`Line::ALL`].
type Point = [Mean; Line::ALL.len()];

/// A job's course so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    first: Option<f64>,
    step: f64,
    points: Vec<Point>,
    last: Option<Sample>,
}

impl Course {
    /// A course that was told before, by its lines: it goes on with the next sample, after a gap.
    /// `first` is when it began, on the clock of the samples to come.
    pub fn resume(first: f64, step: f64, lines: &[(Line, Vec<Option<f64>>)]) -> Self {
        let sane = first.is_finite() && step.is_finite() && step > 0.0;
        let count = lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        if !sane || count == 0 || count > POINTS_MAX {
            return Self::default();
        }
        let mut points = vec![Point::default(); count];
        for (line, values) in lines {
            let at = Line::ALL.iter().position(|known| known == line).unwrap_or_default();
            for (point, value) in points.iter_mut().zip(values) {
                if let Some(value) = value.filter(|value| value.is_finite()) {
                    point[at] = Mean { value: value as f32, count: 1 };
                }
            }
        }
        Self { first: Some(first), step, points, last: None }
    }

    /// Takes a sample, newer than all before it.
    pub fn add(&mut self, sample: &Sample) {
        let first = *self.first.get_or_insert(sample.at);
        if let Some(before) = self.last.replace(sample.clone())
            && sample.at > before.at
        {
            if self.step == 0.0 {
                self.step = sample.at - before.at;
            }
            // The first stretch ends a step after the first sample.
            let mut at = self.place(sample.at - first);
            while at >= POINTS_MAX {
                self.halve();
                at = self.place(sample.at - first);
            }
            if self.points.len() <= at {
                self.points.resize(at + 1, Point::default());
            }
            for (mean, line) in self.points[at].iter_mut().zip(Line::ALL) {
                if let Some(value) = line.between(&before, sample) {
                    *mean = mean.with(Mean { value: value as f32, count: 1 });
                }
            }
        }
    }

    fn place(&self, seconds: f64) -> usize {
        ((seconds / self.step).round() as usize).saturating_sub(1)
    }

    fn halve(&mut self) {
        let merged = |pair: &[Point]| {
            let mut point = pair[0];
            if let Some(other) = pair.get(1) {
                point.iter_mut().zip(other).for_each(|(mean, more)| *mean = mean.with(*more));
            }
            point
        };
        self.points = self.points.chunks(2).map(merged).collect();
        self.step *= 2.0;
    }

    /// When it began, on the samples' clock; `None` before the first sample.
    pub fn first(&self) -> Option<f64> {
        self.first
    }

    /// Seconds that a point stands for; 0 before there is one.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// A line, one value for each stretch from the beginning on; what nobody knew is `None`.
    pub fn line(&self, line: Line) -> Vec<Option<f64>> {
        let at = Line::ALL.iter().position(|known| *known == line).unwrap_or_default();
        let value = |mean: &Mean| (mean.count > 0).then(|| f64::from(mean.value));
        self.points.iter().map(|point| value(&point[at])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Course, Line, POINTS_MAX};
    use crate::sample::{Gpu, Sample};

    fn sample(at: f64) -> Sample {
        let gpu = |busy| Gpu { busy: Some(busy), watts: Some(100.0), ..Gpu::default() };
        Sample {
            at,
            cpu_seconds: Some(3.0 * at),
            memory: Some(at),
            machine_read_bytes: Some(10.0 * at),
            shared_read_bytes: Some(5.0 * at),
            gpus: vec![gpu(0.2), gpu(0.6)],
            ..Sample::default()
        }
    }

    #[test]
    fn a_point_is_what_happened_since_the_sample_before() {
        let mut course = Course::default();
        course.add(&sample(100.0));
        assert_eq!((course.line(Line::Cpu), course.step()), (vec![], 0.0));
        course.add(&sample(130.0));
        course.add(&sample(160.4));
        assert_eq!((course.first(), course.step()), (Some(100.0), 30.0));
        assert_eq!(course.line(Line::Cpu), [Some(3.0), Some(3.0)]);
        assert_eq!(course.line(Line::Read)[0], Some(15.0));
        assert_eq!(course.line(Line::Memory)[0], Some(130.0));
        let gpu = course.line(Line::Gpu)[0].unwrap();
        assert!((gpu - 0.4).abs() < 1e-6, "{gpu}");
        assert_eq!(course.line(Line::GpuPower)[0], Some(200.0));
        // Nobody told, which is not 0.
        assert_eq!(course.line(Line::Metadata), [None, None]);
    }

    #[test]
    fn a_pause_is_a_gap_and_a_count_that_fell_is_no_rate() {
        let mut course = Course::default();
        for at in [0.0, 10.0, 50.0] {
            course.add(&sample(at));
        }
        let mean = Some(3.0);
        assert_eq!(course.line(Line::Cpu), [mean, None, None, None, mean]);
        course.add(&Sample { cpu_seconds: Some(1.0), ..sample(60.0) });
        assert_eq!(course.line(Line::Cpu).last(), Some(&None));
    }

    #[test]
    fn a_month_has_as_many_points_as_an_hour_and_the_same_mean() {
        let mut course = Course::default();
        // One CPU for half of it, then three.
        let (mut used, samples) = (0.0, 86_400);
        for n in 0..=samples {
            course.add(&Sample { cpu_seconds: Some(used), ..sample(30.0 * f64::from(n)) });
            used += if n < samples / 2 { 30.0 } else { 90.0 };
        }
        let line = course.line(Line::Cpu);
        assert!(line.len() <= POINTS_MAX && line.len() > POINTS_MAX / 2, "{}", line.len());
        assert_eq!((line[0], line[line.len() - 1]), (Some(1.0), Some(3.0)));
        let known: Vec<f64> = line.into_iter().flatten().collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        assert!((mean - 2.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn a_course_goes_on_where_it_was_told_to_the_end() {
        let mut course = Course::default();
        (0..5).for_each(|n| course.add(&sample(30.0 * f64::from(n))));
        let lines: Vec<_> = Line::ALL.into_iter().map(|line| (line, course.line(line))).collect();
        // Another clock, which began 200 seconds after the first sample.
        let mut again = Course::resume(-200.0, course.step(), &lines);
        assert_eq!((again.first(), again.step()), (Some(-200.0), 30.0));
        assert_eq!(again.line(Line::Cpu), course.line(Line::Cpu));
        assert_eq!(again.line(Line::Metadata), course.line(Line::Metadata));
        for at in [10.0, 40.0] {
            again.add(&sample(at));
        }
        // Seven stretches and a half after the first sample came the first of the new ones.
        let known: Vec<bool> = again.line(Line::Cpu).iter().map(Option::is_some).collect();
        assert_eq!(known, [true, true, true, true, false, false, false, true]);
        // What makes no sense is none.
        for (first, step, many) in [(0.0, 0.0, 4), (f64::NAN, 30.0, 4), (0.0, 30.0, POINTS_MAX + 1)]
        {
            let lines = [(Line::Cpu, vec![Some(1.0); many])];
            assert_eq!(Course::resume(first, step, &lines), Course::default());
        }
    }

    #[test]
    fn names_are_told_apart() {
        let names: std::collections::BTreeSet<&str> = Line::ALL.iter().map(|l| l.name()).collect();
        assert_eq!(names.len(), Line::ALL.len());
    }
}
