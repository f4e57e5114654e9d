"""`recover contracts`: what known providers document, and what follows from it.

Owns the two commands and their documents. Invariant: they need no database and no app, and a number comes with its source.
"""

from __future__ import annotations

from typing import Any

from recovery.catalogue import Entry, consequences, entries, entry
from recovery.catalogue.consequences import resend_until_us
from recovery.cli.output import Output
from recovery.core.errors import ExitCode


def listed(output: Output) -> ExitCode:
    """All entries."""
    found = entries()
    from recovery.console.contracts import shelf

    output.answer(lambda: {"contracts": [_line(each) for each in found]}, lambda paper: shelf(paper, found))
    return ExitCode.SETTLED


def shown(output: Output, name: str) -> ExitCode:
    """One entry. Raises InvalidName."""
    found = entry(name)
    from recovery.console.contracts import provider

    output.answer(lambda: _document(found), lambda paper: provider(paper, found))
    return ExitCode.SETTLED


def _line(each: Entry) -> dict[str, Any]:
    contract = each.contract()
    return {
        "name": each.name,
        "title": each.title,
        "class": each.kind.value,
        "version": each.version,
        "window_us": contract.window_us,
        "window_status": None if (window := each.promise("window")) is None else each.status(window).value,
        "resend_until_us": resend_until_us(contract),
    }


def _document(each: Entry) -> dict[str, Any]:
    contract = each.contract()
    return {
        "provider": each.model_dump(mode="json", by_alias=True),
        "contract": contract.to_json(),
        "digest": contract.digest,
        "measured": False,
        "statuses": {promise.field: each.status(promise).value for promise in each.promises},
        "consequences": [
            {
                "when": told.when,
                "action": told.action.value,
                "row": told.row.name,
                "reason": told.row.reason.value,
                "paragraph": told.row.paragraph,
                "assumptions": list(told.assumptions),
                "next_look_us": told.next_look_us,
            }
            for told in consequences(contract)
        ],
    }
