"""Processes that meet over TCP: rank 0 listens, the others dial; all present or all fail."""

import os
import socket
import struct
import sys
import time

MEET_S = float(os.environ.get("MEET_S", "30"))  # how long a process waits for the others


class Gang:
    """A sum over all ranks, with rank 0 in the middle."""

    def __init__(self):
        self.rank = int(os.environ.get("SLURM_PROCID", os.environ.get("RANK", "0")))
        self.size = int(os.environ.get("SLURM_NTASKS", os.environ.get("WORLD_SIZE", "1")))
        self.peers = []
        address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ["MASTER_PORT"]))
        if self.rank == 0:
            self._listen(address)
        else:
            self._dial(address)

    def _listen(self, address):
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", address[1]))
        server.listen(self.size)
        deadline = time.monotonic() + MEET_S
        met = {}
        while len(met) < self.size - 1:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                peer, _ = server.accept()
            except socket.timeout:
                missing = sorted(set(range(1, self.size)) - set(met))
                sys.exit(f"rank 0: ranks {missing} did not come within {MEET_S:.0f} s")
            peer.settimeout(MEET_S)
            met[struct.unpack("!I", self._take(peer, 4))[0]] = peer
        server.close()
        # In order of rank, so that sums of floats come out the same each time.
        self.peers = [met[rank] for rank in sorted(met)]

    def _dial(self, address):
        deadline = time.monotonic() + MEET_S
        while True:
            try:
                peer = socket.create_connection(address, timeout=MEET_S)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    sys.exit(f"rank {self.rank}: cannot reach rank 0 at {address}: {error}")
                time.sleep(0.05)
        peer.sendall(struct.pack("!I", self.rank))
        self.peers = [peer]

    def sum(self, values):
        """The element-wise sum of every rank's list, the same on all ranks."""
        form = f"!{len(values)}d"
        try:
            if self.rank == 0:
                total = list(values)
                for peer in self.peers:
                    theirs = struct.unpack(form, self._take(peer, 8 * len(values)))
                    total = [a + b for a, b in zip(total, theirs)]
                for peer in self.peers:
                    peer.sendall(struct.pack(form, *total))
                return total
            self.peers[0].sendall(struct.pack(form, *values))
            return list(struct.unpack(form, self._take(self.peers[0], 8 * len(values))))
        except (OSError, EOFError) as error:
            sys.exit(f"rank {self.rank}: lost a member of the gang: {error}")

    @staticmethod
    def _take(peer, size):
        parts = []
        while size:
            part = peer.recv(size)
            if not part:
                raise EOFError("connection closed")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
