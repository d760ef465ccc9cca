//! What NCCL says, with `NCCL_DEBUG=INFO`, of the way that data takes between ranks.
//!
//! The fragments are those of NVIDIA/nccl. `NET/Socket : Using` is also printed while ranks find
//! each other, so alone it is no fallback; the decision is `Using network`.

/// What the lines of a job's ranks say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nccl {
    /// The networks that were chosen, each once, in order of their first line.
    pub networks: Vec<String>,
    /// No InfiniBand or RoCE device could be used.
    pub no_device: bool,
    /// Connections between ranks over TCP.
    pub over_sockets: u64,
    /// Connections between ranks over verbs, with the GPU's memory read directly.
    pub direct: u64,
    /// Connections over verbs by way of the host's memory.
    pub through_host: u64,
    /// Lines that tell of trouble with a link.
    pub link_trouble: u64,
}

impl Nccl {
    /// Reads the lines of one rank; others are passed over.
    pub fn read(&mut self, log: &str) {
        for line in log.lines() {
            if let Some((_, said)) = line.split_once("NCCL INFO ") {
                self.line(said.trim());
            } else if let Some((_, said)) = line.split_once("NCCL WARN ") {
                self.line(said.trim());
            }
        }
    }

    fn line(&mut self, said: &str) {
        if let Some(network) = said.strip_prefix("Using network ") {
            if !self.networks.iter().any(|known| known == network) {
                self.networks.push(network.to_owned());
            }
        } else if said.starts_with("NET/IB : No device found") {
            self.no_device = true;
        } else if let Some((_, way)) = said.split_once(" via NET/") {
            match way.split('/').next() {
                Some("Socket") => self.over_sockets += 1,
                Some("IB") if way.contains("GDRDMA") => self.direct += 1,
                Some("IB") => self.through_host += 1,
                _ => {}
            }
        } else if ["speed change detected", "async fatal event", "non-fatal async event"]
            .iter()
            .any(|trouble| said.contains(trouble))
        {
            self.link_trouble += 1;
        }
    }

    /// Ranks speak over TCP though the node has a port that could do better.
    pub fn fell_back(&self, port_is_active: bool) -> bool {
        port_is_active && self.networks.iter().any(|network| network == "Socket")
    }
}

#[cfg(test)]
mod tests {
    use super::Nccl;

    fn said(log: &str) -> Nccl {
        let mut found = Nccl::default();
        found.read(log);
        found
    }

    #[test]
    fn the_decision_is_what_counts() {
        let socket = said(
            "n0:7:9 [0] NCCL INFO NET/IB : No device found.\n\
             n0:7:9 [0] NCCL INFO Using network Socket\n\
             n1:7:9 [0] NCCL INFO Using network Socket\n\
             n0:7:9 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/Socket/0\n",
        );
        assert!(socket.fell_back(true) && socket.no_device);
        assert_eq!((socket.networks.len(), socket.over_sockets), (1, 1));
        // Without a port there is nothing to fall back from.
        assert!(!socket.fell_back(false));
    }

    #[test]
    fn the_sockets_of_the_beginning_are_no_fallback() {
        let fine = said(
            "n0:7:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n\
             n0:7:9 [0] NCCL INFO Using network IB\n\
             n0:7:9 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA\n\
             n0:7:9 [0] NCCL INFO Channel 01/0 : 3[3] -> 4[0] [send] via NET/IB/1\n\
             n0:7:9 [0] NCCL WARN NET/IB : mlx5_0:1 Got non-fatal async event\n\
             a line of the program itself: Using network Socket\n",
        );
        assert!(!fine.fell_back(true));
        assert_eq!((fine.direct, fine.through_host, fine.link_trouble), (1, 1, 1));
    }
}
