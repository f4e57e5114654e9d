"""Pages about reasons to park, at a terminal.

Owns how they are shown. Invariant: a terminal and a pipe get the words of the documentation's page.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.text import Text

from recovery.console.paper import Paper, facts
from recovery.core.reasons import PARKED, Parked
from recovery.operators.parking import markdown, page_of


def index() -> RenderableType:
    """One line for each reason."""
    told = facts((reason.value, page_of(reason).title) for reason in PARKED)
    return Group(told, Text("What to do about one: `recover parking REASON`; which runs have one: `recover doubt`.", style="dim"))


def page(paper: Paper, reason: Parked) -> RenderableType:
    """One page whole: laid out on a terminal, as it is written in a pipe."""
    return Markdown(markdown(reason)) if paper.terminal else Text(markdown(reason))
