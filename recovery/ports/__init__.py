"""Ports: what the drivers, the reconciler, workers and operators need from the outside, as small protocols.

Owns the promises that every store and every clock makes; the conformance suite tests them. A method says when its effect is
durable, what a concurrent caller sees, which errors it raises and whether it is safe to repeat. One module for each kind of
caller: `writing` for a run's owner, `claiming` for who wants to be one, `reading` for anybody, `telling` for who speaks to a run,
`operating` for people, `scheduling` for the calendar; `journal` is all of them together.
"""

from recovery.ports.claiming import Claiming, Due, Standing, Wanted
from recovery.ports.clock import Clock
from recovery.ports.journal import Journal
from recovery.ports.operating import Hold, Operating, Stub
from recovery.ports.reading import Reading, Stored
from recovery.ports.runs import Owner, RunRow
from recovery.ports.scheduling import Scheduled, Scheduling
from recovery.ports.telling import Delivered, Delivery, Evidence, Message, NotOpen, SlotTaken, Telling
from recovery.ports.writing import Append, Appended, AppendResult, Fenced, KeyClaim, KeyTaken, NewRun, Payload, Writing

__all__ = [
    "Append",
    "AppendResult",
    "Appended",
    "Claiming",
    "Clock",
    "Delivered",
    "Delivery",
    "Due",
    "Evidence",
    "Fenced",
    "Hold",
    "Journal",
    "KeyClaim",
    "KeyTaken",
    "Message",
    "NewRun",
    "NotOpen",
    "Operating",
    "Owner",
    "Payload",
    "Reading",
    "RunRow",
    "Scheduled",
    "Scheduling",
    "SlotTaken",
    "Standing",
    "Stored",
    "Stub",
    "Telling",
    "Wanted",
    "Writing",
]
