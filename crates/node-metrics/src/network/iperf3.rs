//! What iperf3 measured between two machines, from its JSON (`iperf3 -c HOST -J`).

use serde_json::Value;

/// The longest text that is read; an hour's test with many streams is far below it.
pub const BYTES_MAX: u64 = 64 << 20;

/// A test's end: what arrived is what counts, as what was sent may be on its way or lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Test {
    /// The data went from the server to the client (`-R`).
    pub reverse: bool,
    /// How long it took.
    pub seconds: f64,
    /// Bits a second that arrived.
    pub received: f64,
    /// Bits a second that were sent.
    pub sent: Option<f64>,
    /// Segments that TCP sent again; nobody counts them for UDP, and not every system for TCP.
    pub retransmits: Option<u64>,
    /// How much UDP's packets varied in their time.
    pub jitter_ms: Option<f64>,
    /// UDP's packets that did not arrive.
    pub lost_percent: Option<f64>,
    /// The client's own address, which says by which interface it went.
    pub client_address: Option<String>,
}

/// Reads a client's JSON.
///
/// # Errors
/// It is none, it has no result, or iperf3 says in it why it failed: a sentence, without what could
/// take over a terminal.
pub fn read(text: &str) -> Result<Test, String> {
    let all: Value = serde_json::from_str(text)
        .map_err(|error| format!("that is not iperf3's JSON (iperf3 -c HOST -J): {error}"))?;
    if let Some(error) = all.get("error").and_then(Value::as_str) {
        let plain = error.chars().filter(|letter| !letter.is_control()).take(200);
        return Err(format!("iperf3 says: {}", plain.collect::<String>()));
    }
    let end = all.get("end").ok_or("there is no result (`end`) in it")?;
    let number = |sum: &str, name: &str| {
        let value = end.get(sum)?.get(name)?.as_f64()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    // Older releases have for UDP only the sum as it was sent, and what was lost of it.
    let lost_percent = number("sum", "lost_percent").filter(|percent| *percent <= 100.0);
    let udp = || {
        let sent = number("sum", "bits_per_second")?;
        Some(sent * (1.0 - lost_percent? / 100.0))
    };
    let received = number("sum_received", "bits_per_second").filter(|bits| *bits > 0.0);
    let seconds = number("sum_received", "seconds").or_else(|| number("sum", "seconds"));
    let start = all.get("start");
    let asked = start.and_then(|start| start.get("test_start"));
    let retransmits = end.get("sum_sent").and_then(|sum| sum.get("retransmits"));
    let connected = start.and_then(|start| start.get("connected")?.get(0)?.get("local_host"));
    Ok(Test {
        reverse: asked.and_then(|asked| asked.get("reverse")?.as_u64()) == Some(1),
        seconds: seconds.filter(|seconds| *seconds > 0.0).ok_or("it says of no time")?,
        received: received.or_else(udp).ok_or("it does not say how much arrived")?,
        sent: number("sum_sent", "bits_per_second").or_else(|| number("sum", "bits_per_second")),
        retransmits: retransmits.and_then(Value::as_u64),
        jitter_ms: number("sum", "jitter_ms"),
        lost_percent,
        client_address: connected.and_then(Value::as_str).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_arrived_counts_in_bits_with_what_was_sent_again() {
        let test = read(
            r#"{"start": {"connected": [{"local_host": "10.0.0.1"}], "test_start": {"reverse": 0}},
            "end": {"sum_sent": {"seconds": 10.0, "bits_per_second": 9.5e9, "retransmits": 12},
            "sum_received": {"seconds": 10.04, "bits_per_second": 9.4e9}}}"#,
        )
        .expect("a test");
        assert_eq!((test.received, test.sent, test.retransmits), (9.4e9, Some(9.5e9), Some(12)));
        assert_eq!((test.seconds, test.reverse), (10.04, false));
        assert_eq!(test.client_address.as_deref(), Some("10.0.0.1"));
        assert_eq!(test.lost_percent, None);
    }

    #[test]
    fn what_nobody_counted_is_absent_and_no_nought() {
        let test = read(
            r#"{"start": {"test_start": {"reverse": 1}},
            "end": {"sum_sent": {"bits_per_second": 1e9},
            "sum_received": {"seconds": 1, "bits_per_second": 1e9}}}"#,
        )
        .expect("a test");
        assert_eq!((test.retransmits, test.reverse), (None, true));
    }

    #[test]
    fn udp_is_what_arrived_of_what_was_sent() {
        let test = read(
            r#"{"end": {"sum": {"seconds": 2.0, "bits_per_second": 1000.0, "jitter_ms": 0.5,
            "lost_percent": 25.0, "packets": 4, "lost_packets": 1}}}"#,
        )
        .expect("a test");
        assert_eq!((test.received, test.sent), (750.0, Some(1000.0)));
        assert_eq!((test.jitter_ms, test.lost_percent), (Some(0.5), Some(25.0)));
    }

    #[test]
    fn failures_and_what_is_no_result_are_told() {
        let failed = r#"{"start": {}, "end": {}, "error": "error - refused\u001b[2J"}"#;
        assert_eq!(read(failed).unwrap_err(), "iperf3 says: error - refused[2J");
        for text in ["", "[1]", "{}", r#"{"end": {}}"#, "iperf3: error", r#"{"end": 1e999}"#] {
            assert!(!read(text).unwrap_err().is_empty(), "{text}");
        }
        let nought = r#"{"end": {"sum_received": {"seconds": 0, "bits_per_second": 5}}}"#;
        assert!(read(nought).unwrap_err().contains("time"));
        let below = r#"{"end": {"sum_received": {"seconds": 1, "bits_per_second": -5}}}"#;
        assert!(read(below).unwrap_err().contains("arrived"));
    }
}
