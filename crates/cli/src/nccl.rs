//! What NCCL says in a job's output of the way that its data takes: read with the caller's rights.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use muster_api::JobView;
use muster_node_metrics::files::Skipped;
use muster_node_metrics::network::infiniband;
use muster_node_metrics::network::nccl::Nccl;

/// Ranks say it at the beginning; so much of an output is looked at.
const READ_MAX: u64 = 4 << 20;

/// A line about a job's data, where its output says something that counts.
pub(crate) fn finding(job: &JobView) -> Option<String> {
    let mut said = Nccl::default();
    let mut paths = vec![&job.stdout_path];
    if job.stderr_path != job.stdout_path {
        paths.push(&job.stderr_path);
    }
    for path in paths.into_iter().filter(|path| !path.is_empty()) {
        said.read(&beginning(Path::new(path)));
    }
    let port = infiniband::ports(Path::new("/"), &mut Skipped::default())
        .is_ok_and(|ports| ports.iter().any(infiniband::Port::active));
    text(job.row.id, &said, port)
}

/// The beginning of a regular file; empty where it cannot be read.
fn beginning(path: &Path) -> String {
    let is_file = path.metadata().is_ok_and(|data| data.is_file());
    let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else {
        return String::new();
    };
    let mut bytes = Vec::new();
    // What was read before an error came is looked at.
    let _ = file.take(READ_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn text(job: u32, said: &Nccl, port_is_active: bool) -> Option<String> {
    let trouble = said.link_trouble;
    if said.fell_back(port_is_active) {
        let why = if said.no_device { ", it found no device" } else { "" };
        return Some(format!(
            "job {job}: NCCL sends its data over TCP though there is InfiniBand or RoCE \
             [NCCL_SAYS_SOCKET]\n  because  its output says `Using network Socket`{why}\n  \
             do       look for /dev/infiniband in the container and at NCCL_IB_HCA, NCCL_IB_DISABLE\n"
        ));
    }
    if trouble > 0 {
        return Some(format!(
            "job {job}: NCCL tells of trouble with a link [NCCL_SAYS_LINK]\n  because  {trouble} \
             such lines in its output\n  do       tell an administrator: cable, port, switch\n"
        ));
    }
    (said.direct == 0 && said.through_host > 0).then(|| {
        format!(
            "job {job}: NCCL's data goes to the network by way of the host's memory \
             [NCCL_SAYS_HOST]\n  because  {} connections over InfiniBand, none with GDRDMA\n  \
             do       load nvidia-peermem, and see NCCL_NET_GDR_LEVEL\n",
            said.through_host
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{beginning, text};
    use muster_node_metrics::network::nccl::Nccl;
    use std::path::Path;

    fn said(log: &str) -> Nccl {
        let mut found = Nccl::default();
        found.read(log);
        found
    }

    #[test]
    fn a_fallback_counts_only_where_there_is_a_port() {
        let socket = said("n0:7:9 [0] NCCL INFO Using network Socket\n");
        let line = text(7, &socket, true).expect("a finding");
        assert!(line.starts_with("job 7: ") && line.contains("[NCCL_SAYS_SOCKET]"), "{line}");
        assert_eq!(text(7, &socket, false), None);
    }

    #[test]
    fn trouble_and_a_detour_are_told_and_what_is_fine_is_not() {
        let way =
            |way: &str| format!("n0:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via {way}\n");
        let fine = said(&way("NET/IB/0/GDRDMA"));
        assert_eq!(text(7, &fine, true), None);
        let both = said(&(way("NET/IB/0/GDRDMA") + &way("NET/IB/1")));
        assert_eq!(text(7, &both, true), None);
        let detour = text(7, &said(&way("NET/IB/1")), true).expect("a finding");
        assert!(detour.contains("[NCCL_SAYS_HOST]"), "{detour}");
        let ill = said("n0:7:9 [0] NCCL WARN NET/IB : mlx5_0:1 Got non-fatal async event\n");
        assert!(text(7, &ill, true).is_some_and(|line| line.contains("[NCCL_SAYS_LINK]")));
        assert_eq!(text(7, &Nccl::default(), true), None);
    }

    #[test]
    fn what_is_no_file_says_nothing() {
        assert_eq!(beginning(Path::new("/dev/zero")), "");
        assert_eq!(beginning(Path::new("/nonexistent")), "");
    }
}
