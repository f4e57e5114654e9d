"""The codec: values as JSON through pydantic types, and JSON as text, as canonical bytes and as a fingerprint.

Owns what can be stored. Must not know runs, effects or storage. Invariant: a value is accepted if and only if
decode(encode(value)) is identical to it in type and value, all the way down; everything else is refused with the path to
the value and what to do, before anything happened. No pickle. Adapters are built when a codec is made, which is at
import time for definitions: a type adapter built while a test has frozen the clock would fail.
"""

from __future__ import annotations

import json
import math
from functools import cache
from hashlib import blake2b
from types import GenericAlias, NoneType
from typing import Any, Final, Generic, Literal, TypeVar

import rfc8785
from pydantic import ConfigDict, TypeAdapter, ValidationError

from recovery.core.entries import JSON
from recovery.core.errors import DefinitionError, ValueNotStorable, ValueUnreadable
from recovery.core.ids import digest_bytes, prefixed
from recovery.core.showing import ESCAPED, MARKED, VERSIONED, Veiled, revealed
from recovery.core.wording import article, of_type
from recovery.frozen import STAND_INS, thawed
from recovery.identical import DEPTH_MAX, Difference, difference, unfit
from recovery.redaction import KEPT, MARK, Redacted, Unplaced, Veils, uncovered
from recovery.texts import dumps as dumps
from recovery.texts import loads as loads
from recovery.texts import written_by
from recovery.upcasting import Models, Outdated, Tagged, stored_tag, tagged

T = TypeVar("T")

SIZE_MAX: Final = 16 * 1024 * 1024  # bytes of UTF-8 JSON text
INTEGER_MAX: Final = 2**53 - 1  # beyond it JSON numbers lose digits in most readers, and RFC 8785 (section 3.2.2.3) refuses them

_INT: Final = "$int"  # {"$int": "9007199254740993"}: an integer beyond INTEGER_MAX, in decimal
_CONFIG: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_SHORT: Final = 100_000  # characters, of which each takes six bytes at most
_FINGERPRINT: Final = b"recovery-fingerprint-1"
_FINGERPRINTED: Final = blake2b(prefixed(_FINGERPRINT), digest_size=32)  # what `digest_bytes` takes in of each, taken in
_PLAIN: Final = frozenset({str, int, bool, float, NoneType})
_OWN_MESSAGES: Final = frozenset({"value_error", "assertion_error"})  # a validator's own words, which may quote the value


class Codec(Generic[T]):
    """Encodes values of one type. Raises DefinitionError if the type has no JSON form."""

    def __init__(self, type_: Any, *, what: str = "type", name: str = "") -> None:
        type_ = thawed(type_)  # the first decision of a test may be what builds this
        self.type = type_
        self.title = type_title(type_)
        try:
            # inside a tuple, the configuration reaches stdlib dataclasses and TypedDicts; given to them directly it is refused
            self.adapter: TypeAdapter[tuple[T]] = TypeAdapter(_tuple_of(type_), config=_CONFIG)
            if not self.adapter.pydantic_complete:
                self.adapter.rebuild()
            self.plain: type | None = type_ if type_ in _PLAIN else None
            self.veils = Veils(self.adapter)
            self.models = Models(self.adapter)
        except Exception as error:  # pydantic raises its own errors, NameError and TypeError here
            problem = f"the type {self.title} has no JSON form"
            advice = "Use JSON types, dataclasses, TypedDicts, enums or pydantic models, resolvable where the definition stands."
            if getattr(error, "code", None) == "typed-dict-version":
                advice = "Before Python 3.12 take TypedDict from typing_extensions."
            if STAND_INS in str(error):
                advice = (
                    "freezegun stands in for a date or time in it: read it before the clock is frozen, or make it a pydantic model."
                )
            raise DefinitionError(what=what, name=name or self.title, problem=problem, advice=advice) from error

    def encode(self, value: T, *, where: str = "codec", root: str = "$") -> JSON:
        """`value` as JSON. Raises ValueNotStorable naming the path (beginning with `root`) and what to do."""
        if type(value) is self.plain and is_itself(value):
            return value  # what most arguments and outcomes are
        try:
            tree = self._dumped(value, "json")
            if self.veils.wrapped:
                tree = uncovered(tree, self._dumped(value, "python"))
            if self.models.any:
                tree = tagged(value, tree)
            stored = _seal(tree, root)
            text = dumps(stored)
        except Exception as error:  # noqa: BLE001  # serializers are the user's code and may raise anything
            raise _refused(where, root, self._diagnose(value, root, error)) from None
        check_size(text, where=where, root=root)
        if type(value) is self.plain:
            return stored
        try:
            copy = self._read(text)
        except Exception as error:  # noqa: BLE001  # validators are the user's code, too
            raise _refused(where, root, self._diagnose(value, root, error)) from None
        if found := _compared(value, copy, root):
            raise _refused(where, root, unfit(value, root) or found)
        return stored

    def decode(self, stored: JSON, *, where: str = "codec", root: str = "$") -> T:
        """The value that `encode` stored. Raises ValueUnreadable if the type no longer fits what is stored."""
        kind: type = type(stored)  # of Any: of the very type
        if kind is self.plain:
            return stored  # type: ignore[no-any-return]
        try:
            return self._read(dumps(stored))
        except ValidationError as error:
            path, problem = _explained(error, root)
        except (ValueError, TypeError, RecursionError, Outdated) as error:
            path, problem = root, str(error)
        except Exception as error:  # noqa: BLE001  # a validator of the user's, whose words may quote the value
            path, problem = root, f"reading it raises {type(error).__name__}"
        raise ValueUnreadable(where=where, path=path, type=self.title, problem=problem)

    def copy(self, value: T, *, where: str = "codec", root: str = "$") -> T:
        """The decoded copy of `value`: what a replay will see."""
        return self.decode(self.encode(value, where=where, root=root), where=where, root=root)

    def parse(self, given: Any, *, where: str = "codec", root: str = "$") -> T:
        """A value from outside (a model's tool call): plain JSON, validated leniently. Raises ValueNotStorable."""
        try:
            return self.adapter.validate_json(f"[{dumps(given)}]", by_alias=True, by_name=True)[0]
        except ValidationError as error:
            path, problem = _explained(error, root)
        except (ValueError, TypeError, RecursionError):
            path, problem = root, "it is not JSON"
        raise ValueNotStorable(where=where, path=path, problem=problem, advice=f"Give JSON that fits {self.title}.")

    def _dumped(self, value: T, mode: Literal["json", "python"]) -> Any:
        return self.adapter.dump_python((value,), mode=mode, by_alias=True, round_trip=True, warnings=False, context=KEPT)[0]

    def _read(self, text: str) -> T:
        if '"$' in text:
            tree = _unseal(json.loads(text), self.models)
            text = json.dumps(tree, allow_nan=False)
        else:
            tree = None
        try:
            return self.adapter.validate_json(f"[{text}]", by_alias=True, by_name=True)[0]
        except ValidationError:
            if not self.models.undated:
                raise
        text = json.dumps(self.models.dated(json.loads(text) if tree is None else tree), allow_nan=False)
        return self.adapter.validate_json(f"[{text}]", by_alias=True, by_name=True)[0]

    def _diagnose(self, value: Any, root: str, error: Exception) -> Difference:
        """Why a value did not survive: what no type could store comes first, since pydantic's words for it mislead."""
        if found := unfit(value, root):
            return found
        if isinstance(error, _Unsealable):
            return error.found
        if isinstance(error, Unplaced):
            problem = "its JSON form is of another shape than the value, so that a secret in it cannot be found"
            return Difference(root, problem, "Let its type have no serializer of its own.")
        advice = f"Give a value of the declared type, {self.title}, or declare the type that it has."
        if isinstance(error, ValidationError):
            path, problem = _explained(error, root)
            return Difference(
                path, f"it is {article(type_title(type(value)))} whose JSON form cannot be read back: {problem}", advice
            )
        return Difference(root, f"{type_title(type(value))} has no JSON form as {self.title}", advice)


def is_itself(value: Any) -> bool:
    """Whether a value of a plain type is its own stored form, and small enough beyond doubt. False where that takes a closer look."""
    kind = type(value)
    if kind is str:
        return len(value) <= _SHORT and (bool(value.isascii()) or _is_well_formed(value))
    if kind is int:
        return -INTEGER_MAX <= value <= INTEGER_MAX  # type: ignore[no-any-return]  # whatever it is, it is an integer
    return True if kind is not float else math.isfinite(value)


def _is_well_formed(text: str) -> bool:
    """A lone surrogate has no UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def any_codec() -> Codec[Any]:
    """The one of values that are what they are. Kept: building one costs more than a decision's commit, and a decision by a fresh closure or lambda
    asks for one each time it is made."""
    return Codec(Any)


def check_size(text: str, *, where: str, root: str) -> None:
    """Whether a value's JSON is small enough to be kept. Raises ValueNotStorable."""
    if len(text) * 4 <= SIZE_MAX or (size := len(text.encode())) <= SIZE_MAX:
        return
    problem = f"it takes {size} bytes as JSON, and {SIZE_MAX} is the limit"
    raise _refused(where, root, Difference(root, problem, "Keep it in a file or object store and store its name and digest."))


def check_stored(stored: JSON, *, where: str, root: str) -> None:
    """Whether this can be a value's stored form: plain JSON of finite numbers, neither too deep nor too large. Raises ValueNotStorable."""
    try:
        _seal(stored, root)
        size = len(dumps(stored).encode())
    except _Unsealable as error:
        raise _refused(where, root, error.found) from None
    except ValueError:
        raise _refused(where, root, Difference(root, "it is not JSON", "Use JSON types and Unicode text.")) from None
    if size > SIZE_MAX:
        raise _refused(where, root, Difference(root, f"it takes {size} bytes as JSON, and {SIZE_MAX} is the limit", "Shorten it."))


def canonical(stored: JSON) -> bytes:
    """RFC 8785 bytes. Numbers are JSON numbers there: 1 and 1.0 are one, and so are 0.0 and -0.0."""
    return _SORTED(stored).encode() if _is_simple(stored) else rfc8785.dumps(stored)


def _is_simple(stored: JSON) -> bool:
    """Whether sorted keys are all that makes its JSON canonical, and nothing in it may be a mark, which is so of texts under keys in ASCII and of ordinary
    numbers, and so of most arguments. What takes care of the rest (numbers as JavaScript writes them, keys in the order of UTF-16) is Python, and takes ten times as
    long."""
    left = [stored]
    while left:
        item = left.pop()
        kind = type(item)
        if kind is str:
            simple = True
        elif kind is dict:
            simple = all([type(name) is str and name.isascii() and name[:1] != "$" for name in item])  # noqa: C419  # a generator takes longer than the names
            left += item.values()
        elif kind is list:
            simple = True
            left += item
        elif kind is float:
            simple = 1e-4 <= abs(item) < 1e16 and not item.is_integer()  # Python and JavaScript write others differently
        else:
            simple = item is None or kind is bool or (kind is int and -INTEGER_MAX <= item <= INTEGER_MAX)
        if not simple:
            return False
    return True


def fingerprint(stored: JSON) -> str:
    """The digest of the canonical form: BLAKE2b-256 in hex, under a prefix of its own. Whether a part of it is declared secret does not count, so that a
    run may be recovered by code that has declared it since."""
    return fingerprint_of_simple(stored) if _is_simple(stored) else digest_bytes(_FINGERPRINT, canonical(revealed(stored)))


def fingerprint_of_simple(stored: JSON) -> str:
    """`fingerprint` of what is known to hold nothing but objects with keys in ASCII, texts, booleans, None and integers up to INTEGER_MAX, and no object of one
    key that begins with a dollar: sorted keys are all that its canonical form asks for."""
    digest = _FINGERPRINTED.copy()
    digest.update(prefixed(_SORTED(stored).encode()))
    return digest.hexdigest()


def type_title(type_: Any) -> str:
    """A type's name for people."""
    if isinstance(type_, type) and not isinstance(type_, GenericAlias):
        return type_.__name__
    if Redacted in getattr(type_, "__metadata__", ()):
        return f"Secret[{type_title(type_.__origin__)}]"
    return str(type_).replace("typing.", "")


def _tuple_of(type_: Any) -> Any:
    return GenericAlias(tuple, (type_,))


class _Unsealable(Exception):
    def __init__(self, found: Difference) -> None:
        super().__init__(found.problem)
        self.found = found


def _seal(tree: Any, path: str, depth: int = 0) -> JSON:
    """The tree with tagged integers and escaped look-alikes. Refuses what is not JSON."""
    kind = type(tree)
    if kind is str:
        if not tree.isascii():
            tree.encode()  # a lone surrogate has no UTF-8 form: UnicodeEncodeError is a ValueError
        return tree
    if kind is int:
        return tree if -INTEGER_MAX <= tree <= INTEGER_MAX else {_INT: str(tree)}
    if kind is float:
        if not math.isfinite(tree):
            raise _Unsealable(
                Difference(path, f"{tree} is not a finite number", "Use None, or a string, for what is not a number.")
            )
        return tree
    if tree is None or kind is bool:
        return tree
    if depth >= DEPTH_MAX:
        raise _Unsealable(Difference(path, f"it is nested deeper than {DEPTH_MAX} levels", "Flatten it."))
    if kind is list:
        return [item if _is_atom(item) else _seal(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(tree)]
    if kind is Veiled:  # read back already, and given again
        return Veiled({MARKED: _seal(tree[MARKED], path, depth + 1)})
    if kind is Tagged:
        return stored_tag(tree, _seal(tree.value, path, depth + 1))
    if kind is not dict:
        raise _Unsealable(
            Difference(path, f"{kind.__name__} is not a JSON type", "Use JSON types, dataclasses or pydantic models.")
        )
    if len(tree) == 1 and MARK in tree:
        return Veiled({MARKED: _seal(tree[MARK], path, depth + 1)})
    sealed = {
        key if type(key) is str and key.isascii() else _seal_key(key, path): (
            item if _is_atom(item) else _seal(item, f"{path}.{key}", depth + 1)
        )
        for key, item in tree.items()
    }
    if len(sealed) == 1 and next(iter(sealed)).startswith("$"):
        return {ESCAPED: sealed}
    return sealed


def _is_atom(item: Any) -> bool:
    """Whether `_seal` gives the very same for what needs no path to be told. Most parts of most values."""
    kind = type(item)
    if kind is str:
        return bool(item.isascii())
    return bool(-INTEGER_MAX <= item <= INTEGER_MAX) if kind is int else item is None or kind is bool


def _seal_key(key: Any, path: str) -> str:
    if type(key) is not str:
        raise _Unsealable(Difference(path, f"its key is {of_type(key)}", "Use strings as keys, or declare the keys' type."))
    key.encode()
    return key


def _unseal(stored: JSON, models: Models) -> Any:
    """The JSON that pydantic reads: integers, a user's objects and secrets as they were, and versioned models up to date."""
    if isinstance(stored, list):
        return [_unseal(item, models) for item in stored]
    if not isinstance(stored, dict):
        return stored
    if len(stored) == 1:
        ((tag, inner),) = stored.items()
        if tag == _INT and isinstance(inner, str):
            return int(inner)
        if tag == ESCAPED and isinstance(inner, dict):
            return {key: _unseal(item, models) for key, item in inner.items()}
        if tag == MARKED:
            return _unseal(inner, models)
        if tag == VERSIONED:
            return models.current(_unseal(inner, models))
        if tag.startswith("$"):
            raise ValueError(f"unknown tag {tag!r}")
    return {key: _unseal(item, models) for key, item in stored.items()}


def _compared(value: Any, copy: Any, root: str) -> Difference | None:
    """Their difference. Values whose `==` fails, or has no truth (an array's), cannot be shown to come back."""
    try:
        return difference(value, copy, root)
    except Exception as error:  # noqa: BLE001  # __eq__ and __bool__ are the user's code
        problem = f"it cannot be compared with its copy: {type(error).__name__}"
        return Difference(
            root, problem, "Convert it to JSON types, lists for arrays, or give its type an __eq__ that returns a bool."
        )


def _refused(where: str, root: str, found: Difference) -> ValueNotStorable:
    return ValueNotStorable(where=where, path=found.path or root, problem=found.problem, advice=found.advice)


def _explained(error: ValidationError, root: str) -> tuple[str, str]:
    """(path, problem) of the first complaint, without the value and without words that may quote it."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"][1:])
    return path[:200], "its validator refuses it" if first["type"] in _OWN_MESSAGES else first["msg"]


_SORTED: Final = written_by(json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True))
