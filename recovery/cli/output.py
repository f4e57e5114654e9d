"""Output: one document for programs, or a report for people.

Owns the choice between them and the streams. Invariant: with `as_json` exactly one JSON document reaches stdout.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TextIO

from recovery.console import words
from recovery.core.showing import shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recovery.console.paper import Paper

SCHEMA_VERSION: Final = 1
"""Raised whenever a program that reads the documents could misunderstand a newer one."""


class Unwritten(Exception):
    """Standard output did not take the answer: a full disk behind it."""


@dataclass(slots=True)
class Output:
    """Where a command answers. `debug`: tracebacks are wanted. `stream`: the process's own standard output, whatever an app puts there."""

    as_json: bool = False
    debug: bool = field(default_factory=lambda: os.environ.get("RECOVERY_TRACEBACK", "") not in {"", "0"})
    stream: TextIO = field(default_factory=lambda: sys.stdout)

    def answer(
        self, document: Callable[[], Mapping[str, Any]], report: Callable[[Paper], RenderableType], *, on_one_line: bool = False
    ) -> None:
        """Print the document or the report; only the one that is printed is made."""
        if self.as_json:
            self._document(document(), indent=None if on_one_line else 2)
        else:
            paper = self.paper()
            with _writing():
                paper.print(report(paper))

    def verbatim(self, text: str) -> None:
        """Print text as it is: for programs, and for files."""
        with _writing():
            self.stream.write(text)
            self.stream.flush()

    def paper(self) -> Paper:
        from recovery.console.paper import Paper

        return Paper(self.stream)

    def say(self, sentence: str) -> None:
        """Tell the person something that is not the answer."""
        with suppress(OSError):  # nobody hears it; the exit code still says how it ended
            sys.stderr.write(f"{words.safe(sentence)}\n")
            sys.stderr.flush()

    def failed(self, kind: str, sentence: str, code: int, fields: Mapping[str, Any]) -> None:
        """The command could not answer."""
        self.say(sentence)
        if self.as_json:
            self._document({"error": {"type": kind, "message": sentence, "exit_code": code, "fields": dict(fields)}})

    def _document(self, body: Mapping[str, Any], indent: int | None = 2) -> None:
        text = json.dumps(shown({"schema_version": SCHEMA_VERSION, **body}), ensure_ascii=False, indent=indent, default=str)
        with _writing():
            self.stream.write(f"{text}\n")
            self.stream.flush()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritten(error.strerror or str(error)) from error
