"""The inventory service as a process of its own, over real HTTP, on both databases."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import httpx
import pytest

from recovery.core.ids import Epoch
from recovery.examples.inventory.client import (
    Absent,
    Applied,
    AsyncInventoryClient,
    Closed,
    InFlight,
    InventoryClient,
    KeyMismatch,
    NoSuchReservation,
    NotSent,
    OutOfStock,
    Rejected,
    Released,
    Reservation,
    Tombstone,
    TurnedAway,
    Unknown,
    _lost,
)
from recovery.examples.inventory.process import Inventory, ServiceFailed, serve
from tests.warm import WarmParent

FIRST = Reservation("1", "FILTER-A", 2)
BRIEFLY = timedelta(milliseconds=100)


Serve = Callable[..., AbstractContextManager[Inventory]]


@pytest.fixture
def serve_warm(warm_parent: WarmParent) -> Serve:
    """`serve`, forked. Not for who kills it: that kills what stands in for it first."""

    @contextmanager
    def serve_warm(db: str, stock: Mapping[str, int], **more: Any) -> Iterator[Inventory]:
        with ExitStack() as stack:
            with warm_parent.starting():
                running = stack.enter_context(serve(db, stock, **more))
            yield running

    return serve_warm


@pytest.fixture
def inventory(empty_store_url: str, serve_warm: Serve) -> Iterator[Inventory]:
    with serve_warm(empty_store_url, {"FILTER-A": 10}) as running:
        yield running


@pytest.fixture
def client(inventory: Inventory) -> Iterator[InventoryClient]:
    with InventoryClient(inventory.url, timeout=timedelta(seconds=30)) as client:
        yield client


def reserve(client: InventoryClient, key: str = "reservation-1", units: int = 2, **fence: Any) -> Reservation:
    return client.reserve("FILTER-A", units, idempotency_key=key, **fence)


def post(inventory: Inventory, key: str | None, body: Any) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return httpx.post(f"{inventory.url}/reservations", headers=headers, json=body, timeout=30, trust_env=False)


# -- receipts on the wire ----------------------------------------------------------------------------------------------


def test_a_reservation_happens_once_per_key(inventory: Inventory, client: InventoryClient) -> None:
    assert [reserve(client), reserve(client), reserve(client)] == [FIRST] * 3
    assert (inventory.stock("FILTER-A"), inventory.executions("reservation-1")) == (8, 1)
    assert reserve(client, "reservation-2") == Reservation("2", "FILTER-A", 2)
    assert inventory.stock("FILTER-A") == 6


def test_twenty_concurrent_requests_with_one_key_reserve_once(inventory: Inventory, client: InventoryClient) -> None:
    together = Barrier(20)

    def call(_: int) -> httpx.Response:
        together.wait(120)
        return post(inventory, "reservation-1", {"sku": "FILTER-A", "units": 2})

    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(call, range(20)))
    assert {reply.status_code for reply in replies} == {201}
    assert {reply.text for reply in replies} == {'{"id":"1","sku":"FILTER-A","units":2}'}
    assert sum("Idempotent-Replayed" not in reply.headers for reply in replies) == 1
    assert (inventory.stock("FILTER-A"), inventory.executions("reservation-1")) == (8, 1)


def test_a_replay_is_marked_and_equal_byte_for_byte(inventory: Inventory) -> None:
    first, second = (post(inventory, "k", {"sku": "FILTER-A", "units": 2}) for _ in range(2))
    assert (first.status_code, second.status_code, first.content) == (201, 201, second.content)
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"


def test_another_request_under_a_key_is_a_mismatch(inventory: Inventory, client: InventoryClient) -> None:
    reserve(client)
    with pytest.raises(KeyMismatch):
        reserve(client, units=3)
    with pytest.raises(KeyMismatch):
        client.release("1", idempotency_key="reservation-1")
    assert post(inventory, "reservation-1", {"sku": "FILTER-A", "units": 3}).status_code == 422
    assert post(inventory, "reservation-1", {"units": 2, "sku": "FILTER-A"}).status_code == 201  # the same, written otherwise
    assert inventory.stock("FILTER-A") == 8


def test_out_of_stock_is_remembered_even_when_there_is_stock_again(inventory: Inventory, client: InventoryClient) -> None:
    held = reserve(client, "all", units=10)
    for _ in range(2):
        with pytest.raises(OutOfStock) as rejection:
            reserve(client)
        assert rejection.value == OutOfStock("FILTER-A", 2)
    client.release(held.id, idempotency_key="release-all")
    with pytest.raises(OutOfStock):
        reserve(client)
    reply = post(inventory, "reservation-1", {"sku": "FILTER-A", "units": 2})
    assert (reply.status_code, reply.json()) == (409, {"code": "out_of_stock", "sku": "FILTER-A", "units": 2})
    assert reply.headers["Idempotent-Replayed"] == "true"
    assert isinstance(client.look_up("reservation-1"), Rejected)
    assert (inventory.stock("FILTER-A"), inventory.executions("reservation-1")) == (10, 0)
    assert reserve(client, "reservation-2").units == 2


def test_a_release_puts_back_once_whatever_the_keys(inventory: Inventory, client: InventoryClient) -> None:
    booking = reserve(client)
    released = Released(booking.id, True)
    assert [client.release(booking.id, idempotency_key=key) for key in ("r", "r", "r2")] == [released] * 3
    assert (inventory.stock("FILTER-A"), inventory.executions("r"), inventory.executions("r2")) == (10, 1, 0)
    assert reserve(client) == booking  # the receipt is the past: it is not undone by a compensation
    assert inventory.stock("FILTER-A") == 10
    for _ in range(2):
        with pytest.raises(NoSuchReservation):
            client.release("77", idempotency_key="r3")


def test_a_look_up_tells_the_original_outcome(client: InventoryClient) -> None:
    before = client.look_up("reservation-1")
    assert isinstance(before, Absent)
    reserve(client)
    found = client.look_up("reservation-1")
    assert isinstance(found, Applied)
    assert (found.value, len(found.fingerprint)) == (FIRST, 64)
    assert found.at_us >= before.as_of_us
    client.release("1", idempotency_key="r")
    release = client.look_up("r")
    assert isinstance(release, Applied)
    assert release.value == Released("1", True)


def test_a_closed_key_is_refused_and_a_decided_one_stays(inventory: Inventory, client: InventoryClient) -> None:
    first = client.close("reservation-1")
    assert isinstance(first, Tombstone)
    assert [client.close("reservation-1"), client.look_up("reservation-1")] == [first, first]
    with pytest.raises(Closed):
        reserve(client)
    assert inventory.stock("FILTER-A") == 10
    reserve(client, "reservation-2")
    kept = client.close("reservation-2")
    assert isinstance(kept, Applied)
    assert reserve(client, "reservation-2") == kept.value


def test_keys_with_awkward_characters_are_names_like_others(inventory: Inventory, client: InventoryClient) -> None:
    for key in ("a/b/close", "..", "../stock", "a b?c#d%2F", "~", "x" * 255, "close", "a/"):
        assert isinstance(client.look_up(key), Absent)
        made = reserve(client, key, units=1)
        assert isinstance(found := client.look_up(key), Applied)
        assert found.value == made
    assert inventory.stock("FILTER-A") == 2


def test_late_copies_are_refused_by_deadline_and_by_epoch(inventory: Inventory, client: InventoryClient) -> None:
    with pytest.raises(TurnedAway, match="after its own deadline"):
        reserve(client, not_after_us=1)
    assert isinstance(client.look_up("reservation-2", epoch=Epoch(0, 2)), Absent)
    with pytest.raises(TurnedAway, match=r"at epoch 0\.2"):
        reserve(client, "reservation-2", epoch=Epoch(0, 1))
    with pytest.raises(TurnedAway, match=r"at epoch 0\.2"):
        client.close("reservation-2", epoch=Epoch(0, 1))
    assert inventory.stock("FILTER-A") == 10
    assert reserve(client, not_after_us=2**53).units == 2
    assert reserve(client, "reservation-2", epoch=Epoch(0, 2)).units == 2


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"sku": "FILTER-A"},
        {"sku": "FILTER-A", "units": 0},
        {"sku": "FILTER-A", "units": True},
        {"sku": "FILTER-A", "units": 1.0},
        {"sku": "FILTER-A", "units": 1001},
        {"sku": "\ud800", "units": 1},
        {"sku": "", "units": 1},
        {"sku": "FILTER-A", "units": 1, "more": 1},
    ],
    ids=ascii,
)
def test_an_invalid_request_is_turned_away_and_not_remembered(sqlite_inventory: Inventory, body: Any) -> None:
    reply = httpx.post(
        f"{sqlite_inventory.url}/reservations", headers={"Idempotency-Key": "k"}, content=json.dumps(body), trust_env=False
    )
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid")
    with InventoryClient(sqlite_inventory.url) as client:
        assert isinstance(client.look_up("k"), Absent)


@pytest.fixture(scope="module")
def sqlite_inventory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inventory]:
    with serve(f"sqlite:///{tmp_path_factory.mktemp('inventory') / 'inventory.db'}", {"FILTER-A": 10}) as inventory:
        yield inventory


@pytest.mark.parametrize("key", [None, "", "x" * 256])
def test_a_request_without_a_usable_key_is_turned_away(sqlite_inventory: Inventory, key: str | None) -> None:
    assert post(sqlite_inventory, key, {"sku": "FILTER-A", "units": 1}).status_code == 400
    assert sqlite_inventory.stock("FILTER-A") == 10


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 9_000, b" " * 10_001])
def test_a_body_that_is_no_json_is_turned_away(sqlite_inventory: Inventory, content: bytes) -> None:
    url = f"{sqlite_inventory.url}/reservations"
    assert httpx.post(url, headers={"Idempotency-Key": "k"}, content=content, trust_env=False).status_code == 400


def test_the_async_client_says_the_same(inventory: Inventory) -> None:
    async def talk() -> None:
        async with AsyncInventoryClient(inventory.url) as client:
            replies = await asyncio.gather(*[client.reserve("FILTER-A", 2, idempotency_key="reservation-1") for _ in range(5)])
            assert replies == [FIRST] * 5
            assert isinstance(found := await client.look_up("reservation-1"), Applied)
            assert found.value == FIRST
            assert await client.release("1", idempotency_key="r") == Released("1", True)
            assert isinstance(await client.close("unused"), Tombstone)
            with pytest.raises(KeyMismatch):
                await client.reserve("FILTER-A", 1, idempotency_key="reservation-1")
        with nobody() as url:
            async with AsyncInventoryClient(url) as client:
                with pytest.raises(NotSent):
                    await client.look_up("reservation-1")

    asyncio.run(talk())


# -- in the middle of things -------------------------------------------------------------------------------------------


def test_while_the_first_request_is_open_everybody_else_is_told_that_it_is_in_flight(
    serve_warm: Serve, empty_store_url: str
) -> None:
    with (
        serve_warm(empty_store_url, {"FILTER-A": 10}, pause="in-transaction", block=BRIEFLY) as inventory,
        InventoryClient(inventory.url, timeout=timedelta(seconds=30)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        first = pool.submit(reserve, client)
        inventory.wait_until_paused("reservation-1")
        for ask in (reserve, lambda client: client.look_up("reservation-1"), lambda client: client.close("reservation-1")):
            with pytest.raises(InFlight) as refusal:
                ask(client)
            assert refusal.value.retry_after == timedelta(seconds=1)
        reply = post(inventory, "reservation-1", {"sku": "FILTER-A", "units": 2})
        assert (reply.status_code, reply.json()["code"], reply.headers["Retry-After"]) == (409, "in_flight", "1")
        inventory.resume()
        assert first.result(30) == FIRST
        assert reserve(client) == FIRST
        assert (inventory.stock("FILTER-A"), inventory.executions("reservation-1")) == (8, 1)


def test_of_requests_that_come_together_whichever_is_held_is_waited_for(serve_warm: Serve, empty_store_url: str) -> None:
    """The first in its transaction keeps the other out, so a key of its own would be waited for in vain."""
    with (
        serve_warm(empty_store_url, {"FILTER-A": 10}, pause="in-transaction") as inventory,
        InventoryClient(inventory.url, timeout=timedelta(seconds=30)) as client,
        ThreadPoolExecutor(2) as pool,
    ):
        both = [pool.submit(client.reserve, "FILTER-A", 2, idempotency_key=key) for key in ("reservation-1", "reservation-2")]
        inventory.wait_until_paused()
        inventory.resume()
        assert [one.result(30).units for one in both] == [2, 2]


def test_a_service_killed_before_its_commit_leaves_nothing_behind(serve_warm: Serve, empty_store_url: str) -> None:
    with (
        serve(empty_store_url, {"FILTER-A": 10}, pause="in-transaction") as inventory,
        InventoryClient(inventory.url, timeout=timedelta(seconds=30)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        lost = pool.submit(reserve, client)
        inventory.wait_until_paused("reservation-1")
        inventory.kill()
        assert isinstance(lost.exception(30), Unknown)
    with serve_warm(empty_store_url, {"FILTER-A": 10}) as inventory, InventoryClient(inventory.url) as client:
        assert isinstance(client.look_up("reservation-1"), Absent)
        assert (inventory.stock("FILTER-A"), inventory.executions("reservation-1")) == (10, 0)
        assert reserve(client).units == 2
        assert inventory.executions("reservation-1") == 1


def test_a_service_killed_after_its_commit_remembers(serve_warm: Serve, empty_store_url: str) -> None:
    with (
        serve(empty_store_url, {"FILTER-A": 10}, pause="after-commit") as inventory,
        InventoryClient(inventory.url, timeout=timedelta(seconds=30)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        lost = pool.submit(reserve, client)
        inventory.wait_until_paused("reservation-1")
        assert inventory.stock("FILTER-A") == 8
        inventory.kill()
        assert isinstance(lost.exception(30), Unknown)
    with serve_warm(empty_store_url, {"FILTER-A": 10}) as inventory, InventoryClient(inventory.url) as client:
        assert isinstance(found := client.look_up("reservation-1"), Applied)
        assert found.value == FIRST
        assert reserve(client) == FIRST
        assert (inventory.stock("FILTER-A"), inventory.executions("reservation-1")) == (8, 1)


WORKER = """
import sys
from recovery.examples.inventory.client import InventoryClient
InventoryClient(sys.argv[1]).reserve("FILTER-A", 2, idempotency_key="reservation-1")
"""


def test_a_worker_killed_before_it_heard_is_answered_when_it_asks_again(serve_warm: Serve, empty_store_url: str) -> None:
    """The canonical incident, without any recovery: the receipt is all there is."""
    with serve_warm(empty_store_url, {"FILTER-A": 10}, pause="after-commit") as inventory:
        with subprocess.Popen([sys.executable, "-c", WORKER, inventory.url]) as worker:
            inventory.wait_until_paused("reservation-1")
            worker.kill()
        assert (inventory.stock("FILTER-A"), inventory.executions("reservation-1")) == (8, 1)
        with InventoryClient(inventory.url) as client:
            assert reserve(client) == FIRST  # a replay is not held: only first executions are
        assert (inventory.stock("FILTER-A"), inventory.executions("reservation-1")) == (8, 1)


# -- the process -------------------------------------------------------------------------------------------------------


def test_sigterm_ends_the_service_in_order_with_a_request_held(serve_warm: Serve, empty_store_url: str) -> None:
    with (
        serve_warm(empty_store_url, {"FILTER-A": 10}, pause="after-commit") as inventory,
        InventoryClient(inventory.url, timeout=timedelta(seconds=30)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        held = pool.submit(reserve, client)
        inventory.wait_until_paused("reservation-1")
        inventory.process.terminate()
        assert inventory.process.wait(120) == 0
        assert held.result(30) == FIRST
    assert inventory.process.returncode == 0


def test_the_service_ends_with_whoever_started_it(sqlite_url: str) -> None:
    script = f"""
import os, signal
from recovery.examples.inventory.process import serve
with serve({sqlite_url!r}, {{}}) as inventory:
    print(inventory.port, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    starter = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=240, check=False)
    until_refused(int(starter.stdout))


def until_refused(port: int) -> None:
    """Return when nobody listens there. The test's timeout bounds it."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:  # it was just ending
            continue


def test_a_restart_does_not_fill_the_shelves_again(serve_warm: Serve, sqlite_url: str) -> None:
    for left in (8, 6):
        with serve_warm(sqlite_url, {"FILTER-A": 10}) as inventory, InventoryClient(inventory.url) as client:
            reserve(client, f"k{left}")
            assert inventory.stock("FILTER-A") == left


def test_a_service_that_cannot_start_says_so(sqlite_url: str) -> None:
    with pytest.raises(ServiceFailed, match="ended before it answered"), serve("sqlite:////nonexistent/x.db", {}):
        pass


# -- what the client concludes -----------------------------------------------------------------------------------------


@contextmanager
def nobody() -> Iterator[str]:
    """Where connections are refused for as long as the block lasts: the port is ours, and nobody listens."""
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{ours.getsockname()[1]}"


@contextmanager
def peer(answer: bytes | None) -> Iterator[str]:
    """A server that reads one request, then sends `answer` and closes; None: it keeps the connection and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept: list[socket.socket] = []

    def talk() -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        if answer is None:
            kept.append(connection)
            return
        connection.sendall(answer)
        connection.close()

    thread = Thread(target=talk)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join(30)
        listener.close()
        for connection in kept:
            connection.close()


def reply(status: str, body: str = "", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n{body}".encode()


def test_a_refused_connection_proves_that_nothing_was_sent() -> None:
    with nobody() as url, InventoryClient(url) as client, pytest.raises(NotSent):
        reserve(client)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="closed without a word"),
        pytest.param(None, id="silence until the timeout"),
        pytest.param(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{", id="half a reply"),
        pytest.param(b"garbage\r\n\r\n", id="no HTTP"),
        pytest.param(reply("500 Internal Server Error"), id="500"),
        pytest.param(reply("502 Bad Gateway", "<html>"), id="a gateway's page"),
        pytest.param(reply("302 Found", headers="Location: /elsewhere\r\n"), id="a redirect"),
        pytest.param(reply("201 Created", "{}"), id="a success of somebody else"),
        pytest.param(reply("201 Created", "[1]"), id="a list"),
        pytest.param(reply("200 OK", '{"id":"1","sku":"FILTER-A","units":2}'), id="an unexpected status"),
        pytest.param(reply("409 Conflict", '{"code":"new-code"}'), id="an unknown code"),
        pytest.param(reply("409 Conflict", '{"code":"out_of_stock"}'), id="a rejection without its fields"),
    ],
)
def test_whatever_is_not_proven_is_unknown(answer: bytes | None) -> None:
    with peer(answer) as url, InventoryClient(url) as client, pytest.raises(Unknown):
        reserve(client, timeout=BRIEFLY if answer is None else timedelta(seconds=30))


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone", "200 OK"])
def test_a_look_up_answered_by_somebody_else_proves_nothing(status: str) -> None:
    with peer(reply(status, '{"detail":"not here"}')) as url, InventoryClient(url) as client, pytest.raises(Unknown):
        client.look_up("reservation-1")


PROOFS = {httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol}


def kinds_of(base: type[httpx.HTTPError]) -> set[type[httpx.HTTPError]]:
    return {base}.union(*(kinds_of(kind) for kind in base.__subclasses__()))


@pytest.mark.parametrize("kind", sorted(kinds_of(httpx.TransportError), key=lambda kind: kind.__name__))
def test_only_a_connection_that_was_never_had_proves_that_nothing_was_sent(kind: type[httpx.HTTPError]) -> None:
    assert type(_lost(kind("it failed"))) is (NotSent if kind in PROOFS else Unknown)
