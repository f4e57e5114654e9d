"""An interrupt at a chosen place, as the interpreter would let one in.

A signal is looked at behind a call, where a function begins, and where a loop turns, in our code and in whatever that calls. A trace counts those places in the
main thread; the interrupt is then left pending in front of one of them, and comes where the interpreter looks next. So it strikes wherever a real one can, and
nowhere else: not between the end of a block with a lock and its release, where none is let in.
"""

from __future__ import annotations

import _thread
import dis
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import CodeType, FrameType
from typing import Any

LOOKS = frozenset(
    dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME") if name in dis.opmap
)
SIGNAL = signal.SIGUSR2
"""One that no runner of tests ignores."""


class _LeftPending:
    """Dies behind the last instruction of whoever made it: a signal that is said any earlier would come there, in the trace."""

    __del__ = partial(_thread.interrupt_main, SIGNAL)


@cache
def _looks(code: CodeType) -> frozenset[int]:
    return frozenset(each.offset for each in dis.get_instructions(code) if each.opcode in LOOKS)


def everywhere(_code: CodeType) -> bool:
    return True


class Interrupting:
    """Interrupts a call at the `at`th place where signals are looked at, in what is `struck`. place: where that was; "" where the call had fewer."""

    def __init__(self, at: int, struck: Callable[[CodeType], bool] = everywhere) -> None:
        self.at = at
        self.passed = 0
        self.place = ""
        self._struck = struck

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        if not self._struck(frame.f_code):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode" and frame.f_lasti in _looks(frame.f_code):
            self.passed += 1
            if self.passed == self.at:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_qualname}"
                sys.settrace(None)
                pending = _LeftPending()  # noqa: F841  # until here
                return None
        return self

    @contextmanager
    def block(self) -> Iterator[None]:
        """The call."""
        traced, handled = sys.gettrace(), signal.signal(SIGNAL, signal.default_int_handler)
        try:
            sys.settrace(self)
            yield
        finally:
            sys.settrace(traced)
            signal.signal(SIGNAL, handled)
