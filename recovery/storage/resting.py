"""Resting: how an entry lies in a row of the journal, and how it is woken again.

Owns the stored form of an entry: its JSON, with every value above INLINE_MAX moved out into a payload, and with a vault every value sealed. A body
says so beside its fields, under names that no entry's field has, so that no value of a user's can be taken for either. Knows no database.
Invariants: waking what was laid to rest gives the same entry; bytes that are not those which the body names, by digest and size, are never
decoded; what is sealed is bound to the whole of its row, the references to payloads included.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from recovery import texts
from recovery.core.entries import JSON, Entry, Observation, decode, encode, kind_of, step_of
from recovery.core.ids import Epoch, digest_bytes
from recovery.core.key_errors import EncryptionKeyMissing
from recovery.core.showing import Withheld
from recovery.ports import Append, Delivered, Delivery, Evidence, Journal, Message, Payload, SlotTaken
from recovery.storage.bodies import body_of
from recovery.storage.contents import BY_NAME, EMPTY, TEXTS, UNTOLD, Path, at, put, values_in
from recovery.vaults import Vault

INLINE_MAX: Final = 64 * 1024
"""Bytes of UTF-8 JSON text: a larger value is stored out of line."""

ELSEWHERE: Final = "$payload"
"""{"$payload": {"arguments.document": ["<digest>", <size>, "<key>"]}}, beside an entry's own fields; the key only of what is encrypted."""

SEALED: Final = "$sealed"
"""{"$sealed": {"key": "<id>", "fields": ["arguments", ...], "text": "<base64>"}}: the fields that were taken out, encrypted in one piece."""


_SEALED_TEXT: Final = f'{{"{SEALED}":'


class Rested(NamedTuple):
    """An entry as it is stored: its row's body, and the payloads that the body refers to."""

    body: str
    payloads: tuple[Payload, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that lies elsewhere. `field`: where in the entry it belongs; `key`: what its bytes are encrypted under, "" for nothing."""

    field: str
    digest: str
    size: int
    key: str = ""


@dataclass(frozen=True, slots=True)
class Sealing:
    """What the values of one run are sealed by, and bound to."""

    vault: Vault
    namespace: str
    run_id: str

    def about(self, *parts: str) -> bytes:
        """What one piece is bound to: no two sequences of parts are the same bytes."""
        return digest_bytes(
            b"recovery-sealed-1", self.namespace.encode(), self.run_id.encode(), *(part.encode() for part in parts)
        ).encode()

    @property
    def about_payload(self) -> bytes:
        """A payload is bound to its database alone: equal values of several runs are one. Its row is bound to it."""
        return digest_bytes(b"recovery-sealed-payload-1", self.namespace.encode()).encode()


def sealing_of(journal: Journal, run_id: str) -> Sealing | None:
    """How a run's values are sealed in this journal; None: not at all."""
    return None if journal.vault is None else Sealing(journal.vault, journal.namespace(), run_id)


def rest(entry: Entry, seq: int = 0, sealing: Sealing | None = None, text: str = "") -> Rested:
    """The entry as it is to be stored, as number `seq` of its run; 0 where it stands outside the chain, and equal ones are to be equal. text: `body_of` it,
    where that was made already."""
    text = text or body_of(entry)
    whole = fits(text) or not seq
    if whole and sealing is None:
        return Rested(text)  # almost always
    body = encode(entry)
    moved, payloads = ({}, ()) if whole else _moved_out(body, kind_of(entry), sealing)
    if moved:
        body[ELSEWHERE] = moved
    elif sealing is None:
        return Rested(text)
    if sealing is not None:
        body = _sealed(body, kind_of(entry), step_of(entry), seq, sealing)
    return Rested(texts.dumps(body), payloads)


def _moved_out(body: dict[str, JSON], kind: str, sealing: Sealing | None) -> tuple[dict[str, JSON], tuple[Payload, ...]]:
    """Take the values that do not fit out of a body: where each of them stood, and what they are stored as."""
    moved: dict[str, JSON] = {}
    payloads: dict[str, Payload] = {}  # by their texts: an outcome stands in its row twice
    key = [] if sealing is None else [sealing.vault.current]
    for path, text in list(_large(kind, body)):
        if (payload := payloads.get(text)) is None:
            plain = text.encode()
            payload = payload_of(plain if sealing is None else sealing.vault.wrap(plain, sealing.about_payload))
            payloads[text] = payload
        moved[".".join(path)] = [payload.digest, len(payload.body), *key]
        put(body, path, None)
    return moved, tuple(payloads.values())


def late_item(run_id: str, epoch: Epoch, at_us: int, told: Observation, sealing: Sealing | None) -> Evidence:
    """An observation as it is kept outside the fence; the same one is the same item."""
    return Evidence(run_id, told.step, epoch, at_us, kind_of(told), rest(told, 0, sealing).body)


def blinded(digest: str, sealing: Sealing | None) -> str:
    """A digest as it may stand in a column of its own."""
    return digest if sealing is None or not digest else sealing.vault.blind(digest)


def is_digest(vault: Vault | None, stored: str, plain: str) -> bool:
    """Whether a column holds this digest, in the clear or keyed. Raises EncryptionKeyMissing."""
    if ":" not in stored:
        return stored == plain
    if vault is None:
        raise EncryptionKeyMissing(key=stored.partition(":")[0], known="none")
    return vault.fits(stored, plain)


def sealed_message(message: Message, sealing: Sealing | None) -> Message:
    """A message as it is stored: the same bytes for the same message."""
    if sealing is None:
        return message
    vault = sealing.vault
    text = b64encode(vault.wrap(message.body.encode(), _about_message(message, sealing))).decode()
    return replace(message, body=texts.dumps({SEALED: {"key": vault.current, "text": text}}))


def sealed_words(journal: Journal, member: Append) -> Append:
    """An append with what it says to other runs, as `sealed_message` stores it."""
    if not member.words:
        return member
    return replace(member, words=tuple(sealed_message(word, sealing_of(journal, word.run_id)) for word in member.words))


def opened_message(message: Message, sealing: Sealing | None) -> Message:
    """A message as it was said. Raises EncryptionKeyMissing, EncryptionKeyWrong."""
    if not message.body.startswith(_SEALED_TEXT):
        return message
    body = texts.loads(message.body)
    if sealing is None:
        raise EncryptionKeyMissing(key=key_of(body), known="none")
    text = b64decode(body[SEALED]["text"], validate=True)
    return replace(message, body=sealing.vault.unwrap(key_of(body), text, _about_message(message, sealing)).decode())


def opened_delivery(delivery: Delivery, sealing: Sealing | None) -> Delivery:
    """What came of a delivery, with its message as it was said."""
    match delivery:
        case Delivered(message):
            return Delivered(opened_message(message, sealing))
        case SlotTaken(message):
            return SlotTaken(opened_message(message, sealing))
        case _:
            return delivery


def _about_message(message: Message, sealing: Sealing) -> bytes:
    return sealing.about("message", message.kind, message.name, message.slot, message.by, str(message.at_us), message.token)


def _sealed(body: dict[str, JSON], kind: str, step: str, seq: int, sealing: Sealing) -> dict[str, JSON]:
    taken: dict[str, JSON] = {}
    words = (path for path in TEXTS.get(kind, ()) if at(body, path))
    for path in (*(path for path in values_in(kind, body) if at(body, path) is not None), *words):
        taken[".".join(path)] = at(body, path)
        put(body, path, None)
    if not taken and ELSEWHERE not in body:
        return body
    about = sealing.about(str(seq), kind, step, texts.dumps(body))
    vault = sealing.vault
    hide = vault.seal if seq else vault.wrap
    text = b64encode(hide(texts.dumps(taken).encode(), about)).decode()
    return {**body, SEALED: {"key": vault.current, "fields": list(taken), "text": text}}


def key_of(body: Mapping[str, JSON]) -> str:
    """The id of the key that a row's values are encrypted under; "" for none."""
    sealed = body.get(SEALED)
    return str(sealed.get("key", "")) if isinstance(sealed, dict) else ""


def unsealed(body: Mapping[str, JSON], kind: str, step: str, seq: int, sealing: Sealing | None) -> dict[str, JSON]:
    """The body with its values in the clear. Raises EncryptionKeyMissing, EncryptionKeyWrong, and ValueError for what no writer wrote."""
    if SEALED not in body:
        return dict(body)
    clear = {name: value for name, value in body.items() if name != SEALED}
    key = key_of(body)
    if not key and SEALED in body:
        raise ValueError(f"{SEALED!r} is of another form")
    if not key:
        return clear
    if sealing is None:
        raise EncryptionKeyMissing(key=key, known="none")
    text = b64decode(body[SEALED]["text"], validate=True)
    about = sealing.about(str(seq), kind, step, texts.dumps(clear))
    found = (sealing.vault.unseal if seq else sealing.vault.unwrap)(key, text, about)
    for field, value in texts.loads(found.decode()).items():
        put(clear, tuple(field.split(".")), value)
    return clear


def is_due(body: Mapping[str, JSON], kind: str) -> bool:
    """Whether a row that is not sealed has something that a writer with keys would have sealed, or the hole that is left where it was cut out."""
    if any(at(body, path) is not None for path in values_in(kind, body)) or ELSEWHERE in body:
        return True
    return any(at(body, path) or (len(path) == 1 and path[0] in body and body[path[0]] is None) for path in TEXTS.get(kind, ()))


def unopened(body: Mapping[str, JSON]) -> dict[str, JSON]:
    """The body with stand-ins for what is sealed: what can be seen of it without the key."""
    clear = {name: value for name, value in body.items() if name != SEALED}
    key = key_of(body)
    fields = body[SEALED].get("fields") if key else []
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise ValueError(f"{SEALED!r} is of another form")
    for field in fields:
        put(clear, tuple(field.split(".")), stand_in(field, Withheld("encrypted", key=key)))
    return clear


def stand_in(field: str, withheld: Withheld) -> JSON:
    """What stands where a field was left out: a text where a text belongs."""
    name = field.rpartition(".")[2]
    if field == UNTOLD:
        return None
    return "encrypted" if name.endswith(("fingerprint", "digest")) else "" if name in EMPTY else withheld


def references(body: Mapping[str, JSON]) -> list[Reference]:
    """What the body of a row says that lies elsewhere. Raises ValueError for what no writer wrote."""
    found = body.get(ELSEWHERE, {})
    items = found.items() if isinstance(found, dict) else [("", None)]
    return [_reference(field, about) for field, about in items]


def _reference(field: str, about: JSON) -> Reference:
    match about:
        case [str(digest), int(size)] if size >= 0:
            return Reference(field, digest, size)
        case [str(digest), int(size), str(key)] if size >= 0:
            return Reference(field, digest, size, key)
        case _:
            raise ValueError(f"{ELSEWHERE!r} is of another form")


def wake(kind: str, body: Mapping[str, JSON], value_of: Callable[[Reference], JSON]) -> Entry:
    """The entry in the body of a row that is not sealed, with its values where they belong. Raises ValueError on what this version does not know."""
    if ELSEWHERE not in body:
        return decode(kind, body)  # almost always
    away = references(body)
    woken = {name: value for name, value in body.items() if name != ELSEWHERE}
    for reference in away:
        path = tuple(reference.field.split("."))
        if not isinstance(at(woken, path[:-1]), Withheld):  # else a part of what is sealed, for which a stand-in stands already
            put(woken, path, value_of(reference))
    return decode(kind, woken)


def payload_of(body: bytes) -> Payload:
    """Bytes under the digest that they have."""
    return Payload(digest_bytes(b"recovery-payload-1", body), body)


def is_intact(reference: Reference, body: bytes | None) -> bool:
    """Whether these are the bytes that the reference names."""
    return body is not None and len(body) == reference.size and payload_of(body).digest == reference.digest


def value_in(reference: Reference, body: bytes, sealing: Sealing | None) -> JSON:
    """The value in the bytes of an intact payload. Raises EncryptionKeyMissing, EncryptionKeyWrong."""
    if reference.key:
        if sealing is None:
            raise EncryptionKeyMissing(key=reference.key, known="none")
        body = sealing.vault.unwrap(reference.key, body, sealing.about_payload)
    return texts.loads(body.decode())


def fits(text: str) -> bool:
    """Whether a text is small enough to be stored where it stands."""
    return len(text) * 4 <= INLINE_MAX or len(text.encode()) <= INLINE_MAX


def _large(kind: str, body: Mapping[str, JSON]) -> Iterator[tuple[Path, str]]:
    """The paths of the values in a body that do not fit into it, with their texts. One that stands there twice is written once: that takes longer than all else."""
    said: dict[int, str] = {}
    for path, value in _values(kind, body):
        text = said[id(value)] = said.get(id(value)) or texts.dumps(value)
        if not fits(text):
            yield path, text


def _values(kind: str, body: Mapping[str, JSON]) -> Iterator[tuple[Path, JSON]]:
    """What is held by name is a value by itself: a large document stays one payload, whatever it is passed along with."""
    for path in values_in(kind, body):
        value = at(body, path)
        if path in BY_NAME and isinstance(value, dict) and value:
            for part, inner in value.items():
                yield (*path, part), inner
        elif value is not None:
            yield path, value
