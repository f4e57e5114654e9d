"""The catalogue: contracts of known providers, as data, with the source of every number.

What is here is what vendors document. Each promise has a `Status`: read at the vendor on the day beside its source, reported by a third party,
not published, inferred, or not verified. None of it was measured. Where a vendor does not publish a window, the contract has none: its first
attempt is sent, and never re-sent.

    from recovery import catalogue, effect

    @effect(catalogue.load("stripe-v1"))
    def charge(call: Call, *, customer: str, amount: int) -> Charge: ...
"""

from recovery.catalogue.consequences import Consequence, consequences
from recovery.catalogue.entry import Basis, Entry, Note, Promise, Source, Status
from recovery.catalogue.shelf import entries, entry, load, names

__all__ = [
    "Basis",
    "Consequence",
    "Entry",
    "Note",
    "Promise",
    "Source",
    "Status",
    "consequences",
    "entries",
    "entry",
    "load",
    "names",
]
