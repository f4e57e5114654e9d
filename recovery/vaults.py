"""Vaults: what a journal needs of whoever has the keys.

Owns that one protocol. Knows neither ciphers nor what is encrypted. Invariant: what was sealed about one thing opens about the same thing only.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.

from __future__ import annotations

from typing import Protocol


class Vault(Protocol):
    """Keys, and what a journal does with them. `about`: what the sealed bytes are bound to; they open with the same `about` only.

    Every method may raise EncryptionKeyMissing, and those that open EncryptionKeyWrong. No I/O but the reading of keys, at the first use."""

    @property
    def current(self) -> str:
        """The id of the key that seals."""

    def seal(self, plain: bytes, about: bytes) -> bytes:
        """Encrypted under the current key; other bytes at each call."""

    def wrap(self, plain: bytes, about: bytes) -> bytes:
        """Encrypted under the current key, and the same bytes for the same content: what is stored once, however often it is said."""

    def unseal(self, key: str, sealed: bytes, about: bytes) -> bytes:
        """What was sealed under the key of this id."""

    def unwrap(self, key: str, sealed: bytes, about: bytes) -> bytes:
        """What was wrapped under the key of this id."""

    def blind(self, text: str) -> str:
        """A keyed digest under the current key, with its id: what may stand in a column where a digest could be guessed from."""

    def fits(self, blinded: str, text: str) -> bool:
        """Whether it is the keyed digest of this text, under the key that it names."""
