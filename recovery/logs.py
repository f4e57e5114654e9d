"""Logs: a thin layer over structlog and the standard library's logging.

Owns names (`recovery.*`), redaction and the silence of a library nobody has configured. Must not know what it logs about: events
are diagnostics, never the record; the journal is. Invariant: nothing under a secret's name is written, at any depth, and a
switched-off call costs one level check and no import (structlog is imported by the first event that is written).

A program that configures `logging` sees events on the `recovery` logger; one that configures structlog sees them there.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from functools import cache
from typing import Any, Final, TextIO

from recovery.core.showing import is_secret

ROOT: Final = "recovery"
REDACTED: Final = "[redacted]"
_SECRET: Final = re.compile(
    r"passw(or)?d|passphrase|secret|token|authorization|cookie|credential|api[_-]?key|private[_-]?key", re.IGNORECASE
)
_URL_PASSWORD: Final = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")

logging.getLogger(ROOT).addHandler(logging.NullHandler())


def redact(value: Any) -> Any:
    """A copy of a JSON-like value without secrets: what was declared secret, whole values under a secret's name, passwords inside URLs."""
    if isinstance(value, str):
        return _URL_PASSWORD.sub(rf"\1{REDACTED}@", value) if "://" in value else value
    if is_secret(value):
        return REDACTED
    if isinstance(value, Mapping):
        return {key: REDACTED if _secret(key) else redact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    return value


def redacting(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """`redact` as a structlog processor: for programs that configure structlog themselves."""
    return {key: REDACTED if _secret(key) else redact(value) for key, value in event.items()}


def _secret(key: object) -> bool:
    return isinstance(key, str) and _SECRET.search(key) is not None


class Log:
    """One named logger. `event` is a fixed phrase; what varies goes into fields."""

    __slots__ = ("_stdlib",)

    def __init__(self, name: str) -> None:
        full = name if f"{name}.".startswith(f"{ROOT}.") else f"{ROOT}.{name}"
        self._stdlib = logging.getLogger(full.rstrip("."))

    def debug(self, event: str, /, **fields: Any) -> None:
        self.write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self.write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self.write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self.write(logging.ERROR, event, fields)

    def write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        """At one of the levels of `logging`."""
        if self._stdlib.isEnabledFor(level) and _heard(self._stdlib):
            _structured(self._stdlib).log(level, event, **fields)


def _heard(stdlib: logging.Logger) -> bool:
    """Whether anybody would see it: a program that has set up neither logging nor structlog does not pay for the import."""
    at: logging.Logger | None = stdlib
    while at is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return "structlog" in sys.modules


@cache
def logger(name: str = "") -> Log:
    """The logger `recovery.<name>`; a module's own name does, too. Cheap; keep it at module level."""
    return Log(name)


def configure(*, level: int = logging.INFO, json: bool = False, stream: TextIO | None = None) -> None:
    """Write events to `stream` (standard error), one line each: for commands and workers. A library never calls this.

    Calling it again replaces what it set before.
    """
    root = logging.getLogger(ROOT)
    for old in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(old)
    root.addHandler(_Handler(stream or sys.stderr, json=json))
    root.setLevel(level)
    root.propagate = False


class _Handler(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO, *, json: bool) -> None:
        super().__init__(stream)
        self._json = json

    def format(self, record: logging.LogRecord) -> str:
        import structlog

        fields = getattr(record, "recovery", {"event": record.getMessage()})
        line = {"level": record.levelname.lower(), "logger": record.name, **fields}
        if self._json:
            return str(structlog.processors.JSONRenderer(default=str)(None, "", line))
        event = line.pop("event")
        return f"{line.pop('level')}: {event} {_key_values(line)}"


def _structured(stdlib: logging.Logger) -> Any:
    """A structlog logger over `stdlib`. The program's own configuration of structlog is used where there is one, redacted first."""
    import structlog

    if structlog.is_configured():
        processors = [redacting, *structlog.get_config()["processors"]]
        return structlog.wrap_logger(None, processors=processors, logger_factory_args=(stdlib.name,)).bind(logger=stdlib.name)
    processors = [structlog.contextvars.merge_contextvars, redacting, _to_stdlib]
    return structlog.wrap_logger(stdlib, processors=processors, wrapper_class=structlog.stdlib.BoundLogger)


def _to_stdlib(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """The last processor: a readable message for any handler, the fields as `record.recovery` for those that want them."""
    fields = dict(event)
    message = str(event.pop("event"))
    return (f"{message} {_key_values(event)}".rstrip(),), {"extra": {"recovery": fields}}


def _key_values(fields: Mapping[str, Any]) -> str:
    return " ".join(
        f"{key}={value!r}" if isinstance(value, str) and " " in value else f"{key}={value}" for key, value in fields.items()
    )
