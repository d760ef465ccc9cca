//! Network interfaces and InfiniBand ports.

use muster_node_metrics::network::ethtool::Card;
use muster_node_metrics::network::infiniband::Port;
use muster_node_metrics::network::interfaces::Interface;

use crate::exposition::Exposition;
use crate::families::{self, Family};

pub(super) fn interfaces(out: &mut Exposition, all: &[Interface]) {
    // Several of the kernel's counters are one of `/proc/net/dev`, whose names dashboards use.
    const COUNTERS: [(&Family, &[&str]); 16] = [
        (&families::NETWORK_RX_BYTES, &["rx_bytes"]),
        (&families::NETWORK_RX_PACKETS, &["rx_packets"]),
        (&families::NETWORK_RX_ERRS, &["rx_errors"]),
        (&families::NETWORK_RX_DROP, &["rx_dropped", "rx_missed_errors"]),
        (&families::NETWORK_RX_FIFO, &["rx_fifo_errors"]),
        (
            &families::NETWORK_RX_FRAME,
            &["rx_frame_errors", "rx_length_errors", "rx_over_errors", "rx_crc_errors"],
        ),
        (&families::NETWORK_RX_COMPRESSED, &["rx_compressed"]),
        (&families::NETWORK_RX_MULTICAST, &["multicast"]),
        (&families::NETWORK_TX_BYTES, &["tx_bytes"]),
        (&families::NETWORK_TX_PACKETS, &["tx_packets"]),
        (&families::NETWORK_TX_ERRS, &["tx_errors"]),
        (&families::NETWORK_TX_DROP, &["tx_dropped"]),
        (&families::NETWORK_TX_FIFO, &["tx_fifo_errors"]),
        (&families::NETWORK_TX_COLLS, &["collisions"]),
        (
            &families::NETWORK_TX_CARRIER,
            &["tx_carrier_errors", "tx_aborted_errors", "tx_window_errors", "tx_heartbeat_errors"],
        ),
        (&families::NETWORK_TX_COMPRESSED, &["tx_compressed"]),
    ];
    for interface in all {
        let labels = [("device", interface.name.as_str())];
        for (family, names) in COUNTERS {
            let sum = names.iter().filter_map(|name| interface.counter(name));
            out.put(family, &labels, sum.reduce(u64::saturating_add));
        }
        out.put(&families::NETWORK_CARRIER_CHANGES, &labels, interface.carrier_changes);
        out.put(&families::NETWORK_UP, &labels, interface.state.as_deref().map(|s| s == "up"));
        out.put(&families::NETWORK_CARRIER, &labels, interface.carrier);
        out.put(&families::NETWORK_SPEED, &labels, interface.speed);
        out.put(&families::NETWORK_MTU, &labels, interface.mtu);
        let has_link = interface.device && interface.carrier == Some(true);
        out.put(&families::SPEED_UNKNOWN, &labels, has_link.then(|| interface.speed_unknown()));
    }
}

pub(super) fn cards(out: &mut Exposition, cards: &[Card]) {
    for card in cards {
        let device = ("device", card.name.as_str());
        out.put(&families::SPEED_MAX, &[device], card.speed_max());
        let (pause, rings) = (card.pause, card.rings);
        for (direction, acts, frames, ring, ring_max) in [
            ("receive", pause.heeds, pause.received, rings.rx, rings.rx_max),
            ("transmit", pause.asks, pause.sent, rings.tx, rings.tx_max),
        ] {
            let labels = [device, ("direction", direction)];
            out.put(&families::PAUSE_ENABLED, &labels, acts);
            out.put(&families::PAUSE_FRAMES, &labels, frames);
            out.put(&families::RING, &labels, ring.map(u64::from));
            out.put(&families::RING_MAX, &labels, ring_max.map(u64::from));
        }
        if let Some(reason) = card.down_because {
            out.put(&families::LINK_DOWN, &[device, ("reason", reason)], true);
        }
    }
}

pub(super) fn ports(out: &mut Exposition, ports: &[Port]) {
    const COUNTERS: [(&Family, &str); 13] = [
        (&families::IB_TX_BYTES, "port_xmit_data"),
        (&families::IB_RX_BYTES, "port_rcv_data"),
        (&families::IB_TX_PACKETS, "port_xmit_packets"),
        (&families::IB_RX_PACKETS, "port_rcv_packets"),
        (&families::IB_TX_WAIT, "port_xmit_wait"),
        (&families::IB_TX_DISCARDS, "port_xmit_discards"),
        (&families::IB_RX_ERRORS, "port_rcv_errors"),
        (&families::IB_LINK_DOWNED, "link_downed"),
        (&families::IB_LINK_RECOVERY, "link_error_recovery"),
        (&families::IB_SYMBOL_ERROR, "symbol_error"),
        (&families::IB_INTEGRITY, "local_link_integrity_errors"),
        (&families::IB_OVERRUN, "excessive_buffer_overrun_errors"),
        (&families::IB_VL15, "VL15_dropped"),
    ];
    for port in ports {
        let number = port.port.to_string();
        let labels = [("device", port.device.as_str()), ("port", number.as_str())];
        for (family, name) in COUNTERS {
            out.put(family, &labels, port.counter(name));
        }
        for (name, value) in &port.device_counters {
            let labels = [labels[0], labels[1], ("counter", name.as_str())];
            out.put(&families::IB_DEVICE, &labels, *value);
        }
        out.put(&families::IB_RATE, &labels, port.rate);
        out.put(&families::IB_ACTIVE, &labels, port.active());
    }
}
