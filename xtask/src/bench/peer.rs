//! The best peer, HyperQueue, in the same minutes, where the package registry has it.

use super::{Bound, Figure};
use crate::{root, sh};

/// The release that was measured first.
const PACKAGE: &str = "hyperqueue==0.27.0";

/// How many times its rate ours is to be: it made 905 tasks a second on a machine where 1,000 was aimed for.
const AIM: f64 = 1_000.0 / 905.0;

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

/// As many trivial tasks through HyperQueue, and our rate beside it; none where it cannot be had, which
/// a line says.
pub(super) fn hyperqueue(tasks: u32, bare: f64, own: f64) -> Vec<Figure> {
    match measure(tasks) {
        Ok(rate) => {
            let share = rate / bare;
            let note = format!("{PACKAGE}, no journal; {share:.2} of the bare loop");
            let beside = "both in one run; where the peer made 905 a second, 1,000 was the aim";
            vec![
                Figure::baseline("HyperQueue", rate, "tasks/s", &note),
                Figure::bounded(
                    "dispatch by HyperQueue's",
                    own / rate,
                    "",
                    Bound::AtLeast(AIM),
                    beside.to_owned(),
                ),
            ]
        }
        Err(why) => {
            println!("skipped: HyperQueue beside it: {why}");
            Vec::new()
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
