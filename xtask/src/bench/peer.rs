//! The best peer, HyperQueue, in the same minutes, where the package registry has it.

use super::Figure;
use crate::{root, sh};

/// The release that was measured first.
const PACKAGE: &str = "hyperqueue==0.27.0";

/// One server and one worker of two CPUs; the package has no command, only this way in.
const PROGRAM: &str = r#"
import sys, time
from hyperqueue import Job
from hyperqueue.cluster import LocalCluster, WorkerConfig
count = int(sys.argv[1])
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=2))
    client, job = cluster.client(), Job()
    for _ in range(count):
        job.program(["/bin/true"], stdout=None, stderr=None)
    begin = time.monotonic()
    client.wait_for_jobs([client.submit(job)])
    print(count / (time.monotonic() - begin))
"#;

/// As many trivial tasks through HyperQueue; none where it cannot be had, which a line says.
pub(super) fn hyperqueue(tasks: u32, bare: f64) -> Option<Figure> {
    match measure(tasks) {
        Ok(rate) => Some(Figure::baseline(
            "HyperQueue",
            rate,
            "tasks/s",
            &format!("{PACKAGE}, no journal; {:.2} of the bare loop", rate / bare),
        )),
        Err(why) => {
            println!("skipped: HyperQueue beside it: {why}");
            None
        }
    }
}

fn measure(tasks: u32) -> Result<f64, String> {
    let place = root::target().join("tools/hyperqueue");
    let python = place.join("bin/python");
    if !python.exists() {
        sh::read(sh::command("python3").args(["-m", "venv"]).arg(&place))?;
    }
    sh::read(sh::command(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
    let text = sh::read(sh::command(&python).args(["-c", PROGRAM, &tasks.to_string()]))?;
    let rate = text.lines().last().and_then(|line| line.trim().parse().ok());
    rate.ok_or_else(|| "no figure came".to_owned())
}
