"""The documentation covers what there is, is current where it is made from code, and links to what exists."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import generate
from recovery import crashpoints
from recovery import errors as public_errors
from recovery.checkpoint import errors as checkpoint_errors
from recovery.checkpoint import refusals
from recovery.core import errors
from tests.architecture.source import ROOT, relative

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

WORDS = """run journal entry decision intent attempt observation effect environment scope|idempotency key|fingerprint receipt contract|key window|
not_after|settle window|quiet_at probe answer verdict outcome lease epoch|late evidence|close tombstone compensation|heuristic outcome|
in doubt|fence replay budget append decide perform observe weigh judge adopt settle compensate claim renew release recover"""


def vocabulary() -> list[str]:
    """Phrases stand between bars; single words between spaces."""
    phrases = {"idempotency key", "key window", "settle window", "late evidence", "heuristic outcome", "in doubt"}
    parts = [part.strip() for part in WORDS.replace("\n", "").split("|")]
    return [word for part in parts for word in ([part] if part in phrases else part.split())]


def reference() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference").glob("*.md")))


def error_names() -> list[str]:
    return [
        name
        for module in (public_errors, checkpoint_errors, refusals)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module.__name__
    ]


def missing(names: list[str], text: str) -> list[str]:
    return [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]


@pytest.mark.parametrize("name", generate.PAGES)
def test_made_pages_are_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == generate.render(name), "run `make docs`"


def test_made_pages_say_something_in_every_cell() -> None:
    """A status, a field or an answer without a comment in the code would leave a hole in the reference."""
    holes = [
        f"{name}: {line}" for name in generate.PAGES for line in generate.render(name).splitlines() if re.search(r"\|\s+\|", line)
    ]
    assert holes == []


def test_check_fails_on_a_stale_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 1
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    assert generate.main() == 0
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 0
    (tmp_path / "reference/errors.md").write_text("edited")
    capsys.readouterr()
    assert generate.main() == 1
    assert capsys.readouterr().out == "out of date: docs/reference/errors.md\n"


def test_every_error_is_documented() -> None:
    assert len(error_names()) > 20
    assert missing(error_names(), reference()) == []


def test_every_exit_code_is_documented() -> None:
    page = (DOCS / "reference/exit-codes.md").read_text(encoding="utf-8")
    assert [code for code in errors.ExitCode if f"| {int(code)} | `{code.name}` |" not in page] == []


def test_every_crash_point_is_documented() -> None:
    assert missing(list(crashpoints.POINTS), reference()) == []


def test_every_word_is_documented() -> None:
    page = (DOCS / "reference/words.md").read_text(encoding="utf-8")
    assert missing(vocabulary(), page) == []


def test_a_missing_name_is_seen() -> None:
    assert missing(["send.after", "send"], "`send.before`, resend.after, send-after") == ["send.after"]
    assert missing(["FencedOut"], "FencedOutside") == ["FencedOut"]


def commands() -> list[str]:
    """`recover` and each of its commands, asked from the program's own tree; none while there is no program."""
    if importlib.util.find_spec("recovery.cli") is None:
        return []
    import typer.main

    from recovery import cli

    tree = typer.main.get_command(cli.app)
    return [f"recover {name}" for name in getattr(tree, "commands", {})]


def test_every_command_is_documented() -> None:
    assert missing(commands(), reference()) == []


def links(text: str) -> Iterator[str]:
    """Targets of Markdown links outside code."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    yield from re.findall(r"\]\(([^)\s]+)\)", prose)


def anchors(text: str) -> set[str]:
    """Heading anchors as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    found = []
    for link in links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
            found.append(link)
    return found


def test_links_resolve() -> None:
    assert {relative(page): links for page in PAGES if (links := broken(page))} == {}


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, here\n[a](#a-title-here) [b](#nowhere) [c](gone.md) [d](page.md) `[e](code.md)` [f](https://example.com)\n"
    )
    assert broken(page) == ["#nowhere", "gone.md"]


def test_every_page_can_be_reached() -> None:
    """From the index, by following links: a page nobody links to is not read."""
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = (link.partition("#")[0] for link in links(page.read_text(encoding="utf-8")) if not re.match(r"[a-z]+:", link))
        waiting += [path for target in targets if target.endswith(".md") and (path := (page.parent / target).resolve()).exists()]
    assert sorted(set(DOCS.rglob("*.md")) - reached) == []


@pytest.mark.parametrize("promise", [*(f"A{n}" for n in range(1, 7)), *(f"I{n}" for n in range(1, 11))])
def test_guarantees_name_every_assumption_and_promise(promise: str) -> None:
    page = (DOCS / "explanation/guarantees.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {promise} \w", page, flags=re.MULTILINE)


def test_the_shell_script_and_makefile_parse() -> None:
    subprocess.run(["bash", "-n", ".ci/run"], cwd=ROOT, check=True)
    listed = subprocess.run(["make", "--no-print-directory", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert {line.split()[1] for line in listed.splitlines()} >= {"demo", "test", "lint", "format", "docs", "clean"}
