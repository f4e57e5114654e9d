"""What somebody was told, in stored form: an answer that no driver asked for.

Owns the translation of an answer without a call. Invariant: with its effect an answer is stored exactly as a probe's would be; without it,
only plain JSON is.
"""

from __future__ import annotations

from typing import Any

from recovery.codec import Codec
from recovery.core.entries import Answered, AnswerKind
from recovery.definitions.answer import Answer, Found, Refused
from recovery.definitions.batched import Batched
from recovery.definitions.effect import Effect
from recovery.definitions.replies import Replies


def answered(answer: Answer[Any], effect: Effect[..., Any] | None) -> Answered:
    """`answer` as an observation holds it. What cannot be stored says so by its kind."""
    if effect is not None:
        return effect.probed(answer)
    if isinstance(answer, Found) and isinstance(answer.outcome, Batched):
        return Answered(kind=AnswerKind.UNREACHABLE, detail="the items of a batch are read by its effect: give effect=")
    rejects = {answer.error.name: type(answer.error)} if isinstance(answer, Refused) else {}
    return Replies("observe", Codec[Any](Any, name="observe"), rejects, look_up_is_original=True).probed(answer)
