//! iperf3's JSON as a real iperf3 writes it, on this machine alone.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use muster_node_metrics::network::iperf3::{Test, read};

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn port() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a port").port().to_string()
}

/// A test of an eighth of a gigabyte; `None` where there is no iperf3.
fn tested(options: &[&str]) -> Option<Test> {
    if Command::new("iperf3").arg("--version").output().is_err() {
        println!("skipped: iperf3 is not installed (Debian's package iperf3)");
        return None;
    }
    let port = port();
    let server = Command::new("iperf3")
        .args(["-s", "-p", &port])
        .stdout(Stdio::null())
        .spawn()
        .expect("a server");
    let _server = Server(server);
    let mut last = String::new();
    // It says nothing when it listens: asked until it does.
    for _ in 0..600 {
        let client = Command::new("iperf3")
            .args(["-c", "127.0.0.1", "-p", &port, "-J", "--connect-timeout", "1000"])
            .args(options)
            .output()
            .expect("a client");
        match read(&String::from_utf8_lossy(&client.stdout)) {
            Ok(test) => return Some(test),
            Err(why) => last = why,
        }
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    panic!("{last}");
}

#[test]
fn a_real_answer_over_tcp_is_read() {
    for (options, reverse) in [(&["-n", "128M"][..], false), (&["-n", "128M", "-R"][..], true)] {
        let Some(test) = tested(options) else { return };
        assert_eq!(test.reverse, reverse);
        assert!(test.received > 0.0 && test.seconds > 0.0, "{test:?}");
        assert!(test.sent.is_some() && test.retransmits.is_some(), "{test:?}");
        assert_eq!(test.client_address.as_deref(), Some("127.0.0.1"));
    }
}

#[test]
fn a_real_answer_over_udp_is_read() {
    let Some(test) = tested(&["-u", "-b", "50M", "-n", "4M"]) else { return };
    assert!(test.received > 0.0 && test.seconds > 0.0, "{test:?}");
    assert!(test.lost_percent.is_some() && test.jitter_ms.is_some(), "{test:?}");
}

#[test]
fn a_real_failure_is_told() {
    if tested(&["-n", "1M"]).is_none() {
        return;
    }
    let client = Command::new("iperf3").args(["-c", "127.0.0.1", "-p", &port(), "-J"]).output();
    let text = client.expect("a client").stdout;
    let why = read(&String::from_utf8_lossy(&text)).expect_err("nobody listens");
    assert!(why.starts_with("iperf3 says: "), "{why}");
}
