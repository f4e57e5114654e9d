"""Entries: one provider's contract as data, each promise with the place where it was read.

Owns the form of an entry, how well each of its promises is known, and how they become a contract. Knows neither files nor verdicts. Invariant:
an entry that validates builds a contract that can be true, every promise names a source of the same entry, and a page of the vendor has an
address and the day on which it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from recovery.core import contracts
from recovery.core.contracts import Batch, Contract, Deletion, Kind, Lookup, Remembers, Replay, WindowStart, microseconds
from recovery.core.errors import DefinitionError

Text = Annotated[str, StringConstraints(min_length=1, max_length=400)]

CONSTRUCTORS: Final[Mapping[Kind, Callable[..., Contract]]] = {
    Kind.READ: contracts.Read,
    Kind.KEYED: contracts.Keyed,
    Kind.SWALLOW: contracts.Swallow,
    Kind.FIRST_SENT: contracts.FirstSent,
    Kind.NAMED: contracts.Named,
    Kind.COTRANSACTIONAL: contracts.CoTransactional,
    Kind.PREPARED: contracts.Prepared,
    Kind.PROBEABLE: contracts.Probeable,
    Kind.OPAQUE: contracts.Opaque,
}

_TYPES: Final[Mapping[str, Any]] = {
    "window": timedelta,
    "settle_window": timedelta,
    "clock_error": timedelta,
    "lookup.lag": timedelta,
    "lookup.retention": timedelta,
    "window_starts": WindowStart,
    "after_window": contracts.AfterWindow,
    "replay": Replay,
    "remembers": Remembers,
    "batch": Batch,
    "lookup.deletion": Deletion,
    "key_length_max": int,
    "key_carrier": str,
    "stable_fields": tuple[str, ...],
}
"""What a promise's value is read as; every other field is yes or no. Durations are written as ISO 8601 has them: PT24H, P7D."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Basis(StrEnum):
    """How we know what a source is cited for."""

    VENDOR = "vendor"  # read on a page, in code or from staff of the vendor
    EARLIER = "earlier edition"  # read on a page of the vendor of which today's edition does not say it any more
    THIRD_PARTY = "third party"  # told by somebody else, or read in somebody else's copy
    AS_GIVEN = "as given"  # collected earlier, and not found again when the entry was checked
    INFERRED = "inferred"  # follows from something else that was read


class Status(StrEnum):
    """How well one promise is known."""

    READ = "read at the vendor"
    EARLIER = "in an earlier edition"  # the vendor said so once; today's page says nothing of it
    REPORTED = "reported by a third party"
    NOT_PUBLISHED = "not published"  # the vendor says no number; the source says how we know that
    INFERRED = "inferred"
    UNVERIFIED = "not verified"


_STATUSES: Final[Mapping[Basis, Status]] = {
    Basis.VENDOR: Status.READ,
    Basis.EARLIER: Status.EARLIER,
    Basis.THIRD_PARTY: Status.REPORTED,
    Basis.AS_GIVEN: Status.UNVERIFIED,
    Basis.INFERRED: Status.INFERRED,
}


class Source(_Strict):
    """Where something was read, and when."""

    title: Text = Field(description="the page or document, as text")
    basis: Basis = Field(description="how we know it")
    read: str | None = Field(
        None, pattern=r"^\d{4}-\d{2}(-\d{2})?$", description="the day on which it was read; the month, where it is as given"
    )
    url: str | None = Field(None, pattern=r"^https://", description="where it was found")

    @model_validator(mode="after")
    def _can_be_looked_up(self) -> Source:
        length = {Basis.INFERRED: 0, Basis.AS_GIVEN: len("2026-11")}.get(self.basis, len("2026-11-29"))
        if len(self.read or "") != length:
            raise ValueError(
                "a page has the day on which it was read, what is as given has its month, and what is inferred has neither"
            )
        if self.basis in {Basis.VENDOR, Basis.EARLIER} and self.url is None:
            raise ValueError("a vendor's page has its address; a page without one is not read at the vendor")
        if self.basis in {Basis.INFERRED, Basis.AS_GIVEN} and self.url is not None:
            raise ValueError("an address is where something was read, and this was not read")
        return self


class Note(_Strict):
    """A fact that is no field of a contract, and that whoever writes the effect needs."""

    says: Text
    source: str


class Promise(Note):
    """One field of the contract. `value`: as the constructor of the class takes it."""

    field: str
    value: Any = Field(alias="is")

    @property
    def stated(self) -> Any:
        """The value as the constructor takes it."""
        if self.field == "window" and self.value == contracts.UNPUBLISHED.value:
            return contracts.UNPUBLISHED
        return TypeAdapter(_TYPES.get(self.field, bool)).validate_python(self.value)


class Entry(_Strict):
    """One provider."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    title: Text
    version: int = Field(1, ge=1)
    kind: Kind = Field(alias="class")
    second: Text = Field("a second effect", description="what a request that acts twice is here, such as a second charge")
    sources: dict[str, Source]
    promises: tuple[Promise, ...]
    notes: tuple[Note, ...] = ()

    @model_validator(mode="after")
    def _holds_together(self) -> Entry:
        cited = {note.source for note in (*self.promises, *self.notes)}
        if cited != set(self.sources):
            raise ValueError(f"sources and citations differ in {sorted(cited ^ set(self.sources))}")
        if len({promise.field for promise in self.promises}) < len(self.promises):
            raise ValueError("a field is promised twice")
        try:
            self.contract()
        except (DefinitionError, TypeError, ValidationError) as error:
            raise ValueError(str(error)) from None
        return self

    def contract(self, **stated: Any) -> Contract:
        """The contract. `stated`: what you know better, as arguments of the class's constructor; None takes a promise out.

        Raises DefinitionError if that cannot be true, and TypeError for a field that the class does not have."""
        given: dict[str, Any] = {"name": self.name, "version": self.version}
        lookup: dict[str, Any] = {}
        for promise in self.promises:
            part, _, inner = promise.field.partition(".")
            if inner:
                value = promise.stated
                lookup[f"{inner}_us" if isinstance(value, timedelta) else inner] = (
                    microseconds(value) if isinstance(value, timedelta) else value
                )
            else:
                given[part] = promise.stated
        if lookup:
            given["lookup"] = Lookup(**lookup)
        return CONSTRUCTORS[self.kind](**{**given, **stated})

    def status(self, note: Note) -> Status:
        """How well a promise or a note of this entry is known."""
        if isinstance(note, Promise) and note.stated is contracts.UNPUBLISHED:
            return Status.NOT_PUBLISHED
        return _STATUSES[self.sources[note.source].basis]

    def promise(self, field: str) -> Promise | None:
        return next((promise for promise in self.promises if promise.field == field), None)
