"""Run the inventory service. Prints one JSON line {"port": ...} when it answers, and nothing else on stdout; SIGTERM ends it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from datetime import timedelta
from threading import Thread
from types import FrameType
from typing import Any

import sqlalchemy as sa
import uvicorn
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from recovery import receipts
from recovery.examples.inventory import stock
from recovery.examples.inventory.pause import Pause
from recovery.examples.inventory.service import RECEIPT, application

WINDOW = timedelta(hours=24)


class Server(uvicorn.Server):
    """Says where it listens, and lets held requests go when it is told to end."""

    def __init__(self, config: uvicorn.Config, pause: Pause, port: int) -> None:
        super().__init__(config)
        self._pause = pause
        self._port = port

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            print(json.dumps({"port": self._port}), flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._pause.resume()
        super().handle_exit(sig, frame)


def main() -> None:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again when it has ended in order
    try:
        engine = connect(arguments.db)
        stock.metadata.create_all(engine)
        with engine.begin() as connection:
            stock.seed(connection, dict(arguments.stock))
        listener = socket.create_server(("127.0.0.1", arguments.port))
    except SQLAlchemyError as error:
        sys.exit(f"The inventory's database cannot be used: {error}. Give --db another URL, such as sqlite:///inventory.db.")
    except OSError as error:
        sys.exit(f"Port {arguments.port} cannot be used: {error.strerror}. Give --port another one, or 0 for any free one.")
    register = receipts.Receipts(RECEIPT, window=WINDOW, block=timedelta(seconds=arguments.block_seconds))
    pause = Pause(arguments.pause)
    listener.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )  # head and body are two writes: a delayed ACK between them costs 40 ms
    if arguments.end_with_stdin:
        Thread(target=_end_with_stdin, daemon=True).start()
    config = uvicorn.Config(
        application(engine, register, pause), access_log=False, log_level="warning", timeout_graceful_shutdown=2
    )
    Server(config, pause, listener.getsockname()[1]).run(sockets=[listener])
    engine.dispose()


def connect(url: str) -> sa.Engine:
    """The service's own database: writes that were acknowledged survive a power cut."""
    engine = sa.create_engine(url, pool_size=40)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def durable(connection: Any, _: object) -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")

    return engine


def _end_with_stdin() -> None:
    """End when whoever started us is gone: the kernel then closes our standard input, however it died."""
    while os.read(0, 4096):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m recovery.examples.inventory", description=__doc__)
    parser.add_argument("--db", required=True, metavar="URL", help="SQLite or PostgreSQL, as SQLAlchemy writes it")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one (default)")
    parser.add_argument(
        "--stock", type=_article, action="append", default=[], metavar="SKU=UNITS", help="what a new database starts with"
    )
    parser.add_argument("--block-seconds", type=float, default=5.0, help="how long a second copy of a request waits for the first")
    parser.add_argument(
        "--pause", choices=["", "in-transaction", "after-commit"], default="", help="hold the first execution of each key there"
    )
    parser.add_argument("--end-with-stdin", action="store_true", help="end when standard input is closed")
    return parser.parse_args()


def _article(text: str) -> tuple[str, int]:
    sku, _, units = text.rpartition("=")
    if not sku or not units.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not SKU=UNITS")
    return sku, int(units)


if __name__ == "__main__":
    main()
