"""Answers HTTP until it is stopped: GET /healthz, and POST /classify with a line of text."""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from model import Model
from text import words

BODY_BYTES_MAX = 64 * 1024


class Handler(BaseHTTPRequestHandler):
    """One request."""

    model = None

    def do_GET(self):
        if self.path == "/healthz":
            self.answer(200, {"status": "ok", "epoch": self.model.epoch})
        else:
            self.answer(404, {"error": "there are /healthz and /classify"})

    def do_POST(self):
        length = int(self.headers.get("Content-Length", "0"))
        if self.path != "/classify" or length > BODY_BYTES_MAX:
            self.answer(404 if length <= BODY_BYTES_MAX else 413, {"error": "no"})
            return
        counts = {}
        for word in words(self.rfile.read(length).decode(errors="replace")):
            counts[word] = counts.get(word, 0) + 1
        self.answer(200, {"topic": self.model.classify(counts)})

    def answer(self, status, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form, *values):
        print(form % values, file=sys.stderr, flush=True)


def main():
    Handler.model = Model.newest()
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    address = f"http://127.0.0.1:{server.server_address[1]}"
    print(f"ready on {address}", flush=True)
    draft = Path("work/.service.url")
    draft.write_text(address + "\n")
    draft.rename("work/service.url")
    server.serve_forever()


main()
