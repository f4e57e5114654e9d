"""The server commits and its answer never arrives: the journal repeats the same compare-and-set and finds its own rows.

A proxy between the journal and PostgreSQL swallows one answer and cuts the connection.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from recovery.core.errors import StoreUnavailable
from recovery.ports import Appended, Fenced, Journal, Payload, Wanted
from recovery.storage import open_journal
from recovery.storage.retry import ATTEMPTS_MAX
from recovery.testing.pieces import in_one_piece
from tests.conformance.making import claim_of, member, new_run, opened, owner, stored

CHUNK = 1 << 16
COMMIT = b"COMMIT\0"
"""Not the end of READ COMMITTED, with which a transaction begins."""


class Proxy:
    """Passes bytes on, until told to lose the answers to some requests and to cut their connections."""

    def __init__(self, directory: Path, server: str) -> None:
        self.directory = directory
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen()
        self._lock = threading.Lock()
        self._request, self._to_lose, self.lost = b"", 0, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, request: bytes, times: int = 1) -> None:
        """Swallow the answers to the next requests that contain this text."""
        with self._lock:
            self._request, self._to_lose, self.lost = request, times, 0

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            cut = threading.Event()
            threading.Thread(target=self._pass_requests, args=(client, server, cut), daemon=True).start()
            threading.Thread(target=self._pass_answers, args=(client, server, cut), daemon=True).start()

    def _pass_requests(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        while data := _receive(client):
            with self._lock:
                if self._to_lose and self._request in data:
                    self._to_lose -= 1
                    self.lost += 1
                    cut.set()
            server.sendall(data)
        _end(server)

    def _pass_answers(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        while data := _receive(server):
            if cut.is_set():
                break  # the server has answered, so it has committed
            client.sendall(data)
        _end(client)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # the other direction was faster
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(CHUNK)
    except OSError:
        return b""


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory(prefix="recovery-proxy-") as directory:  # short: a socket's path has 107 bytes
        host = parse_qs(urlsplit(postgres_url).query)["host"][0]
        proxy = Proxy(Path(directory), f"{host}/.s.PGSQL.5432")
        yield proxy
        proxy.close()


@pytest.fixture
def through(proxy: Proxy, postgres_url: str) -> Iterator[Journal]:
    """A journal behind the proxy."""
    journal = open_journal(postgres_url.partition("?")[0] + f"?host={proxy.directory}")
    yield journal
    journal.close()


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("keys", [(), (claim_of("k1"),), (claim_of("k1"), claim_of("k2"))], ids=["0", "1", "2"])
def test_an_append_whose_acknowledgement_is_lost_is_there_once(proxy: Proxy, through: Journal, keys, lost: int) -> None:
    append = member(opened(through), keys=keys)
    proxy.lose(COMMIT if len(keys) > 1 else b"fence AS (", lost)
    assert through.append([append]) == [Appended()]
    assert proxy.lost >= 1
    loaded = in_one_piece(through, "run-1")
    assert loaded is not None
    assert loaded[1][1:] == list(append.rows)


def test_a_batch_whose_acknowledgement_is_lost_keeps_each_members_result(proxy: Proxy, through: Journal) -> None:
    runs = [opened(through, f"run-{number}") for number in range(3)]
    through.claim(runs[1], owner("bob"), lease_term_us=1, at_us=1)
    proxy.lose(b"fence AS (")
    results = through.append([member(run) for run in runs])
    assert [type(result) for result in results] == [Appended, Fenced, Appended]
    assert proxy.lost == 1


@pytest.mark.parametrize(
    ("payloads", "request_of"), [((), b"opened AS ("), ((Payload("digest", b"large"),), COMMIT)], ids=["plain", "with a payload"]
)
def test_an_opening_whose_acknowledgement_is_lost_returns_its_row(
    proxy: Proxy, through: Journal, payloads: tuple[Payload, ...], request_of: bytes
) -> None:
    new = replace(new_run(through), payloads=payloads)
    proxy.lose(request_of)
    row = through.open_run(new)
    assert proxy.lost == 1
    assert row is not None
    assert in_one_piece(through, "run-1") == (row, list(new.rows), {})


def test_several_openings_whose_acknowledgement_is_lost_return_their_rows(proxy: Proxy, through: Journal) -> None:
    news = [new_run(through, f"run-{number}") for number in range(3)]
    proxy.lose(b"opened AS (")
    rows = through.open_runs(news)
    assert proxy.lost == 1
    assert rows == [through.find(new.run_id) for new in news]
    assert None not in rows


def test_a_claim_whose_acknowledgement_is_lost_returns_its_row(proxy: Proxy, through: Journal) -> None:
    seen = opened(through)
    proxy.lose(b"UPDATE run")
    row = through.claim(seen, owner("bob"), lease_term_us=1, at_us=1)
    assert proxy.lost == 1
    assert row is not None
    assert row == through.find("run-1")
    assert row.epoch.n == 2


def test_a_claim_of_due_runs_whose_acknowledgement_is_lost_returns_them_and_takes_no_more(proxy: Proxy, through: Journal) -> None:
    for name in ("run-1", "run-2", "run-3"):
        row = opened(through, name)
        assert row.owner is not None
        assert through.release(name, row.owner.token, row.epoch)
    proxy.lose(COMMIT)
    wanted = Wanted(now_us=1, limit=2)
    found = through.claim_due(wanted, us := owner("bob"), lease_term_us=1)
    assert proxy.lost == 1
    assert [(row.run_id, row.owner, row.crashes) for row in found.runs] == [("run-1", us, 0), ("run-2", us, 0)]
    assert [row.run_id for row in through.claim_due(wanted, owner("eve"), lease_term_us=1).runs] == ["run-3"]


def test_a_release_whose_acknowledgement_is_lost_is_known_to_be_done(proxy: Proxy, through: Journal) -> None:
    row = opened(through)
    assert row.owner is not None
    proxy.lose(b"UPDATE run")
    assert through.release("run-1", row.owner.token, row.epoch)
    assert proxy.lost == 1
    released = through.find("run-1")
    assert released is not None
    assert released.owner is None


def test_an_append_that_stays_unknown_says_so_and_can_be_repeated(proxy: Proxy, through: Journal) -> None:
    """Bounded: when no answer ever comes, the caller is told that nothing is known; the same call decides it later."""
    append = member(opened(through))
    proxy.lose(b"fence AS (", 1000)
    with pytest.raises(StoreUnavailable, match="unknown until it does"):
        through.append([append])
    assert proxy.lost == 2 * ATTEMPTS_MAX, "each of them on a bare connection, and through Core"
    proxy.lose(b"", 0)
    before = stored(through)
    assert through.append([append]) == [Appended()]
    assert stored(through) == before
