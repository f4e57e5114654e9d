"""Outcomes: what an effect's contract and the type of its outcome must have to do with each other.

Owns the refusals of contracts whose promise the declared type cannot keep. Builds nothing but the codec. Invariant: an outcome that a verdict
may adopt under the contract can be read back as the declared type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from recovery.codec import Codec
from recovery.core.contracts import Batch, Contract, Kind, Replay
from recovery.core.errors import ValueNotStorable
from recovery.definitions.agreement import refused
from recovery.definitions.batched import BatchCodec, item_type
from recovery.definitions.rejection import Rejection

_BATCHED: Final = "Return `Batched[...]` with a contract that says `batch=Batch.PER_ITEM_RESULT`, or neither."


def outcome_codec(name: str, contract: Contract, returns: Any, rejects: Mapping[str, type[Rejection]]) -> Codec[Any]:
    """How outcomes of this type are stored. Raises DefinitionError where the contract says something else than the type."""
    batched = item_type(returns) is not None
    if batched is not (contract.batch is Batch.PER_ITEM_RESULT):
        have = "its contract has no results per item" if batched else "its contract has a result per item, and it returns one value"
        raise refused(name, f"batch: {have}", _BATCHED)
    if batched:
        return BatchCodec(returns, rejects, what="effect", name=name)
    codec: Codec[Any] = Codec(returns, what="effect", name=name)
    if contract.kind is Kind.SWALLOW and not takes_none(codec):
        problem = f"it returns {codec.title}, and its environment tells nothing about what it accepted"
        raise refused(name, problem, "Annotate `-> None`, or state another class.")
    if contract.kind is not Kind.SWALLOW:
        _check_stable_fields(name, contract, codec)
    return codec


def takes_none(codec: Codec[Any]) -> bool:
    """Whether None is one of the values of this type."""
    try:
        return codec.encode(None) is None
    except ValueNotStorable:
        return False


def _check_stable_fields(name: str, contract: Contract, codec: Codec[Any]) -> None:
    """A present state gives back its stable fields and nothing else, so they must make up a whole outcome."""
    replayed = contract.keyed and contract.replay_success is Replay.CURRENT
    present = replayed or (contract.lookup is not None and not contract.lookup.original)
    if not contract.stable_fields and not present:
        return
    schema = _object_schema(codec)
    if schema is None:
        return
    known, required = set(schema["properties"]), set(schema.get("required", ()))
    if unknown := sorted(set(contract.stable_fields) - known):
        raise refused(name, f"stable_fields: {codec.title} has no field {unknown[0]!r}", "Name fields as they are stored.")
    if not present or contract.shown_once:
        return
    if not contract.stable_fields:
        problem = f"stable_fields: its environment shows the present state, and no field of {codec.title} is said never to change"
        raise refused(name, problem, "Name the fields that give the first outcome back.")
    if missing := sorted(required - set(contract.stable_fields)):
        problem = f"stable_fields: without {missing[0]!r} no {codec.title} can be read back from the present state"
        raise refused(name, problem, "Add it if it never changes, or give it a default.")


def _object_schema(codec: Codec[Any]) -> dict[str, Any] | None:
    """The JSON Schema of a type with fields; None for one whose fields are not known beforehand."""
    whole = codec.adapter.json_schema()
    schema = whole["prefixItems"][0]  # a codec's adapter is a one-tuple of the type
    if reference := schema.get("$ref"):
        schema = whole["$defs"][reference.rpartition("/")[2]]
    return schema if "properties" in schema else None
