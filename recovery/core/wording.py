"""Wording: a noun with its article, or with how many there are.

Owns these two, for every sentence that is made around a name or a number. Knows no subject. Invariant: one of a thing is never told as several.
"""

from __future__ import annotations


def article(name: str) -> str:
    """A name behind its article: "an int", "a str". One that begins with a u is spoken as "you", as UUID and Unit are."""
    return f"{'an' if name[:1].lower() in {'a', 'e', 'i', 'o'} else 'a'} {name}"


def of_type(value: object) -> str:
    """What kind of thing a value is: "an int"."""
    return article(type(value).__name__)


def counted(number: int, noun: str, several: str = "") -> str:
    """How many there are: "1 entry", "2,000 entries". several: of a noun that takes no s."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"
