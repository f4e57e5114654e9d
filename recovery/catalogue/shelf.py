"""The shelf: the entries that are shipped, by name.

Owns reading them. Invariant: a file is read once per process, and what is read validates or is our bug.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from recovery.catalogue.entry import Entry
from recovery.core.contracts import Contract
from recovery.core.errors import InvalidName


def names() -> list[str]:
    """The names of all entries, sorted."""
    return sorted(path.name.removesuffix(".yaml") for path in _providers().iterdir() if path.name.endswith(".yaml"))


def entries() -> list[Entry]:
    """All entries, by name."""
    return [entry(name) for name in names()]


def entry(name: str) -> Entry:
    """One entry. Raises InvalidName, which names those that there are."""
    if name not in (known := names()):
        raise InvalidName(what="provider", name=name, rule=f"one of: {', '.join(known)}")
    return _read(name)


def load(name: str, **stated: Any) -> Contract:
    """The contract that a provider documents, to be given to `effect`.

    stated: what you know better, as arguments of the constructor of its class, such as `stable_fields` or a longer `window` that was agreed
    with the provider; None takes a promise out. Raises InvalidName, and DefinitionError for a contract that cannot be true.
    """
    return entry(name).contract(**stated)


@cache
def _read(name: str) -> Entry:
    text = (_providers() / f"{name}.yaml").read_text(encoding="utf-8")
    return Entry.model_validate(yaml.safe_load(text))


def _providers() -> Any:
    return files("recovery.catalogue") / "providers"
