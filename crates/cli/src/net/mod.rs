//! `muster net`: what the network between two nodes carries.

mod pair;
mod wire;

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use muster_api::{BandwidthView, JobRef, Tool};
use muster_client::Client;
use muster_model::{JobId, JobKind};
use muster_node_metrics::files::Skipped;
use muster_node_metrics::network::interfaces::interfaces;
use muster_node_metrics::network::iperf3;
use muster_slurm_syntax::options::Command;

use crate::run::{Folder, await_start, interrupts};
use crate::say::{self, Failure, Outcome, note, print};
use crate::table::{Table, terminal_width};
use crate::{act, submit};

/// The longest test.
const SECONDS_MAX: u64 = 60;

/// How long both ends may take to find each other, on top of the test.
const SLACK_S: u64 = 60;

/// Runs on the two nodes of a test.
#[derive(Subcommand)]
pub(crate) enum Net {
    /// Send from one practice node to another for some seconds, as a job on both; for admins
    Test(TestArgs),
    /// Take over what iperf3 measured (`iperf3 -c SERVER -J`); for admins
    Read(ReadArgs),
    /// The newest test between each two nodes
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// One end of a test, inside its job
    #[command(hide = true)]
    Pair(pair::PairArgs),
}

/// The words of `muster net test`.
#[derive(Args)]
pub(crate) struct TestArgs {
    /// The node that sends
    from: String,
    /// The node that receives
    to: String,
    /// For so many seconds at the most
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// At most so many MiB
    #[arg(long, value_name = "COUNT", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    mib: u64,
    /// The partition that both nodes are in
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// The words of `muster net read`.
#[derive(Args)]
pub(crate) struct ReadArgs {
    /// The JSON; - for standard input
    file: PathBuf,
    /// The node where the client ran
    #[arg(long, value_name = "NODE")]
    client: String,
    /// The node where the server ran
    #[arg(long, value_name = "NODE")]
    server: String,
    /// What the link can carry, in Mbit/s, as ethtool says [default: what this machine's interface
    /// says, where the client ran here]
    #[arg(long, value_name = "MBIT")]
    link: Option<u64>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(net: Net) -> Outcome {
    match net {
        Net::Test(args) => test(&args),
        Net::Read(args) => read(&args),
        Net::List { json } => list(json),
        Net::Pair(args) => pair::run(&args),
    }
}

/// Both load the network for everybody on it: who may is who may drain its nodes.
fn admins_only(client: &Client, what: &str) -> Result<(), Failure> {
    match client.ping()?.admin {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "only an admin may {what} [E_ADMIN_ONLY]\nhint: ask the one who runs the daemon"
        ))),
    }
}

fn test(args: &TestArgs) -> Outcome {
    if args.from == args.to {
        return Err(Failure::usage("a test is between two nodes"));
    }
    let client = Client::connect()?;
    admins_only(&client, "test the network")?;
    // An unknown name is told as such, not as a job that fits nowhere.
    for node in [client.node(&args.from)?, client.node(&args.to)?] {
        if !node.practice {
            return Err(Failure::new(format!(
                "{} is no practice node\nhint: between other nodes run iperf3, as a job on both, and \
                 have it read: muster net read FILE",
                node.name
            )));
        }
    }
    let folder = Folder::make()?;
    let request = request(args, &folder)?;
    let interrupted = interrupts()?;
    let answer = client.submit(&request).map_err(|error| submit::told(error, &[]))?;
    let job = JobRef::Job(JobId(answer.job_id));
    if !await_start(&client, &job, &interrupted)? {
        return Ok(crate::run::INTERRUPTED);
    }
    let end = client.wait_over(&job)?;
    let text = |name: &str| std::fs::read_to_string(folder.path.join(name)).unwrap_or_default();
    let (out, err) = (text("out"), text("err"));
    let Some(measured) = out.lines().find_map(|line| serde_json::from_str(line).ok()) else {
        let said = err.lines().next_back().unwrap_or("it said nothing");
        let code = act::exit_code(&end.jobs);
        return Err(Failure::new(format!("job {job} measured nothing (exit code {code}): {said}")));
    };
    let measured: wire::Measured = measured;
    let view = BandwidthView {
        from: args.from.clone(),
        to: args.to.clone(),
        tool: "muster".to_owned(),
        seconds: measured.seconds,
        bits_per_second: measured.bits_per_second(),
        retransmits: measured.retransmits,
        ..BandwidthView::default()
    };
    report(&client, &view, args.json)
}

/// A job with one task on each node; what lets them know each other is in its environment.
fn request(args: &TestArgs, folder: &Folder) -> Result<muster_api::SubmitRequest, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("where muster itself is: {error}")))?;
    std::os::unix::fs::symlink(&program, folder.path.join("srun"))
        .map_err(|error| Failure::new(format!("{}: {error} [E_PATH]", folder.path.display())))?;
    let file = |name: &str| folder.path.join(name).display().to_string();
    let mut words: Vec<String> = [
        "--nodes=2".to_owned(),
        "--ntasks=2".to_owned(),
        "--ntasks-per-node=1".to_owned(),
        "--cpus-per-task=1".to_owned(),
        format!("--nodelist={},{}", args.from, args.to),
        format!("--time={}", (args.seconds + SLACK_S).div_ceil(60)),
        "--job-name=net-test".to_owned(),
        format!("--output={}", file("out")),
        format!("--error={}", file("err")),
    ]
    .into();
    words.extend(args.partition.iter().map(|name| format!("--partition={name}")));
    words.push("net-test".to_owned());
    let line = submit::split(Command::Sbatch, &words)?;
    let mut request = submit::request(Tool::Sbatch, JobKind::Batch, &line)?;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let (program, to) = (quoted(&program.display().to_string()), quoted(&args.to));
    // Muster's own step launcher, whatever else is called srun here.
    let srun = quoted(&folder.path.join("srun").display().to_string());
    request.script = format!(
        "#!/bin/sh\nexec {srun} --ntasks=2 --ntasks-per-node=1 {program} net pair --to={to} \
         --seconds={} --mib={}\n",
        args.seconds, args.mib
    );
    "net-test".clone_into(&mut request.script_name);
    request.environment.insert(pair::TOKEN.to_owned(), pair::token()?);
    Ok(request)
}

fn read(args: &ReadArgs) -> Outcome {
    let shown = args.file.display().to_string();
    let failed = |error: std::io::Error| Failure::new(format!("{shown}: {error} [E_PATH]"));
    let mut text = String::new();
    let read = match shown.as_str() {
        "-" => std::io::stdin().lock().take(iperf3::BYTES_MAX).read_to_string(&mut text),
        _ => File::open(&args.file)
            .and_then(|file| file.take(iperf3::BYTES_MAX).read_to_string(&mut text)),
    };
    read.map_err(failed)?;
    let test = iperf3::read(&text).map_err(|why| Failure::new(format!("{shown}: {why}")))?;
    let (mut from, mut to) = (args.client.clone(), args.server.clone());
    if test.reverse {
        std::mem::swap(&mut from, &mut to);
    }
    let client = Client::connect()?;
    admins_only(&client, "report a test of the network")?;
    let here = || link(test.client_address.as_deref()?.parse().ok()?);
    let given = args.link.map(|mbit| (None, Some(mbit.saturating_mul(1_000_000))));
    let (interface, link_bits_per_second) = given.or_else(here).unwrap_or_default();
    let view = BandwidthView {
        from,
        to,
        tool: "iperf3".to_owned(),
        seconds: test.seconds,
        bits_per_second: test.received,
        retransmits: test.retransmits,
        interface,
        link_bits_per_second,
        ..BandwidthView::default()
    };
    report(&client, &view, args.json)
}

/// The interface of this machine that has the address, and the bits a second that it can carry.
fn link(ip: IpAddr) -> Option<(Option<String>, Option<u64>)> {
    let found = nix::ifaddrs::getifaddrs().ok()?.find(|one| {
        let Some(address) = one.address else { return false };
        let four = address.as_sockaddr_in().map(|four| IpAddr::from(four.ip()));
        four.or_else(|| address.as_sockaddr_in6().map(|six| six.ip().into())) == Some(ip)
    })?;
    let all = interfaces(Path::new("/"), &mut Skipped::default()).unwrap_or_default();
    let speed = all.iter().find(|one| one.name == found.interface_name).and_then(|one| one.speed);
    Some((Some(found.interface_name), speed.map(|bytes| bytes.saturating_mul(8))))
}

fn report(client: &Client, view: &BandwidthView, json: bool) -> Outcome {
    let kept = client.report_bandwidth(view)?;
    if json {
        return say::json(&kept);
    }
    print(&sentence(&kept));
    Ok(0)
}

/// `cn1 -> cn2: 9.41 Gb/s over 5.0 s, 94 % of eth0 (10 Gb/s), 3 segments sent again`.
fn sentence(test: &BandwidthView) -> String {
    let rate = bits(test.bits_per_second);
    let begin = format!("{} -> {}: {rate} over {:.1} s", test.from, test.to, test.seconds);
    let link = match (test.share(), test.link_bits_per_second) {
        (Some(share), Some(link)) => {
            let name = test.interface.as_deref().unwrap_or("the link");
            format!("{:.0} % of {name} ({})", share * 100.0, bits(link as f64))
        }
        _ => "the link's speed is unknown".to_owned(),
    };
    let again = test.retransmits.map(|again| format!(", {again} segments sent again"));
    format!("{begin}, {link}{}\n", again.unwrap_or_default())
}

fn list(json: bool) -> Outcome {
    let tests = Client::connect()?.machine()?.bandwidth;
    if json {
        return say::json(&tests);
    }
    if tests.is_empty() {
        note("no test yet\nhint: muster net test NODE NODE");
        return Ok(0);
    }
    let heads = ["FROM", "TO", "RATE", "LINK", "SHARE", "AGAIN", "WITH", "WHEN"];
    let mut table = Table::new(&heads);
    for test in &tests {
        let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row(vec![
            test.from.clone(),
            test.to.clone(),
            bits(test.bits_per_second),
            or(test.link_bits_per_second.map(|link| bits(link as f64))),
            or(test.share().map(|share| format!("{:.0} %", share * 100.0))),
            or(test.retransmits.map(|again| again.to_string())),
            test.tool.clone(),
            say::instant(test.at_ms),
        ]);
    }
    print(&table.text(terminal_width()));
    Ok(0)
}

/// Bits a second as the network's people write them: powers of a thousand.
fn bits(bits: f64) -> String {
    let units = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];
    let mut value = bits;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::{bits, sentence};
    use muster_api::BandwidthView;

    #[test]
    fn rates_are_in_powers_of_a_thousand() {
        let shown =
            [0.0, 999.0, 1e9, 9.414e9, 94.14e9, 400e9, 999.6e6, 12.0e12].map(bits).join(", ");
        assert_eq!(
            shown,
            "0 b/s, 999 b/s, 1 Gb/s, 9.41 Gb/s, 94.1 Gb/s, 400 Gb/s, 1 Gb/s, 12 Tb/s"
        );
    }

    #[test]
    fn what_is_unknown_is_said_to_be() {
        let mut test = BandwidthView {
            from: "cn1".to_owned(),
            to: "cn2".to_owned(),
            seconds: 5.04,
            bits_per_second: 4.7e9,
            ..BandwidthView::default()
        };
        assert_eq!(
            sentence(&test),
            "cn1 -> cn2: 4.7 Gb/s over 5.0 s, the link's speed is unknown\n"
        );
        test.link_bits_per_second = Some(10_000_000_000);
        test.interface = Some("eth0".to_owned());
        test.retransmits = Some(3);
        assert_eq!(
            sentence(&test),
            "cn1 -> cn2: 4.7 Gb/s over 5.0 s, 47 % of eth0 (10 Gb/s), 3 segments sent again\n"
        );
    }
}
