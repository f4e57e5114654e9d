"""Types that were resolved while a clock stood still, and what they stand for."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from freezegun import freeze_time

from recovery.frozen import thawed

DATETIME, DATE = dt.datetime, dt.date


def forms(when: Any, day: Any) -> list[Any]:
    return [
        when,
        day,
        list[when],
        dict[str, list[when]],
        tuple[when, ...],
        when | None,
        Optional[when],  # noqa: UP045  # the old form is another class
        Union[list[when], str],  # noqa: UP007
        Annotated[when, "said", 1],
        Annotated[list[day], "said"] | int,
    ]


def test_every_form() -> None:
    with freeze_time("2026-01-01"):
        fakes = forms(dt.datetime, dt.date)
    assert [thawed(fake) for fake in fakes] == forms(DATETIME, DATE)
    assert all(fake != real for fake, real in zip(fakes, forms(DATETIME, DATE), strict=True)), "or nothing was tested"


@pytest.mark.parametrize("type_", [int, None, Any, list, list[int], Literal["a", 1], Annotated[int, "x"], int | str, Optional[int]])  # noqa: UP045
def test_nothing_else_is_touched(type_: Any) -> None:
    assert thawed(type_) is type_
