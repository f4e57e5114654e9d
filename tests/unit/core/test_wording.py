"""Nouns with an article or a number."""

from __future__ import annotations

from uuid import uuid4

import pytest

from recovery import Queue
from recovery.core.wording import article, counted, of_type
from recovery.errors import DefinitionError


def test_an_article_goes_by_how_a_name_begins() -> None:
    assert [of_type(value) for value in (1, "x", 1.5, OSError(), {}, uuid4())] == [
        "an int", "a str", "a float", "an OSError", "a dict", "a UUID",
    ]  # fmt: skip
    assert article("") == "a "


def test_one_is_told_as_one() -> None:
    assert [counted(number, "run") for number in (0, 1, 2, 2000)] == ["0 runs", "1 run", "2 runs", "2,000 runs"]
    assert [counted(number, "entry", "entries") for number in (1, 3)] == ["1 entry", "3 entries"]


def test_messages_say_it_so() -> None:
    with pytest.raises(DefinitionError, match="is an int"):
        Queue("mail", rate=5)  # type: ignore[arg-type]  # refused, which is the point
