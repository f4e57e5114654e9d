"""Pages about reasons to park, at a terminal.

Owns how they are shown. Invariant: a terminal and a pipe get the words of the documentation's page.
"""

from __future__ import annotations

from rich.console import RenderableType
from rich.markdown import Markdown
from rich.text import Text

from recovery.console.paper import Paper, facts
from recovery.core.reasons import PARKED, Parked
from recovery.operators.parking import markdown, page_of


def index() -> RenderableType:
    """One line for each reason."""
    return facts((reason.value, page_of(reason).title) for reason in PARKED)


def page(paper: Paper, reason: Parked) -> RenderableType:
    """One page whole: laid out on a terminal, as it is written in a pipe."""
    return Markdown(markdown(reason)) if paper.terminal else Text(markdown(reason))
