//! Traces that nobody recorded: jobs drawn from a model, by a seed.
//!
//! The same seed gives the same jobs on machines with the same mathematics library.

mod gpu;
mod lublin;
mod shapes;

pub use gpu::{GpuCluster, GpuJobs};
pub use lublin::{Lublin, LublinJobs};

/// So many jobs are drawn to know what one comes to on average.
const SAMPLE: usize = 400_000;

/// How much faster than at pace 1 jobs must come so that they ask for `load` of the machine; `work`
/// is that of one job on average, `apart_s` how far they are apart, both at pace 1.
fn pace(load: f64, processors: u32, work: f64, apart_s: f64) -> f64 {
    load * f64::from(processors) * apart_s / work.max(f64::MIN_POSITIVE)
}
