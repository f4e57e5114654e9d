"""What the documentation shows is what happens: every page's commands, files and Python, run in order."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs import runner
from tests.warm import WarmParent

FOR_PEOPLE = {"make", ".ci/run", ".venv/bin/python", ".venv/bin/pre-commit", "python3", "python", "source", "psql"}
"""What `sh` blocks may call: what only makes sense in a checkout, or on a server of the reader's own."""


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmParent]:
    with WarmParent(runner.surroundings() | {"PATH": os.environ["PATH"]}) as parent:
        yield parent


def named(path: Path) -> str:
    return str(path.relative_to(runner.ROOT))


@pytest.mark.parametrize("path", [path for path in runner.PAGES if runner.runnable(path)], ids=named)
def test_a_page_says_what_happens(path: Path, request: pytest.FixtureRequest, warm: WarmParent) -> None:
    stand_ins = runner.stand_ins(path, lambda: str(request.getfixturevalue("empty_postgres_url")))
    _, problems = runner.run_page(path, stand_ins, warm=warm)
    assert not problems, "\n\n".join([*problems, "Where the program is right, run `make docs`."])


def test_nothing_that_looks_like_a_command_goes_unrun() -> None:
    for path in runner.PAGES:
        for block in runner.blocks(path.read_text(encoding="utf-8")):
            place = f"{named(path)}, line {block.first}"
            assert block.language in {"console", "python", "toml", "yaml", "text", "sh"}, f"{place}: ```{block.language}"
            assert block.language == "console" or "$ " not in block.text, f"{place}: a command outside of ```console"
            if block.language == "sh":
                words = {re.split(r"\s", line)[0] for line in block.lines if line and not line.startswith("#")}
                assert words <= FOR_PEOPLE, f"{place}: {words - FOR_PEOPLE}"


def test_the_index_names_every_how_to() -> None:
    index = (runner.ROOT / "docs/index.md").read_text(encoding="utf-8")
    pages = sorted((runner.ROOT / "docs/how-to").glob("*.md"))
    assert [path.name for path in pages if f"(how-to/{path.name})" not in index] == []


Page = Callable[[str], Path]


@pytest.fixture
def page(tmp_path: Path) -> Page:
    def write(text: str) -> Path:
        path = tmp_path / "page.md"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_drift_is_seen_and_rewritten(page: Page) -> None:
    path = page("# A page\n\n```console\n$ echo one\ntwo\n$ (exit 3)\n$ echo $?\n3\n```\n\nThe end.\n")
    rewritten, problems = runner.run_page(path, {})
    assert len(problems) == 1
    assert "-two\n+one" in problems[0]
    assert rewritten == "# A page\n\n```console\n$ echo one\none\n$ (exit 3)\n$ echo $?\n3\n```\n\nThe end.\n"
    path.write_text(rewritten)
    assert runner.run_page(path, {}) == (rewritten, [])


def test_afresh_all_output_is_of_one_run(page: Page) -> None:
    text = "```console\n$ cat /proc/sys/kernel/random/uuid | tee it\n0278939e-b518-86ed-8d74-8ee3e597119a\n$ cat it\n01353641-d843-86e1-9f8b-d9ed3a82f3d7\n```\n"
    path = page(text)
    assert runner.run_page(path, {}) == (text, [])
    rewritten, problems = runner.run_page(path, {}, afresh=True)
    first, second = (line for line in rewritten.splitlines() if line.count("-") == 4)
    assert (first == second, first in text, problems) == (True, False, [])


def test_output_that_is_missing_or_too_much_is_seen(page: Page) -> None:
    _, problems = runner.run_page(page("```console\n$ echo one\n$ true\ntwo\n```\n"), {})
    assert len(problems) == 2


def test_files_are_written_shared_and_run(page: Page, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text('```python title="shop/__init__.py"\nprice = 3\n```\n')
    text = "<!-- files of other.md -->\n\n```python\nimport shop\nassert shop.price == 3\n```\n"
    assert runner.run_page(page(text), {})[1] == []
    assert len(runner.run_page(page(text.replace("== 3", "== 4")), {})[1]) == 1


def test_a_hidden_block_is_run(page: Page) -> None:
    text = "<!--\n```console\n$ price=3\n```\n-->\n\n```console\n$ echo $price\n3\n```\n"
    assert runner.run_page(page(text), {}) == (text, [])


def test_only_what_varies_may_differ() -> None:
    first = "process 12 on vm at 2026-11-29 19:04:58 UTC  +1.5 ms head d162bb5bd794, http://127.0.0.1:8080, 6 entries"
    again = "process 7 on ci-3 at 2027-01-01 00:00:00 UTC +12 s head 0123456789ab, http://127.0.0.1:41234, 6 entries"
    assert runner.compared(first) == runner.compared(again)
    assert runner.compared(first) != runner.compared(again.replace("6 entries", "7 entries"))


def test_what_was_killed_is_told_as_a_terminal_tells_it(page: Page) -> None:
    command = f"{sys.executable} -c 'import os; os.kill(os.getpid(), 9)'"
    text = f"```console\n$ {command}\nKilled\n$ echo $?\n137\n```\n"
    assert runner.run_page(page(text), {}) == (text, [])


def test_what_a_page_started_ends_with_it(page: Page, tmp_path: Path) -> None:
    runner.run_page(page(f"```console\n$ sleep 600 & echo $! > {tmp_path}/pid\n```\n"), {})
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    while status.exists() and " Z " not in status.read_text():  # the signal has been sent; the test's timeout bounds it
        pass
