"""Opening: the bodies of a run's rows turned into entries, with their values where they belong.

Owns the decoding of rows whose digests were verified, the fetching of payloads, and what stands for a value that is not at hand. Must not know where
rows come from. Invariant: a payload that is missing or damaged, and a value whose key is not here, are never taken for another value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from recovery import texts
from recovery.core.chain import Raw, Row, raw
from recovery.core.entries import ENTRY_FORMAT, JSON, Entry
from recovery.core.errors import IncompatibleVersion, JournalCorrupt
from recovery.core.key_errors import EncryptionKeyMissing
from recovery.core.showing import Withheld
from recovery.ports import Evidence
from recovery.storage.resting import (
    ELSEWHERE,
    SEALED,
    Reference,
    Sealing,
    is_digest,
    is_due,
    is_intact,
    key_of,
    references,
    rest,
    stand_in,
    unopened,
    unsealed,
    value_in,
    wake,
)

AT_ONCE: Final = 32 * 1024 * 1024
"""Bytes of payloads that are fetched by one query: what a load needs beside the values themselves."""

LATE: Final = "late evidence"


Payloads: TypeAlias = Callable[[Sequence[str]], dict[str, bytes]]
"""Gives bytes by their digests; what is not there is left out."""


@dataclass(slots=True)
class Opening:
    """The opening of one run. strict: every value is wanted, else what cannot be had is left out. encrypted: what was read so far is, and what follows
    must be, so that nobody can put a row in the clear behind it. `unopened`: keys that were not here."""

    run_id: str
    sealing: Sealing | None
    strict: bool
    encrypted: bool = False
    unopened: set[str] = field(default_factory=set)

    @property
    def comparable(self) -> bool:
        """Whether late evidence can be compared with entries: all are at hand, or all lie where they are in the clear."""
        return self.strict or not self.encrypted

    def fields(self, what: str, kind: str, step: str, text: str, seq: int) -> dict[str, JSON]:
        """The fields of a row, unsealed. Its digest was right, so what cannot be read was written by a newer version."""
        body: dict[str, JSON] = texts.loads_own(text)
        newest = body.get("format", ENTRY_FORMAT)
        if newest > ENTRY_FORMAT:
            raise self._newer(what, f"format {newest}")
        if not self.encrypted and SEALED not in body:
            return body  # almost always
        self._check_sealed(body, kind, seq)
        try:
            return unsealed(body, kind, step, seq, self.sealing)
        except EncryptionKeyMissing as missing:
            if self.strict:
                raise
            self.unopened.add(missing.key)
            return self._seen(what, body)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._newer(what, f"{type(error).__name__} in what is sealed") from error

    def _seen(self, what: str, body: dict[str, JSON]) -> dict[str, JSON]:
        try:
            return unopened(body)
        except ValueError as error:
            raise self._newer(what, str(error)) from error

    def _check_sealed(self, body: dict[str, JSON], kind: str, seq: int) -> None:
        if key_of(body):
            self.encrypted = True
        elif self.encrypted and seq and is_due(body, kind):
            raise JournalCorrupt(run_id=self.run_id, seq=seq, field="what is sealed")

    def entry(self, seq: int, kind: str, step: str, body: str, value_of: Callable[[Reference], JSON]) -> Entry:
        """What a row says, whose digest was right."""
        what = f"entry {seq}"
        return self.woken(what, kind, self.fields(what, kind, step, body, seq), value_of)

    def woken(self, what: str, kind: str, body: dict[str, JSON], value_of: Callable[[Reference], JSON]) -> Entry:
        try:
            return wake(kind, body, value_of)
        except ValueError as error:
            raise self._newer(what, str(error)) from error

    def told(self, item: Evidence) -> Entry:
        """What an item of late evidence says. It lies in one piece, and is compared with entries whose values may have been left where they are."""
        entry = self.woken(LATE, item.kind, self.fields(LATE, item.kind, item.step, item.body, 0), withheld)
        return entry if self.strict else glanced(item.kind, rest(entry, 1).body)

    def is_digest(self, stored: str, plain: str) -> bool:
        """Whether a run's row names the digest that its first entry does; where the key is not here, nobody can tell."""
        if self.unopened:
            return True
        return is_digest(None if self.sealing is None else self.sealing.vault, stored, plain)

    def references(self, seq: int, body: dict[str, JSON]) -> list[Reference]:
        try:
            return references(body)
        except ValueError as error:
            raise self._newer(f"entry {seq}", str(error)) from error

    def _newer(self, what: str, found: str) -> IncompatibleVersion:
        return IncompatibleVersion(run_id=self.run_id, what=what, found=found, known=ENTRY_FORMAT)


class Fetching:
    """Every value that some rows say lies elsewhere, verified, once the first that was not seen before is asked for. Raises JournalCorrupt then, naming the
    entry and the field of one that is not there. `rows`: those that are being read; a value is fetched once for all of them that follow one another."""

    def __init__(self, payloads: Payloads, opening: Opening) -> None:
        self.rows: Sequence[Raw] = ()
        self._payloads = payloads
        self._opening = opening
        self._values: dict[str, JSON] = {}

    def __call__(self, reference: Reference) -> JSON:
        values = self._values
        if reference.digest not in values:
            for each, body in _intact(self._payloads, self._opening, self.rows, values):
                values[each.digest] = value_in(each, body, self._opening.sealing)
        return values[reference.digest]


def check_payloads(payloads: Payloads, run_id: str, rows: Sequence[Row]) -> None:
    """Whether all that the rows refer to is there and whole, without opening anything. Raises JournalCorrupt."""
    for _ in _intact(payloads, Opening(run_id, None, strict=False), [raw(row) for row in rows], {}):
        pass


def _intact(
    payloads: Payloads, opening: Opening, rows: Sequence[Raw], known: Mapping[str, JSON]
) -> Iterator[tuple[Reference, bytes]]:
    wanted: dict[str, tuple[int, Reference]] = {}
    for seq, _, _, body, *_ in rows:
        if ELSEWHERE not in body:
            continue  # almost always; a value may hold these letters, too
        for each in opening.references(seq, texts.loads_own(body)):
            if each.digest not in known:
                wanted.setdefault(each.digest, (seq, each))
    for group in _groups([each for _, each in wanted.values()]):
        bytes_of = payloads([each.digest for each in group])
        for each in group:
            found = bytes_of.get(each.digest)
            if found is None or not is_intact(each, found):
                raise JournalCorrupt(run_id=opening.run_id, seq=wanted[each.digest][0], field=f"the payload of {each.field}")
            yield each, found


def _groups(wanted: list[Reference]) -> list[list[Reference]]:
    """Such that each but for a single large one stays below AT_ONCE."""
    groups: list[list[Reference]] = []
    size = 0
    for each in wanted:
        size += each.size
        if not groups or size > AT_ONCE:
            groups.append([])
            size = each.size
        groups[-1].append(each)
    return groups


def withheld(reference: Reference) -> JSON:
    """What stands for a value that was left out of line."""
    return stand_in(reference.field, Withheld("stored out of line", digest=reference.digest, bytes=reference.size))


def glanced(kind: str, text: str) -> Entry:
    """The entry in one row's body as far as the row alone tells it. Raises ValueError on what this version does not know."""
    return wake(kind, unopened(texts.loads(text)), withheld)


def digests_of(rows: Sequence[Row]) -> list[str]:
    """The digests of all that rows refer to. Raises ValueError for what no writer wrote."""
    return sorted({each.digest for row in rows for each in references(texts.loads(row.body))})
