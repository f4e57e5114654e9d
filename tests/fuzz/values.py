"""Spoilt values: payloads, references to them and sealed texts, changed at random, and what a load makes of them.

Owns the mutations and the verdict on one case. A case is a number: the same number gives the same case. Every other case is of an encrypted run. The chain
is computed again behind each change of a row, as who can write to the database could: a load must refuse with one of our errors, or give the
very entries that were stored. `python -m tests.fuzz.values` goes on for a minute.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from recovery import Engine, Run, codec, workflow
from recovery.core.chain import chained, genesis
from recovery.core.entries import Entry
from recovery.core.errors import IllegalHistory, IncompatibleVersion, JournalCorrupt
from recovery.core.key_errors import EncryptionKeyMissing, EncryptionKeyWrong
from recovery.encryption import Keyring
from recovery.storage.memory import MemoryJournal
from recovery.storage.reading import read

REFUSALS: Final = (JournalCorrupt, IncompatibleVersion, IllegalHistory, EncryptionKeyMissing, EncryptionKeyWrong)
RUN: Final = "r"
_KEYS: Final = {"one": b"1" * 32}
_ODD: Final = (None, 0, -1, 2**70, 1.5, "", "x", [], {}, [[]], True, "0" * 64)


@dataclass(frozen=True)
class Whole:
    """A run as it was stored, and what its entries are."""

    journal: MemoryJournal
    entries: list[Entry]


@workflow
def carry(run: Run, document: str, small: str) -> list[str]:
    return [run.decide("again", lambda: document + small), small]


def whole(*, encrypted: bool) -> Whole:
    journal = MemoryJournal("namespace")
    with Engine(journal, workflows=[carry], encryption=Keyring(_KEYS) if encrypted else None) as engine:
        engine.run(RUN, carry, "d" * 70_000, "small")
    return Whole(journal, read(journal, RUN).entries)


def outcome(of: Whole, number: int) -> str:
    """What a load made of case `number`: whole, the name of a refusal, or WRONG and why."""
    drawn = random.Random(number)  # nothing secret hangs on it
    spoilt = _copy(of.journal)
    told = drawn.choice((_spoil_payload, _spoil_body))(spoilt, drawn)
    try:
        entries = read(spoilt, RUN).entries
    except REFUSALS as error:
        return type(error).__name__
    except Exception as error:  # any other error is what is looked for
        return f"WRONG: {told}: {type(error).__name__}: {error}"
    if entries == of.entries:
        return "whole"
    # Without keys, who can write rows can write other ones: the digest chain shows damage, and no forgery.
    return "forged" if spoilt.vault is None and not told.startswith("payload") else f"WRONG: {told}: other entries"


def _copy(journal: MemoryJournal) -> MemoryJournal:
    made = MemoryJournal("namespace")
    made.vault = journal.vault
    made._runs = {run_id: replace(run, rows=list(run.rows)) for run_id, run in journal._runs.items()}
    made._payloads = dict(journal._payloads)
    return made


def _spoil_payload(journal: MemoryJournal, drawn: random.Random) -> str:
    digest = drawn.choice(sorted(journal._payloads))
    body = journal._payloads[digest]
    at = drawn.randrange(len(body))
    changes: dict[str, Callable[[], bytes | None]] = {
        "missing": lambda: None,
        "a bit": lambda: body[:at] + bytes([body[at] ^ (1 << drawn.randrange(8))]) + body[at + 1 :],
        "cut": lambda: body[:at],
        "longer": lambda: body + drawn.randbytes(3),
        "empty": lambda: b"",
        "another": lambda: drawn.choice([*journal._payloads.values()]),
    }
    name = drawn.choice(sorted(changes))
    changed = changes[name]()
    if changed is None:
        del journal._payloads[digest]
    else:
        journal._payloads[digest] = changed
    return f"payload {name}"


def _spoil_body(journal: MemoryJournal, drawn: random.Random) -> str:
    """Something in a reference or in what is sealed, or the whole field, with a chain that fits."""
    there = journal._runs[RUN]
    bodies = [codec.loads(row.body) for row in there.rows]
    body = drawn.choice([body for body in bodies if {"$payload", "$sealed"} & set(body)])
    field = drawn.choice(sorted({"$payload", "$sealed"} & set(body)))
    places = list(_places(body, (field,)))
    path = drawn.choice(places)
    holder: Any = body
    for name in path[:-1]:
        holder = holder[name]
    old = holder[path[-1]]
    if drawn.random() < 0.2 and isinstance(holder, dict):
        del holder[path[-1]]
    elif isinstance(old, str) and old and drawn.random() < 0.6:
        at = drawn.randrange(len(old))
        holder[path[-1]] = old[:at] + drawn.choice("0aA+/=.$ ") + old[at + 1 :]
    elif isinstance(holder, dict) and drawn.random() < 0.3:
        holder[drawn.choice(("", "value", "arguments.x", "$payload", "input", "..", "at_us"))] = holder.pop(path[-1])
    else:
        holder[path[-1]] = drawn.choice(_ODD)
    previous, rows = genesis("namespace", RUN), []
    for row, changed in zip(there.rows, bodies, strict=True):
        rows.append(chained(previous, row.seq, row.kind, row.step, codec.dumps(changed), row.epoch, row.token))
        previous = rows[-1].digest
    there.rows = rows
    there.row = replace(there.row, head_digest=previous)
    return f"{field} at {path}"


def _places(holder: Any, path: tuple[Any, ...]) -> Any:
    held = holder[path[-1]]
    yield path
    for name in held if isinstance(held, dict) else range(len(held)) if isinstance(held, list) else ():
        for inner in _places(held, (name,)):
            yield (*path, *inner)


def main() -> int:
    until, number, found = time.monotonic() + float(os.environ.get("SECONDS_OF_FUZZ", "60")), 0, Counter[str]()
    subjects = [whole(encrypted=False), whole(encrypted=True)]
    while time.monotonic() < until:
        told = outcome(subjects[number % 2], number)
        found[f"{told} [case {number}]" if told.startswith("WRONG") else told] += 1
        number += 1
    for told, count in found.most_common():
        print(f"{count:9,}  {told}")
    print(f"{number:9,}  cases of spoilt values")
    return int(any(told.startswith("WRONG") for told in found))


if __name__ == "__main__":
    sys.exit(main())
