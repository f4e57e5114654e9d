"""A real PgBouncer in transaction mode, in front of the tests' PostgreSQL server.

Owns its start and its end. It keeps so few sessions that clients cannot help sharing them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
SESSIONS = 2

CONFIGURATION = """
[databases]
* = host={server} user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {directory}
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 100
server_idle_timeout = 5
logfile = {directory}/log
"""


@contextmanager
def pooling(server: Path) -> Iterator[Path]:
    """The directory of its socket. server: the directory of the server's socket."""
    assert PGBOUNCER is not None
    owner = pwd.getpwuid(server.stat().st_uid).pw_name
    with tempfile.TemporaryDirectory(prefix="pooler-") as name:
        directory = Path(name)
        shutil.chown(directory, owner)
        (directory / "ini").write_text(CONFIGURATION.format(server=server, directory=directory, sessions=SESSIONS))
        (directory / "ini").chmod(0o644)
        as_owner = ["-u", owner] if os.geteuid() == 0 else []
        process = subprocess.Popen([PGBOUNCER, "-q", *as_owner, str(directory / "ini")], stderr=subprocess.DEVNULL)
        try:
            for attempt in Retrying(
                stop=stop_after_delay(60),
                wait=wait_fixed(0.05),
                retry=retry_if_exception_type(psycopg.OperationalError),
                reraise=True,
            ):
                with attempt:
                    psycopg.connect(host=str(directory), port=6432, user="postgres", dbname="postgres").close()
            yield directory
        finally:
            process.terminate()
            process.wait(timeout=60)


def through(directory: Path, url: str) -> str:
    """The URL of the same database behind the pooler."""
    front, _, _ = url.partition("?")
    return f"{front}?host={quote(str(directory), safe='')}&port=6432"
