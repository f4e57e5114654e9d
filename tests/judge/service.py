"""The outside service: reservations over HTTP, in a process and a memory of its own. `python service.py OFFER`.

Owns the count of effects, and the places at which a request can be held or its connection reset. Knows nothing of programs. Invariant: HTTP
changes effects and keys and nothing else; what is armed, counted and expired goes over standard input and output, which only the judge has.

    keys       POST /reservations honours the header Idempotency-Key: a repeat gives the first reply, another request 422, one under way 409
    look-up    no keys; GET /reservations?reference=R lists what was made under a reference, as of now
    neither    a POST makes a reservation, and that is all

GET /gate/PLACE is no part of the service: the customer's code passes it right before its request leaves and right after it has the reply, so
that the judge can stop a program there without knowing it.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit


class Shop:
    """What has happened, and what is armed."""

    def __init__(self, offer: str) -> None:
        self.offer = offer
        self.lock = threading.Lock()
        self.effects: list[dict[str, Any]] = []
        self.keys: dict[str, dict[str, Any]] = {}  # key -> its request, and the reply once there is one
        self.armed: dict[str, str] = {}
        self.released = threading.Event()

    def passes(self, place: str) -> str:
        """Pass a place: what is to be done with the request, after having been held."""
        with self.lock:
            act = self.armed.pop(place, "")
        if act:
            say({"reached": place})
        if act == "hold":
            self.released.wait()
        return act

    def land(self, asked: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            made = {"id": f"R{len(self.effects) + 1}", "sku": asked["sku"], "units": asked["units"]}
            self.effects.append(made | {"reference": asked.get("reference")})
            return made

    def seen(self, key: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """The answer to a key that is known; else it is ours, and under way."""
        with self.lock:
            record = self.keys.setdefault(key, {"asked": asked, "reply": None, "by": threading.get_ident()})
            if record["asked"] != asked:
                return 422, {"problem": "this key was used for another request"}
            if record["reply"] is not None:
                return 201, record["reply"]
            return (409, {"problem": "in flight"}) if record["by"] != threading.get_ident() else None


class Handler(BaseHTTPRequestHandler):
    shop: ClassVar[Shop]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Idempotency-Key") if self.shop.offer == "keys" else None
        self.shop.passes("arrived")
        if key and (known := self.shop.seen(key, asked)):
            return self.reply(*known)
        made = self.shop.land(asked)
        if key:
            with self.shop.lock:
                self.shop.keys[key] = {"asked": asked, "reply": made, "by": 0}
        if self.shop.passes("landed") == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return None
        return self.reply(201, made)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.startswith("/gate/"):
            self.shop.passes(url.path.removeprefix("/gate/"))
            return self.reply(200, {})
        if url.path == "/reservations" and self.shop.offer == "look-up":
            wanted = parse_qs(url.query).get("reference", [""])[0]
            with self.shop.lock:
                return self.reply(200, [made for made in self.shop.effects if made["reference"] == wanted])
        return self.reply(404, {"problem": "not offered"})

    def reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            return  # whoever asked is gone

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: standard error is the judge's."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A customer that was killed in the midst of its request is no error here."""


_saying = threading.Lock()


def say(message: dict[str, Any]) -> None:
    with _saying:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def main() -> None:
    shop = Handler.shop = Shop(sys.argv[1])
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say({"port": server.server_port})
    for line in sys.stdin:
        match json.loads(line):
            case {"arm": place, "act": act}:
                shop.released.clear()
                shop.armed[place] = act
                say({"done": "armed"})
            case {"release": _}:
                shop.armed.clear()
                shop.released.set()
                say({"done": "released"})
            case {"expire": _}:
                with shop.lock:
                    shop.keys.clear()
                say({"done": "expired"})
            case {"count": _}:
                with shop.lock:
                    say({"done": "counted", "effects": list(shop.effects)})


if __name__ == "__main__":
    main()
