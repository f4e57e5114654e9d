"""Speaking: what is said to runs from outside, and what they tell, as methods of both engines.

Owns their signatures; what they do is in `recovery.operators`. Invariant: both colours have the same verbs with the same arguments.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from recovery.core.errors import DefinitionError
from recovery.core.instants import instant_us
from recovery.definitions.speaking import spoken
from recovery.engine.operating import AsyncOperating, SyncOperating
from recovery.operators import awaiting, signalling
from recovery.operators.awaiting import Awaited
from recovery.operators.signalling import Signalled, Word

BY_MAX = 200  # characters


def _word(what: str, value: Any, by: str, about: str = "", valid_until: datetime | None = None, token: str | None = None) -> Word:
    """Raises DefinitionError and ValueNotStorable before anything is said."""
    if not isinstance(by, str) or not 1 <= len(by) <= BY_MAX or not by.isprintable():
        problem = f"by= is no text of 1 to {BY_MAX} printable characters"
        raise DefinitionError(what="call", name=f"engine.{what}", problem=problem, advice="Say who speaks.")
    if valid_until is not None and valid_until.utcoffset() is None:
        problem = "valid_until= has no time zone"
        raise DefinitionError(what="call", name=f"engine.{what}", problem=problem, advice="Pass one that has.")
    until_us = None if valid_until is None else instant_us(valid_until)
    return Word(value=spoken(what, value), by=by, about=about, valid_until_us=until_us, token=token or "")


class SyncSpeaking(SyncOperating):
    """Each raises RunNotFound, JournalCorrupt and StoreUnavailable beside what it says."""

    def signal(
        self,
        run_id: str,
        name: str,
        value: Any,
        /,
        *,
        by: str,
        about: str = "",
        valid_until: datetime | None = None,
        token: str | None = None,
    ) -> Signalled:
        """Answer what a run waits for with `run.wait_for`, by the wait's name or its step. Durable on return; the next `recover` of the run goes on.

        by: who answers. about: the fingerprint (or 8 characters of it) of the call that is approved; a wait that is about a call wants it.
        valid_until: how long an approval stands. token: the same answer again, however often it is sent; without one the same words by the same person
        are. An answer before its wait is kept for it (`waited_for` is False then). Raises SignalRefused if it comes late or second, and
        ValueNotStorable if it does not fit the schema.
        """
        word = _word("signal", value, by, about, valid_until, token)
        return self._operate(run_id, signalling.signal(self.world(), run_id, name, word))

    def send(self, run_id: str, topic: str, value: Any, /, *, by: str, token: str | None = None) -> Signalled:
        """Send one more message of a topic, for `run.receive`. Durable on return. token: the same message again. Raises SignalRefused."""
        return self._operate(run_id, signalling.send(self.world(), run_id, topic, _word("send", value, by, token=token)))

    def waits(self, run_id: str | None = None) -> tuple[Awaited, ...]:
        """What a run waits for from outside, or what all open runs do. Changes nothing."""
        return self._operate(run_id or "", awaiting.waits(run_id))


class AsyncSpeaking(AsyncOperating):
    """As those of Engine, to be awaited."""

    async def signal(
        self,
        run_id: str,
        name: str,
        value: Any,
        /,
        *,
        by: str,
        about: str = "",
        valid_until: datetime | None = None,
        token: str | None = None,
    ) -> Signalled:
        """As Engine.signal."""
        word = _word("signal", value, by, about, valid_until, token)
        return await self._operate(run_id, signalling.signal(self.world(), run_id, name, word))

    async def send(self, run_id: str, topic: str, value: Any, /, *, by: str, token: str | None = None) -> Signalled:
        """As Engine.send."""
        return await self._operate(run_id, signalling.send(self.world(), run_id, topic, _word("send", value, by, token=token)))

    async def waits(self, run_id: str | None = None) -> tuple[Awaited, ...]:
        """As Engine.waits."""
        return await self._operate(run_id or "", awaiting.waits(run_id))
