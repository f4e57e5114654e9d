"""Batches whose items have results of their own, in a simulated environment: each item is carried out, declined or left open by itself.

Owns what is noted of items and what a request that comes again does to them. Knows neither senders nor time. Invariant: an item that was done
stays as it was done; one that was declined is tried again only where its rejection is not remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recovery.core.entries import JSON, AnswerKind
from recovery.definitions.rejection import Rejection
from recovery.testing.keystore import Record
from recovery.testing.knobs import Outcome, Remembered, Request, Value
from recovery.testing.ledger import Declined, Executed, Ledger
from recovery.testing.scripts import VALUE, ScriptRoom
from recovery.testing.warehouse import Warehouse


def note_items(ledger: Ledger, key: str, arguments: Mapping[str, Any], items: Mapping[int, JSON], now_us: int) -> None:
    """What became of the items of a request, by their positions, as `Batched` is stored. One that is open is not noted: nothing is known of it."""
    for number, item in items.items():
        under = f"{key}/{number}"
        if item["kind"] == AnswerKind.FOUND.value:
            done = Executed(at_us=now_us, key=under, arguments=dict(arguments), value=item["value"])
            ledger.add(done, "environment", f"does {under}: {item['value']!r}")
        elif item["kind"] == AnswerKind.REFUSED.value:
            declined = Declined(at_us=now_us, key=under, error=item["error"], value=item["value"])
            ledger.add(declined, "environment", f"declines {under}: {item['error']}")


@dataclass(slots=True)
class BatchRoom(ScriptRoom):
    """Does what the script says of each item."""

    def take(self, key: str, wanted: Mapping[str, Any], now_us: int) -> Value | Rejection:
        """Play the script once: a `Batched`, or a declared rejection of the whole request."""
        played = self.played(key, wanted, now_us)
        if isinstance(played, Rejection):
            return played
        note_items(self.ledger, key, wanted, dict(enumerate(played)), now_us)
        return self.enveloped(played)

    def taken_up(self, key: str, wanted: Mapping[str, Any], items: list[JSON], now_us: int) -> Value | Rejection:
        """The request comes again, and only what was done is remembered: play the script for the other items."""
        played = self.played(key, wanted, now_us)
        if isinstance(played, Rejection):
            return played
        anew = {number: played[number] for number, item in enumerate(items) if item["kind"] != AnswerKind.FOUND.value}
        note_items(self.ledger, key, wanted, anew, now_us)
        return self.enveloped([anew.get(number, item) for number, item in enumerate(items)])


@dataclass(slots=True)
class BatchHouse(Warehouse):
    """A warehouse whose keys remember batches item by item, as far as their contract says."""

    def _replayed(self, record: Record, request: Request) -> Outcome:
        came = Warehouse._replayed(self, record, request)  # noqa: SLF001  # `super()` has no cell in a dataclass with slots
        room = self.stockroom
        if not isinstance(came, dict) or Remembered.REJECTION in self.knobs.remembers or not isinstance(room, BatchRoom):
            return came
        told = room.taken_up(request.call.key, request.arguments, came[VALUE], self.clock.wall_us())
        if isinstance(told, dict):
            record.outcome = told
        return told
