"""The store of the model as a value: everything in it, and the calls that it was asked in one move.

Owns the way from the value to the shipped `MemoryJournal` and back. Knows nothing of workers, time or misfortunes. Invariant: what answers a
call is the shipped store; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from recovery import codec
from recovery.core.chain import Row, chained, genesis
from recovery.core.contracts import microseconds
from recovery.core.entries import Opened, Status, encode
from recovery.core.errors import RecoveryError
from recovery.core.ids import ROOT, Epoch
from recovery.ports import Append, AppendResult, Evidence, Journal, NewRun, Owner, RunRow
from recovery.ports import Stored as AsStored
from recovery.storage.memory import MemoryJournal, _Run
from recovery.testing.pieces import joined
from tests.model.claims.workers import LEASE, RUN, owner_of

T = TypeVar("T")

NAMESPACE: Final = "0" * 32


class Stored(NamedTuple):
    """Everything in the store."""

    run: RunRow | None  # None: nobody has opened it yet
    rows: tuple[Row, ...]
    contracts: tuple[tuple[str, str], ...]
    keys: tuple[tuple[Any, Any], ...]
    evidence: tuple[Evidence, ...]
    incarnation: int = 0


class Call(NamedTuple):
    """One call of the store's, and its answer."""

    method: str
    arguments: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]
    answer: Any

    def on(self, journal: Journal) -> Any:
        """The same call, there. Raises nothing: an error is an answer, too."""
        return answered(lambda: getattr(journal, self.method)(*self.arguments, **dict(self.named)))


def answered(call: Callable[[], Any]) -> Any:
    """An answer in a form that can be compared."""
    try:
        came = call()
    except RecoveryError as error:
        return type(error).__name__, str(error)
    return _plain(came)


def _plain(came: Any) -> Any:
    if isinstance(came, list | tuple):
        return tuple(map(_plain, came))
    return tuple(sorted(came.items())) if isinstance(came, dict) else came


class Done(NamedTuple):
    """What reached the store in one move: whose calls, and their answers."""

    worker: int
    calls: tuple[Call, ...]

    @property
    def asked(self) -> list[tuple[Append, AppendResult]]:
        pairs = [zip(call.arguments[0], call.answer, strict=True) for call in self.calls if call.method == "append"]
        return [pair for batch in pairs for pair in batch]

    @property
    def claimed(self) -> list[tuple[Owner, RunRow | None]]:
        opened = [(call.arguments[0].owner, call.answer) for call in self.calls if call.method == "open_run"]
        return opened + [(call.arguments[1], call.answer) for call in self.calls if call.method == "claim"]


EMPTY: Final = Stored(None, (), (), (), ())

WRITES: Final = ("open_run", "append", "claim", "renew", "release", "add_evidence", "raise_incarnation")
METHODS: Final = (*WRITES, "find")  # and `stream`


def as_it_stands(stored: AsStored) -> tuple[Any, ...]:
    """A run as a store gives it, with what stands outside its chain."""
    return (*joined(stored), stored.late, stored.incarnation)


class Store(MemoryJournal):
    """The shipped store, which also remembers what it was asked in this one move."""

    def __init__(self, stored: Stored) -> None:
        super().__init__()
        self._namespace, self._incarnation = NAMESPACE, stored.incarnation
        if stored.run is not None:
            self._runs = {RUN: _Run(stored.run, list(stored.rows), dict(stored.contracts))}
        self._keys = dict(stored.keys)
        self._evidence = list(stored.evidence)
        self.calls: list[Call] = []

    def stream(self, run_id: str, take: Callable[[AsStored], T]) -> T | None:
        """Remembered is what the store gives, and not what anybody makes of it."""
        given = super().stream(run_id, as_it_stands)
        self.calls.append(Call("stream", (run_id, as_it_stands), (), _plain(given)))
        return super().stream(run_id, take)

    @property
    def value(self) -> Stored:
        there = self._runs.get(RUN)
        if there is None:
            return EMPTY._replace(incarnation=self._incarnation)
        rows = tuple(there.rows)
        return Stored(
            there.row, rows, tuple(there.contracts.items()), tuple(self._keys.items()), tuple(self._evidence), self._incarnation
        )


def _recorded(method: str) -> Callable[..., Any]:
    def call(self: Store, *arguments: Any, **named: Any) -> Any:
        came = getattr(MemoryJournal, method)(self, *arguments, **named)
        self.calls.append(Call(method, _plain(arguments), tuple(named.items()), _plain(came)))
        return came

    return call


for _method in METHODS:
    setattr(Store, _method, _recorded(_method))


def opened() -> tuple[Stored, Opened]:
    """A run that A has opened and owns."""
    entry = Opened(workflow="w", version="1", input=None, input_digest="d", at_us=1)
    row = chained(genesis(NAMESPACE, RUN), 1, "opened", ROOT, codec.dumps(encode(entry)), Epoch(0, 1), "open")
    store = MemoryJournal()
    store._namespace = NAMESPACE
    new = NewRun(RUN, "w", "d", Status.RUNNING, owner_of("A", "A-0"), microseconds(LEASE.term), 1, (row,))
    run = store.open_run(new)
    assert run is not None
    return Stored(run, (row,), (), (), ()), entry
