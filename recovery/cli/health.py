"""Health of a worker over HTTP, on this host's loopback: /livez and /readyz.

Owns what is answered. Knows nothing of runs. Invariants: it asks the database nothing, so that a probe costs nothing; it listens on 127.0.0.1 only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from recovery.core.errors import DefinitionError
from recovery.engine.working import Worker
from recovery.threads import Thread

ALIVE_SECONDS: Final = 60.0
"""A worker turns every second or so; a call to a database that does not answer may take a quarter of a minute."""


@contextmanager
def serving(worker: Worker, port: int) -> Iterator[int]:
    """Answer until the end of the block. Yields the port. Raises DefinitionError where it is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the base class's name
            held = {"/livez": worker.alive(ALIVE_SECONDS), "/readyz": worker.ready}.get(self.path)
            body = json.dumps({"ok": held, "at_work": worker.at_work}).encode()
            self.send_response(404 if held is None else 200 if held else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # the base class's name
            """A probe every few seconds is no event."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise DefinitionError(
            what="worker", name="health", problem=f"port {port} cannot be had ({error.strerror})", advice="Name another one."
        ) from error
    with server:
        server.daemon_threads = True
        thread = Thread(server.serve_forever, name="recovery-health")
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
