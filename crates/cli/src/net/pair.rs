//! `muster net pair`: one end of a test, as a task of its job.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use clap::Args;

use super::wire::{Bounds, receive, send};
use crate::say::{Failure, Outcome, print};

/// The variable with what only the two ends of a test know.
pub(super) const TOKEN: &str = "MUSTER_NET_TOKEN";

/// The words of `muster net pair`.
#[derive(Args)]
pub(crate) struct PairArgs {
    /// The node that receives
    #[arg(long)]
    to: String,
    #[arg(long)]
    seconds: u64,
    #[arg(long)]
    mib: u64,
}

/// What only the two ends of a test know.
pub(super) fn token() -> Result<String, Failure> {
    use std::io::Read as _;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|error| Failure::new(format!("/dev/urandom: {error} [E_PATH]")))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Receives on the node that is to receive, and sends on the other, which prints what arrived.
pub(super) fn run(args: &PairArgs) -> Outcome {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let outside = || Failure::usage("this is a part of muster net test, inside its job");
    let (token, own) =
        (variable(TOKEN).ok_or_else(outside)?, variable("SLURMD_NODENAME").ok_or_else(outside)?);
    let port: u16 =
        variable("MASTER_PORT").and_then(|port| port.parse().ok()).ok_or_else(outside)?;
    let bounds =
        Bounds { time: Duration::from_secs(args.seconds), bytes: args.mib.saturating_mul(1 << 20) };
    let said = |error: std::io::Error| Failure::new(format!("the network test: {error}"));
    // Practice nodes are all this machine, whose names no resolver knows.
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    if own == args.to {
        let listener = TcpListener::bind(address).map_err(said)?;
        receive(&listener, &token, bounds).map_err(said)?;
        return Ok(0);
    }
    let measured = send(address, &token, bounds).map_err(said)?;
    let line = serde_json::to_string(&measured);
    print(&format!("{}\n", line.map_err(|error| Failure::new(error.to_string()))?));
    Ok(0)
}
