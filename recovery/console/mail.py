"""Mail in a timeline: what a run waits for, what came, and what it publishes.

Owns their wording. Knows nothing of where the entries came from.
"""

from __future__ import annotations

from typing import Any

from recovery.console import words
from recovery.console.line import Line
from recovery.core import entries
from recovery.core.entries import Decision
from recovery.core.ids import branch_of
from recovery.core.instants import iso
from recovery.core.mail import APPROVED_UNTIL


def line(entry: Decision) -> Line:
    """Of one of the forms that have to do with what is said from and to outside."""
    value = entry.value
    match entry.form:
        case entries.WAIT:
            return Line("waits", entry.at_us, entry.step, _waits(value), tuple(_details(value, entry.fingerprint)))
        case entries.ANSWER:
            until_us = value.get(APPROVED_UNTIL)
            details = () if until_us is None else (f"the approved call may be sent until {words.exact(until_us)}",)
            text = f"{words.value(value['value'])}, said by {words.bounded(value['by'])} at {words.exact(value['at_us'])}"
            return Line("answered", entry.at_us, branch_of(entry.step), text, details)
        case entries.LAPSED:
            return Line("lapsed", entry.at_us, branch_of(entry.step), f"nobody answered before {iso(value)}")
        case entries.UNFIT:
            said = f"what {words.bounded(value['by'])} said answers nothing"
            return Line("unfit", entry.at_us, branch_of(entry.step), said, (words.bounded(value["problem"]),))
        case _:
            return Line("published", entry.at_us, "", f"{words.bounded(value['name'])} is {words.value(value['value'])}")


def _waits(value: Any) -> str:
    what = "the next message of" if value["queue"] else "the answer to"
    until = "" if value["until_us"] is None else f", until {words.exact(value['until_us'])}"
    by = f", by {words.bounded(', '.join(value['by']))}" if value.get("by") else ""
    return f"for {what} {words.bounded(value['name'])}{by}{until}"


def _details(value: Any, fingerprint: str) -> list[str]:
    about = value.get("about")
    if about is None:
        return []
    return [f"about {words.bounded(about['effect'])} {words.value(about['arguments'])}, fingerprint {words.digest(fingerprint)}"]
