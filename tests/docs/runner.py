"""Runs the documentation: every command, file and piece of Python on a page, in order, in a directory of its own.

Owns what a fenced block means and what may differ between two runs of it. Knows nothing of what the pages are about. Invariant: a page is
never compared with less than the whole output of its commands; only the things named in `VARIES` may differ.

    ```console               lines that begin with "$ " are typed into one bash per page; what follows is their output, stderr included
    ```python title="x.py"   any block with a title is written to that file first
    ```python                anything else in Python is run and must succeed
    ```sh                    for people only; tests name the few commands that may stand there

A block inside an HTML comment is run and not shown: for waiting and setting up. `<!-- files of PAGE -->` writes the titled files of
another page. PORTS and POSTGRESQL stand on pages for what each run must have for itself.

In tests, `recover` and `python` are forked from a warm parent (tests/warm) unless they go to the background; `--rewrite` starts fresh interpreters.

`python -m tests.docs.runner --rewrite [PAGE...]` puts real output in place of what no longer holds; `--afresh` in place of all, so that the
keys and times on a page are those of one run.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from tests.warm import WarmParent

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PORTS = ("8077", "8080")
POSTGRESQL = "postgresql://journal@db.internal/journal"

VARIES = [
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?", "TIME"),
    (r"\d{4}-\d\d-\d\d", "DATE"),
    (r"\b\d\d:\d\d:\d\d\.\d+", "CLOCK"),
    (r"(\+|attempt \d+ after )[\d.]+ (us|ms|s|min)\b", r"\1TIME"),
    (r"\b(in [\d.]+ (ms|s|min|h)( \d+ (s|min))?|[\d.]+ (us|ms|s|min) ago)$", "FROM NOW"),
    (r"^ *[\d.]+ (us|ms|s|min)\b", "AGE"),
    (r"\b1\d{9}\.(\d+|n)\b", r"INCARNATION.\1"),  # whole seconds at which a database was declared restored
    (r"\b\d+\.\d\d s$|\b\d+\.\d\ds\b", "SECONDS"),
    (r"\bprocess \d+( on [\w.-]+)?", "process PID"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "KEY"),  # derived from the database's random namespace
    (r"\b[0-9a-f]{64}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{12}\b", "DIGEST"),
    (r"port \d+|127\.0\.0\.1:\d+", "PORT"),
    (r"[ \t]{2,}|[ \t]+$", " "),  # columns are as wide as what is in them
]
"""What differs between two runs of the same command, and the word it is compared as."""

_FENCE = re.compile(r"^(`{3,})(\w*)\s*(.*)$")
_FILES = re.compile(r"^<!-- files of (\S+) -->$")
_KILLED = re.compile(r"^bash: line \d+: +\d+ Killed .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `first`: the index of its first line in the page."""

    language: str
    title: str
    first: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def runs(self) -> bool:
        return bool(self.title) or self.language in {"console", "python"}


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, those inside comments included."""
    fence, language, title, first = "", "", "", 0
    lines = page.splitlines()
    for index, line in enumerate(lines):
        if fence:
            if line == fence:
                yield Block(language, title, first, tuple(lines[first:index]))
                fence = ""
        elif match := _FENCE.match(line):
            fence, language, info = match.groups()
            named = re.search(r'title="([^"]+)"', info)
            title, first = named[1] if named else "", index + 1


def exchanges(block: Block) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A console block's commands, each with the output that the page shows. A trailing backslash continues a command."""
    command: list[str] = []
    shown: list[str] = []
    for line in block.lines:
        if command and command[-1].endswith("\\") and not shown:
            command.append(line)
        elif line.startswith("$ "):
            if command:
                yield "\n".join(command), tuple(shown)
            command, shown = [line[2:]], []
        elif command:
            shown.append(line)
        else:
            raise ValueError(f"a console block begins with output: {line}")
    if command:
        yield "\n".join(command), tuple(shown)


def compared(text: str) -> list[str]:
    """The lines of an output as they are compared."""
    for pattern, word in VARIES:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return [line.strip() for line in text.strip("\n").splitlines()]


def surroundings() -> dict[str, str]:
    """The environment of a page, but for its path and home."""
    kept = {name: os.environ[name] for name in ("TMPDIR", "XDG_RUNTIME_DIR") if name in os.environ}
    return kept | {"TERM": "dumb", "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


class Shell:
    """One bash in a directory. What it started ends with it, by its process group."""

    def __init__(self, directory: Path, stand_ins: Mapping[str, str], warm: WarmParent | None = None) -> None:
        places = [str(Path(sys.executable).parent), os.environ["PATH"]]
        path = os.pathsep.join(places if warm is None else [str(warm.stand_ins()), *places])
        self.directory = directory
        self._stand_ins = stand_ins
        self._warm = warm
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=surroundings() | {"PATH": path, "HOME": str(directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()

    def write(self, block: Block) -> None:
        path = self.directory / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._real(block.text), encoding="utf-8")

    def type(self, command: str) -> str:
        """The command's output, with stand-ins in place of what is this run's own."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        mark = f"end of {id(command)}"
        # Braces keep what it changes in this shell, without letting it read what we type next.
        self._bash.stdin.write(
            f"{self._asks(command)}{{ {self._real(command)}\n}} </dev/null\nstatus=$?; echo; echo '{mark}'; (exit $status)\n"
        )
        self._bash.stdin.flush()
        heard = []
        while (line := self._bash.stdout.readline()) != f"{mark}\n":
            if not line:
                raise AssertionError(f"bash ended in the middle of: {command}")
            heard.append(line)
        return self._shown("".join(heard))

    def _asks(self, command: str) -> str:
        """Says whom `recover` and `python` ask. What goes to the background must be the shell's own: it is signalled and waited for there."""
        if self._warm is None:
            return ""
        door = "" if command.rstrip().endswith("&") else self._warm.door
        return f"status=$?; export WARM_PARENT={door}; (exit $status)\n"

    def _real(self, text: str) -> str:
        for name, own in self._stand_ins.items():
            text = text.replace(name, own)
        return text

    def _shown(self, text: str) -> str:
        for name, own in self._stand_ins.items():
            text = text.replace(own, name)
        return _KILLED.sub("Killed", text.replace(f"{self.directory}/", "").replace("\r", "")).strip("\n")


def run_page(
    path: Path, stand_ins: Mapping[str, str], *, afresh: bool = False, warm: WarmParent | None = None
) -> tuple[str, list[str]]:
    """Run a page. Returns it with its real output in place of what differs (afresh: of all), and what differs from what it says.

    warm: what `recover` and `python` are asked of; else each is a fresh interpreter."""
    page = path.read_text(encoding="utf-8")
    lines, problems, moved = page.splitlines(), [], 0
    with tempfile.TemporaryDirectory(prefix="docs-") as directory, Shell(Path(directory), stand_ins, warm) as shell:
        for line in lines:
            if match := _FILES.match(line):
                other = (path.parent / match[1]).read_text(encoding="utf-8")
                for block in blocks(other):
                    if block.title:
                        shell.write(block)
        for block in list(blocks(page)):
            if block.title:
                shell.write(block)
            elif block.language == "console":
                new, differs = _typed(shell, block, path, afresh=afresh)
                problems += differs
                lines[block.first + moved : block.first + moved + len(block.lines)] = new
                moved += len(new) - len(block.lines)
            elif block.language == "python":
                problems += _ran(shell, block, path)
    return "".join(f"{line}\n" for line in lines), problems


def _typed(shell: Shell, block: Block, path: Path, *, afresh: bool) -> tuple[list[str], list[str]]:
    new: list[str] = []
    problems = []
    for command, shown in exchanges(block):
        output = shell.type(command)
        new += f"$ {command}".split("\n")
        before, now = compared("\n".join(shown)), compared(output)
        new += shown if before == now and not afresh else output.splitlines()
        if before == now:
            continue
        diff = "\n".join(difflib.unified_diff(before, now, "the page", "the program", lineterm=""))
        problems.append(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}, line {block.first}: $ {command}\n{diff}")
    return new, problems


def _ran(shell: Shell, block: Block, path: Path) -> list[str]:
    (shell.directory / "block.py").write_text(block.text, encoding="utf-8")
    output = shell.type("python -W error block.py")
    failed = shell.type("echo $?") != "0"
    return [f"{path.name}, line {block.first}: this Python fails:\n{output}"] if failed else []


def runnable(path: Path) -> bool:
    return any(block.runs for block in blocks(path.read_text(encoding="utf-8")))


def stand_ins(page: Path, database: Callable[[], str]) -> dict[str, str]:
    """What a page must have for itself: free ports, and a database on a PostgreSQL server if it speaks of one."""
    own = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    if POSTGRESQL in page.read_text(encoding="utf-8"):
        server, _, socket_directory = database().partition("host=")
        own_url = f"{server}host={quote(socket_directory, safe='')}"  # as it is shown again
        own |= {f"{POSTGRESQL}?": f"{own_url}&", POSTGRESQL: own_url}  # which has options of its own already
    return own


def free_ports(wanted: int) -> list[int]:
    """Ports that a page's own services may take later. Not those that the system gives away by itself: any connection might get one meanwhile."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 1000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == wanted:
            return found
    raise AssertionError("this machine has no free port")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the documentation's commands.")
    parser.add_argument("--rewrite", action="store_true", help="put real output in place of what no longer holds")
    parser.add_argument("--afresh", action="store_true", help="put real output in place of all of it")
    parser.add_argument("pages", nargs="*", type=Path)
    arguments = parser.parse_args()
    wrong = 0
    with ExitStack() as stack:

        def database() -> str:
            from tests.postgres import serving

            return stack.enter_context(serving()).url("postgres")

        for path in [page.resolve() for page in arguments.pages] or PAGES:
            if not runnable(path):
                continue
            page, problems = run_page(path, stand_ins(path, database), afresh=arguments.afresh)
            if (arguments.rewrite or arguments.afresh) and page != path.read_text(encoding="utf-8"):
                path.write_text(page, encoding="utf-8")
                sys.stdout.write(f"rewritten: {path.relative_to(ROOT)}\n")
            for problem in problems:
                sys.stdout.write(f"{problem}\n")
            wrong += len(problems)
    return 1 if wrong and not (arguments.rewrite or arguments.afresh) else 0


if __name__ == "__main__":
    sys.exit(main())
