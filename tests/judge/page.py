"""The page: the judge's results as the tables of `docs/explanation/comparison.md`, and as the JSON beside it.

Owns how results are written. Invariant: the tables are a function of the JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.judge.cases import CASES, OFFERS
from tests.judge.verdicts import Cell

_EXPLANATION: Final = Path(__file__).parents[2] / "docs" / "explanation"
PAGE: Final = _EXPLANATION / "comparison.md"
RESULTS: Final = _EXPLANATION / "judge.json"
BEGIN: Final = "<!-- judge: begin -->"
END: Final = "<!-- judge: end -->"
_OFFERED: Final = {
    "keys": "A service that honours keys",
    "look-up": "A service without keys, with a look-up",
    "neither": "A service with neither",
}
_BAD: Final = frozenset({Cell.TWICE, Cell.WRONG, Cell.ENDLESS})


def tables(results: dict[str, Any]) -> str:
    """One table for each offer of the service; what broke the promise stands out."""
    programs: dict[str, str] = results["programs"]
    parts = []
    for offer in OFFERS:
        cases = [case for case in CASES if offer in case.offers]
        head = ["", *(f"{name} {version}".strip() for name, version in programs.items())]
        lines = [_line(head), _line(["---"] * len(head))]
        lines += [_line([case.name, *(_cell(results, name, case.name, offer) for name in programs)]) for case in cases]
        parts.append(f"### {_OFFERED[offer]}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _cell(results: dict[str, Any], program: str, case: str, offer: str) -> str:
    found = [shown for shown in results["shown"] if (shown["program"], shown["case"], shown["offer"]) == (program, case, offer)]
    if not found:
        return "not played"
    cell = Cell(found[0]["cell"])
    return f"**{cell}**" if cell in _BAD else str(cell)


def with_tables(page: str, results: dict[str, Any]) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables(results)}\n\n{END}{rest.partition(END)[2]}"


def rewrite(results: dict[str, Any]) -> None:
    """Both, the JSON and the page."""
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
