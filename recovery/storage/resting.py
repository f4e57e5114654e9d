"""Resting: how an entry lies in a row of the journal, and how it is woken again.

Owns the stored form of an entry: its JSON, with every value above INLINE_MAX moved out into a payload. A body says so beside its fields, under
a name that no entry's field has, so that no value of a user's can be taken for a reference. Knows no database. Invariant: waking what was
laid to rest gives the same entry; bytes that are not those which the body names, by digest and size, are never decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from recovery import codec
from recovery.core.entries import JSON, Entry, decode, encode, kind_of
from recovery.core.ids import digest_bytes
from recovery.ports import Payload

INLINE_MAX: Final = 64 * 1024
"""Bytes of UTF-8 JSON text: a larger value is stored out of line."""

ELSEWHERE: Final = "$payload"
"""{"$payload": {"arguments.document": ["<digest>", <size>]}}, beside an entry's own fields."""

_VALUES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "opened": (("input",),),
    "decision": (("value",),),
    "intent": (("arguments",),),
    "observation": (("answer", "value"),),
    "override": (("terms",),),
    "settled": (("value",), ("observation", "answer", "value")),
}
_BY_NAME: Final = frozenset({("input",), ("arguments",)})
"""Values that hold others by name, each of which moves by itself: a large document stays one payload, whatever it is passed along with."""


@dataclass(frozen=True, slots=True)
class Rested:
    """An entry as it is stored: its row's body, and the payloads that the body refers to."""

    body: str
    payloads: tuple[Payload, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that lies elsewhere. `field`: where in the entry it belongs."""

    field: str
    digest: str
    size: int


def rest(entry: Entry) -> Rested:
    """The entry as it is to be stored."""
    body = encode(entry)
    text = codec.dumps(body)
    if _fits(text):
        return Rested(text)
    moved: dict[str, list[JSON]] = {}
    payloads: dict[str, Payload] = {}
    for path in _large(kind_of(entry), body):
        holder, name = _holder(body, path)
        payload = payload_of(codec.dumps(holder[name]).encode())
        payloads[payload.digest] = payload
        moved[".".join(path)] = [payload.digest, len(payload.body)]
        _put(body, path, None)
    return Rested(codec.dumps({**body, ELSEWHERE: moved} if moved else body), tuple(payloads.values()))


def references(body: Mapping[str, JSON]) -> list[Reference]:
    """What the body of a row says that lies elsewhere. Raises ValueError for what no writer wrote."""
    found = body.get(ELSEWHERE, {})
    try:
        return [Reference(field, digest, size) for field, (digest, size) in found.items()]
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"{ELSEWHERE!r} is of another form") from None


def wake(kind: str, body: Mapping[str, JSON], value_of: Callable[[Reference], JSON]) -> Entry:
    """The entry in the body of a row, with its values where they belong. Raises ValueError on what this version does not know."""
    away = references(body)
    woken = {name: value for name, value in body.items() if name != ELSEWHERE}
    for reference in away:
        _put(woken, tuple(reference.field.split(".")), value_of(reference))
    return decode(kind, woken)


def payload_of(body: bytes) -> Payload:
    """Bytes under the digest that they have."""
    return Payload(digest_bytes(b"recovery-payload-1", body), body)


def is_intact(reference: Reference, body: bytes | None) -> bool:
    """Whether these are the bytes that the reference names."""
    return body is not None and len(body) == reference.size and payload_of(body).digest == reference.digest


def _fits(text: str) -> bool:
    return len(text) * 4 <= INLINE_MAX or len(text.encode()) <= INLINE_MAX


def _large(kind: str, body: Mapping[str, JSON]) -> Iterator[tuple[str, ...]]:
    """The paths of the values in a body that do not fit into it."""
    for path in _VALUES.get(kind, ()):
        holder, name = _holder(body, path)
        value = holder.get(name)
        named = value.items() if path in _BY_NAME and isinstance(value, dict) else ()
        for part, inner in named:
            if not _fits(codec.dumps(inner)):
                yield (*path, part)
        if not named and value is not None and not _fits(codec.dumps(value)):
            yield path


def _holder(body: Mapping[str, JSON], path: tuple[str, ...]) -> tuple[Mapping[str, JSON], str]:
    """The object that has a value, and under which name; an empty one where the entry has nothing there."""
    held: Any = body
    for name in path[:-1]:
        held = held.get(name, {})
    return held, path[-1]


def _put(body: dict[str, JSON], path: tuple[str, ...], value: JSON) -> None:
    """Put a value into a body, copying what holds it: an entry's own arguments are not ours to change. Raises ValueError where nothing holds it."""
    holder = body
    for name in path[:-1]:
        if not isinstance(holder.get(name), dict):
            raise ValueError(f"{ELSEWHERE!r} names a field that is not there")  # noqa: TRY004  # what is stored is wrong, not what was given
        holder[name] = dict(holder[name])
        holder = holder[name]
    holder[path[-1]] = value
