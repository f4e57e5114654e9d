"""Speaking: what is said to runs from outside, and what they tell, as methods of both engines.

Owns their signatures; what they do is in `recovery.operators`. Invariant: both colours have the same verbs with the same arguments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self, overload

from recovery.core.contracts import microseconds
from recovery.core.errors import DefinitionError
from recovery.core.instants import instant_us
from recovery.definitions.speaking import spoken
from recovery.engine.operating import AsyncOperating, SyncOperating
from recovery.operators import awaiting, signalling, telling
from recovery.operators.awaiting import Awaited
from recovery.operators.claiming import unkept
from recovery.operators.signalling import Signalled, Word
from recovery.operators.telling import Event, Published

BY_MAX: Final = 200  # characters

AT_ONCE: Final = timedelta(minutes=1)
"""How long a listener without an end waits in one go."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Until when a listener waits for the next event, on the boot clock; None: as long as the run lasts."""

    until_us: int | None

    @classmethod
    def of(cls, wait: timedelta | None, boot_us: int) -> Self:
        return cls(None if wait is None else boot_us + microseconds(wait))

    def left_us(self, boot_us: int) -> int:
        return microseconds(AT_ONCE) if self.until_us is None else max(0, self.until_us - boot_us)


def _word(what: str, value: Any, by: str, about: str = "", valid_until: datetime | None = None, token: str | None = None) -> Word:
    """Raises DefinitionError and ValueNotStorable before anything is said."""
    if not isinstance(by, str) or not 1 <= len(by) <= BY_MAX or not by.isprintable():
        problem = f"by= is no text of 1 to {BY_MAX} printable characters"
        raise DefinitionError(what="call", name=f"engine.{what}", problem=problem, advice="Say who speaks.")
    if valid_until is not None and valid_until.utcoffset() is None:
        problem = "valid_until= has no time zone"
        raise DefinitionError(what="call", name=f"engine.{what}", problem=problem, advice="Pass one that has.")
    for name, said in (("about", about), ("token", token or "")):
        if not isinstance(said, str) or unkept(said):
            problem = f"{name}= is no text that every store can keep"
            raise DefinitionError(what="call", name=f"engine.{what}", problem=problem, advice="Say it in other words.")
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

    @overload
    def query(self, run_id: str, /) -> dict[str, Published]: ...
    @overload
    def query(self, run_id: str, name: str, /) -> Published | None: ...
    def query(self, run_id: str, name: str | None = None, /) -> dict[str, Published] | Published | None:
        """What a run published last under a name, with `run.publish`; None: nothing yet. Without a name: under each name. Changes nothing, and
        shows only what is durable."""
        found = self._operate(run_id, telling.query(run_id))
        return found if name is None else found.get(name)

    def listen(self, run_id: str, /, *, after: int = 0, wait: timedelta | None = None) -> Iterator[Event]:
        """What happens in a run, event by event and in order, from its durable entries: nothing is told that a crash could take back.

        after: the position of the last event that was heard; a listener that goes on from there misses nothing and hears nothing twice. Ends with
        the run, or where nothing has come for as long as `wait` says; None waits until the run ends. It holds no connection while it waits.
        Raises ListenerAhead where the run has not come so far: its database was restored."""
        ends = Patience.of(wait, self.clock.boot_us())
        while True:
            came = self._operate(run_id, telling.heard(run_id, after, ends.left_us(self.clock.boot_us())))
            yield from came.events
            after += len(came.events)
            ends = Patience.of(wait, self.clock.boot_us()) if came.events else ends
            if came.over or not (came.events or ends.left_us(self.clock.boot_us())):
                return


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

    @overload
    async def query(self, run_id: str, /) -> dict[str, Published]: ...
    @overload
    async def query(self, run_id: str, name: str, /) -> Published | None: ...
    async def query(self, run_id: str, name: str | None = None, /) -> dict[str, Published] | Published | None:
        """As Engine.query."""
        found = await self._operate(run_id, telling.query(run_id))
        return found if name is None else found.get(name)

    async def listen(self, run_id: str, /, *, after: int = 0, wait: timedelta | None = None) -> AsyncIterator[Event]:
        """As Engine.listen, for `async for`."""
        ends = Patience.of(wait, self.clock.boot_us())
        while True:
            came = await self._operate(run_id, telling.heard(run_id, after, ends.left_us(self.clock.boot_us())))
            for event in came.events:
                yield event
            after += len(came.events)
            ends = Patience.of(wait, self.clock.boot_us()) if came.events else ends
            if came.over or not (came.events or ends.left_us(self.clock.boot_us())):
                return
