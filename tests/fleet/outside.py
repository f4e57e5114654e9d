"""The service outside: does what it is asked once per key, counts what it really did, and loses replies. `python outside.py SEED`.

Owns the count of effects: by what a request is about, and not by its key, so that one that is asked for under a second key is counted twice. Knows nothing of
runs or workers. Invariant: nothing is counted by what a caller says about it; what is counted is written to a file only when the parent asks on standard input.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final

LOST: Final = 0.01
"""Of replies that never arrive, and of requests that are cut off before anything happens: each."""


class Books:
    """What has happened."""

    def __init__(self, seed: int) -> None:
        self.lock = threading.Lock()
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.declined: Counter[str] = Counter()
        self.keys: dict[str, tuple[dict[str, Any], int, dict[str, Any]]] = {}
        self.requests = 0
        self.replays = 0
        self.mismatches = 0

    def act(self, key: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Once per key. The effect and the record of its key are one change: nobody sees one without the other."""
        with self.lock:
            self.requests += 1
            if key in self.keys:
                before, status, reply = self.keys[key]
                if before != asked:
                    self.mismatches += 1
                    return 422, {"problem": "this key was used for another request"}
                self.replays += 1
                return status, reply
            about = asked["about"]
            if asked.get("decline"):
                self.declined[about] += 1
                status, reply = 402, {"about": about}
            else:
                self.done[about] += 1
                status, reply = 201, {"id": f"{len(self.keys)}", "about": about, "pick": asked["pick"]}
            self.keys[key] = (asked, status, reply)
            return status, reply

    def loses(self) -> bool:
        with self.lock:
            return self.chance.random() < LOST

    def counted(self) -> dict[str, Any]:
        with self.lock:
            keys = {key: reply for key, (_, _, reply) in self.keys.items()}
            return {
                "done": dict(self.done), "declined": dict(self.declined), "keys": keys, "requests": self.requests,
                "replays": self.replays, "mismatches": self.mismatches,
            }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    books: ClassVar[Books]
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together

    def do_POST(self) -> None:  # the base class's name
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.books.loses():
            return self.cut()
        status, reply = self.books.act(self.headers["Idempotency-Key"], asked)
        if self.books.loses():
            return self.cut()
        body = json.dumps(reply).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.cut()  # whoever asked is gone
        return None

    def cut(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:  # the base class's names
        """Nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that was killed in the midst of its request is no error here."""


def main() -> None:
    books = Handler.books = Books(int(sys.argv[1]))
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for line in sys.stdin:
        Path(line.strip()).write_text(json.dumps(books.counted()))
        print("written", flush=True)


if __name__ == "__main__":
    main()
