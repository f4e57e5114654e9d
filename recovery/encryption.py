"""Encryption at rest: keys by their ids, and what is done with them. Needs the extra `encryption` (the package cryptography).

Owns AES-256-GCM and the derivation of keys; `recovery.vaults` says what a journal needs of it. Must not know what is encrypted. Invariants: a key never leaves
this module, in a `repr` or an error neither; what was sealed opens only under the same key and with the same `about`; nothing is read before the first use.

From each 32-byte key three are derived (HKDF-SHA-256, RFC 5869): one for rows, whose nonces are 96 random bits; one for what must give the same bytes
again, whose nonces are a keyed digest of the content; one for keyed digests.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from recovery.core.errors import DefinitionError, ExtraMissing
from recovery.core.key_errors import EncryptionKeyMissing, EncryptionKeyWrong

__all__ = ["Keyring", "new_key", "parsed"]

KEY_BYTES: Final = 32

VARIABLE: Final = "RECOVERY_KEYS"

_NONCE_BYTES: Final = 12  # random, so that NIST SP 800-38D (section 8.3) allows 2**32 rows under one key and no more
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ADVICE: Final = "Write each as ID:BASE64, of 32 bytes; `python -m recovery.encryption ID` makes one."


class Keyring:
    """Keys by id. What is new is written under the current one; what is old stays readable as long as its key is here.

    A key that is taken out makes what was written under it unreadable for ever, backups included.
    """

    def __init__(self, keys: Mapping[str, bytes] | Callable[[], Mapping[str, bytes]], *, current: str | None = None) -> None:
        """keys: 32 bytes each, by id; or a function that gives them, called once, at the first use. current: the id of the one that seals; by default
        the first. Raises DefinitionError, at the first use where the keys come from elsewhere."""
        self._source = keys if callable(keys) else lambda: keys
        self._wanted = current
        self._keys: dict[str, bytes] = {}
        if not callable(keys):
            self._load()

    @classmethod
    def from_environment(cls, name: str = VARIABLE) -> Self:
        """Keys in an environment variable: `ID:BASE64`, separated by spaces, commas or lines; the first one is current."""

        def read() -> Mapping[str, bytes]:
            text = os.environ.get(name)
            if not text:
                raise _refused(f"the variable {name} is empty or not set", _ADVICE)
            return parsed(text)

        return cls(read)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Keys in a file of the same form, which nobody but its owner may read."""

        def read() -> Mapping[str, bytes]:
            try:
                with Path(path).open(encoding="utf-8") as file:
                    mode = os.fstat(file.fileno()).st_mode
                    text = file.read()
            except (OSError, UnicodeDecodeError) as error:
                raise _refused(f"{path} cannot be read ({type(error).__name__})", "Check the path and its permissions.") from None
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise _refused(f"{path} can be read by others than its owner", "Give it the mode 600.")
            return parsed(text)

        return cls(read)

    @property
    def current(self) -> str:
        """The id of the key that seals."""
        self._load()
        return self._wanted or next(iter(self._keys))

    @property
    def ids(self) -> tuple[str, ...]:
        self._load()
        return tuple(self._keys)

    def __repr__(self) -> str:
        return f"<Keyring {', '.join(self._keys) or 'not read yet'}>"

    def __reduce__(self) -> Any:
        raise TypeError("a Keyring is not copied or sent anywhere: it holds keys")

    # -- ports.Vault ---------------------------------------------------------------------------------------------------

    def seal(self, plain: bytes, about: bytes) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + bytes(_cipher(self._key(self.current), b"rows").encrypt(nonce, plain, about))

    def wrap(self, plain: bytes, about: bytes) -> bytes:
        key = self._key(self.current)
        nonce = _mac(_derived(key, b"nonces"), about, plain)[:_NONCE_BYTES]
        return nonce + bytes(_cipher(key, b"payloads").encrypt(nonce, plain, about))

    def unseal(self, key: str, sealed: bytes, about: bytes) -> bytes:
        return self._opened(key, b"rows", sealed, about)

    def unwrap(self, key: str, sealed: bytes, about: bytes) -> bytes:
        return self._opened(key, b"payloads", sealed, about)

    def blind(self, text: str) -> str:
        return f"{self.current}:{self._digest(self.current, text)}"

    def fits(self, blinded: str, text: str) -> bool:
        key, _, digest = blinded.partition(":")
        return hmac.compare_digest(self._digest(key, text), digest)

    def _digest(self, key: str, text: str) -> str:
        return _mac(_derived(self._key(key), b"digests"), text.encode()).hex()

    def _opened(self, key: str, use: bytes, sealed: bytes, about: bytes) -> bytes:
        cipher = _cipher(self._key(key), use)
        try:
            return bytes(cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about))
        except Exception as error:  # cryptography's InvalidTag, and its ValueError for what is too short
            if type(error).__name__ not in {"InvalidTag", "ValueError"}:
                raise
            raise EncryptionKeyWrong(key=key) from None

    def _key(self, key: str) -> bytes:
        self._load()
        if key not in self._keys:
            raise EncryptionKeyMissing(key=key, known=", ".join(self._keys) or "none")
        return self._keys[key]

    def _load(self) -> None:
        if self._keys:
            return
        found = dict(self._source())
        for name, key in found.items():
            if not _ID.fullmatch(name):
                raise _refused(f"{name!r} is no id of a key", "Use up to 64 characters out of A-Z a-z 0-9 . _ -")
            if not isinstance(key, bytes) or len(key) != KEY_BYTES:
                raise _refused(f"the key {name!r} is not {KEY_BYTES} bytes", _ADVICE)
        if not found:
            raise _refused("there is no key", _ADVICE)
        if self._wanted is not None and self._wanted not in found:
            raise _refused(f"the current key {self._wanted!r} is not among them", "Name one of them.")
        if len(set(found.values())) != len(found):
            raise _refused("two ids have the same key", "A new id is for a new key.")
        self._keys = found


def new_key(name: str) -> str:
    """A new key from the system's random source, as `ID:BASE64`."""
    if not _ID.fullmatch(name):
        raise _refused(f"{name!r} is no id of a key", "Use up to 64 characters out of A-Z a-z 0-9 . _ -")
    return f"{name}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def parsed(text: str) -> dict[str, bytes]:
    """The keys in a text, in its order. Raises DefinitionError without quoting it."""
    keys: dict[str, bytes] = {}
    for number, word in enumerate(re.split(r"[\s,]+", text.strip()), start=1):
        name, _, encoded = word.partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except ValueError:
            raise _refused(f"number {number} is no key", _ADVICE) from None
        if name in keys:
            raise _refused(f"the key {name!r} is there twice", "Give each key an id of its own.")
        keys[name] = key
    return keys


@cache
def _derived(key: bytes, use: bytes) -> bytes:
    """HKDF-Expand of one block (RFC 5869, section 2.3): the keys are uniformly random already."""
    return _mac(key, b"recovery-" + use + b"-1\x01")


def _mac(key: bytes, *parts: bytes) -> bytes:
    state = hmac.new(key, digestmod="sha256")
    for part in parts if len(parts) == 1 else [piece for each in parts for piece in (len(each).to_bytes(8, "big"), each)]:
        state.update(part)
    return state.digest()


@cache
def _cipher(key: bytes, use: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ExtraMissing(what="Encryption at rest", missing="cryptography", extra="encryption") from error
    return AESGCM(_derived(key, use))


def _refused(problem: str, advice: str) -> DefinitionError:
    return DefinitionError(what="keyring", name="encryption", problem=problem, advice=advice)


if __name__ == "__main__":
    import sys

    print(new_key(sys.argv[1] if len(sys.argv) > 1 else "key-1"))
