"""Interruption: a call of the store that is broken off wherever it stands, by Ctrl-C or by what another signal raises.

Owns what is cleared away before the interruption goes on. Knows no dialect. Invariants: an interruption stays what it was, whatever a library
made of it on its way out; and whoever asks the store on that way, as giving up a run does, waits for nothing that the broken call has taken.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable

from recovery.threads import interruption


def broken_off(error: BaseException, outside: BaseException | None, clear: Callable[[], None]) -> None:
    """A call has raised `error`. Where an interruption broke it off, `clear` what it has left behind, and raise the interruption. outside: what was
    being handled when it was made.

    It can strike between any two lines of a connection pool. A connection that is taken then never comes back by itself: the pool waits half a
    minute for it, again and again, and the traceback that could still be read keeps it, with its locks, from being collected."""
    broke_off = interruption(error, outside)  # which may be hidden in another error
    if broke_off is None:
        return
    _let_go(error)
    clear()
    if broke_off is not error:
        raise broke_off from None


def _let_go(error: BaseException) -> None:
    """Of everything that the frames of the broken call refer to, and thereby of the locks and connections that they hold."""
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        traceback.clear_frames(found.__traceback__)
        found = found.__context__
    gc.collect()  # a connection and its transaction refer to each other
