//! `muster sim generate`: traces of jobs that nobody submitted.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_sim::generate::{GpuCluster, Lublin};
use muster_sim::trace::{SwfJob, write_swf, write_swf_header};

use super::common::at;
use crate::say::{Failure, Outcome, note};

/// The words of `muster sim generate`.
#[derive(Args)]
pub(crate) struct GenerateArgs {
    /// What the jobs are like
    #[arg(value_enum)]
    model: Model,
    /// How large the machine is: processors, or GPUs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    processors: u32,
    /// So many jobs
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    jobs: u64,
    /// Which part of the machine they ask for on average; without it 0.7 for gpu, and for lublin
    /// the pace of the model
    #[arg(long, value_name = "X")]
    load: Option<f64>,
    /// Under lublin, jobs ask for their run time and up to so many times as much more
    #[arg(long, default_value_t = 0.0, value_name = "X")]
    estimates: f64,
    /// Another seed, other jobs
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Where the trace goes; without it, to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Model {
    /// Rigid jobs of parallel machines: Lublin and Feitelson's model
    Lublin,
    /// A cluster of GPUs: gangs, heavy tails, days and weeks; a processor is a GPU
    Gpu,
}

/// Writes the jobs as they are drawn.
pub(crate) fn run(args: &GenerateArgs) -> Outcome {
    for (name, value, most) in
        [("--load", args.load.unwrap_or(1.0), 10.0), ("--estimates", args.estimates, 1000.0)]
    {
        let least = if name == "--load" { 0.001 } else { 0.0 };
        if !(least..=most).contains(&value) {
            return Err(Failure::usage(format!("{name} {value}: from {least} to {most}")));
        }
    }
    let (seed, processors, load) = (args.seed, args.processors, args.load);
    let jobs: Box<dyn Iterator<Item = SwfJob>> = match args.model {
        Model::Lublin => {
            Box::new(Lublin { processors, load, estimates: args.estimates, seed }.jobs())
        }
        Model::Gpu => {
            Box::new(GpuCluster { gpus: processors, load: load.unwrap_or(0.7), seed }.jobs())
        }
    };
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(BufWriter::new(File::create(path).map_err(|e| at(path, &e))?)),
        None => Box::new(BufWriter::new(io::stdout().lock())),
    };
    let target = args.output.clone().unwrap_or_else(|| PathBuf::from("standard output"));
    let model = match args.model {
        Model::Lublin => "Lublin and Feitelson's model",
        Model::Gpu => "a made-up cluster of GPUs; a processor is a GPU",
    };
    let write = || -> io::Result<()> {
        let notes = format!("drawn by muster sim generate from {model}, seed {seed}");
        write_swf_header(&mut out, processors, &notes)?;
        let count = usize::try_from(args.jobs).unwrap_or(usize::MAX);
        for job in jobs.take(count) {
            write_swf(&mut out, &job)?;
        }
        out.flush()
    };
    match write() {
        // Who reads only the beginning has what was wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
        result => result.map_err(|error| at(&target, &error))?,
    }
    note(&format!("{} jobs drawn", args.jobs));
    Ok(0)
}
