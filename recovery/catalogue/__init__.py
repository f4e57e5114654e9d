"""The catalogue: contracts of known providers, as data, with the source of every number.

What is here is what vendors document, as it was read on the date beside each source. None of it was measured. Where a vendor does not publish
a window, the contract has none: its first attempt is sent, and never re-sent.

    from recovery import catalogue, effect

    @effect(catalogue.load("stripe-v1"))
    def charge(call: Call, *, customer: str, amount: int) -> Charge: ...
"""

from recovery.catalogue.consequences import Consequence, consequences
from recovery.catalogue.entry import Basis, Entry, Note, Promise, Source
from recovery.catalogue.shelf import entries, entry, load, names

__all__ = [
    "Basis",
    "Consequence",
    "Entry",
    "Note",
    "Promise",
    "Source",
    "consequences",
    "entries",
    "entry",
    "load",
    "names",
]
