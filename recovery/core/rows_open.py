"""Rows 22 to 46: verdicts where the evidence settles nothing yet: wait, ask, send, close or park.

Owns the lower half of the verdict table. Knows nothing of entries or times. Invariant: order is meaning, and the last row
matches everything.
"""

from __future__ import annotations

from typing import Final

from recovery.core.facts import UNUSABLE, Absence, Ask, Close, Facts, Finding, Gate, Resend
from recovery.core.rows import Action, ParkingReason, Reason, Row

_WINDOW: Final = ("window_us", "settle_window_us", "clock_error_us")
_KEY_STORE: Final = (
    "fail_open",
    "lock_outlives_execution",
    "mismatch_checked",
    "replay_success",
    "replay_rejection",
    "replay_failure",
    "failures_effect_free",
)
_LOOKUP: Final = ("lookup", "settle_window_us", "clock_error_us")


def _usable(facts: Facts) -> bool:
    """No cached failure, expired or closed answer is known for the key."""
    return facts.resend not in UNUSABLE


def _budget_stops(facts: Facts) -> bool:
    """Whether some row above would have acted with attempts, probes or closes left."""
    send = not facts.exposed or facts.resend is Resend.LICENSED
    proven = facts.absence in {Absence.ENFORCED, Absence.TRUSTED} and _usable(facts)
    wants_attempt = facts.wanted and not facts.attempts_left and (send or proven)
    return wants_attempt or facts.ask is Ask.SPENT or facts.close is Close.SPENT


UNSETTLED: Final = (
    Row(
        number=22,
        name="held",
        action=Action.PARK,
        reason=ParkingReason.HELD,
        condition="the run or its contract is held",
        matches=lambda facts: facts.gate is Gate.HELD,
        paragraph="A person stopped this, a worker that the run would have ended next, or a broken contract. Receipts are still adopted above, because that sends nothing.",
    ),
    Row(
        number=23,
        name="scope-changed",
        action=Action.PARK,
        reason=ParkingReason.SCOPE_CHANGED,
        condition="account, region, endpoint or credential differ from the intent's",
        matches=lambda facts: facts.gate is Gate.SCOPE_CHANGED,
        paragraph="The key means something else there: a rotated credential turns forbidden into not found, another region does not "
        "know the key at all. Nothing is sent, asked or closed until the old scope is back.",
        assumes=("A6",),
    ),
    Row(
        number=24,
        name="backing-off",
        action=Action.WAIT,
        reason=Reason.NOTHING_TOLD,
        condition="the last try told nothing (in flight, turned away, unreachable, not sent) and its next look is not due",
        matches=lambda facts: facts.gate is Gate.BACKING_OFF,
        paragraph="The environment is busy, limits us or cannot be reached; that says nothing about earlier attempts. The next try is "
        "made at the named time, twice as far off after each silent one. Trying at once would spend the budget in a second. An answer that "
        "a copy is at work spends nothing while one may be: counting it would end long work in doubt.",
    ),
    Row(
        number=25,
        name="unanswered",
        action=Action.WAIT,
        reason=Reason.UNANSWERED,
        condition="a re-send or close has no answer, and its send_until lies ahead",
        matches=lambda facts: facts.gate is Gate.UNANSWERED,
        paragraph="A recoverer died after its own re-send or close had become durable. Its copy may be answered until then; a third "
        "copy now would use up attempts without learning more. A first send does not wait here: its re-send is the question.",
    ),
    Row(
        number=26,
        name="restored-ask",
        action=Action.ASK,
        reason=Reason.RESTORED_UNASKED,
        condition="the journal is restored, the environment has not been asked since, and there is a look-up and a probe left",
        matches=lambda facts: facts.restored and facts.ask is Ask.DUE,
        paragraph="The backup may lack attempts, even where it shows none at all. So the first thing is a question, never a sending.",
        assumes=("A1", "A6"),
        relies_on=("lookup",),
    ),
    Row(
        number=27,
        name="restored-park",
        action=Action.PARK,
        reason=ParkingReason.RESTORED,
        condition="the journal is restored, and nothing can be asked or nothing matching was found",
        matches=lambda facts: facts.restored,
        paragraph="Not finding it proves nothing where attempts are missing: the first send after a restore may be the second. A "
        "person releases the step under a new generation, or adopts what the environment has.",
    ),
    Row(
        number=28,
        name="first-send",
        action=Action.SEND,
        reason=Reason.NOTHING_SENT,
        condition="every attempt is proven without effect, the effect is wanted, and attempts are left",
        matches=lambda facts: not facts.exposed and facts.wanted and facts.attempts_left,
        paragraph="The first run of a step, a crash between decision and attempt, or tries that never left or were turned away. "
        "Nothing earlier can act, so this needs no window. Before row 27 it would send a restored step a second time.",
        assumes=("A4",),
    ),
    Row(
        number=29,
        name="rejection-early",
        action=Action.WAIT,
        reason=Reason.REJECTION_TOO_EARLY,
        condition="a forgotten rejection, of one item of a batch too, while another attempt may still act",
        matches=lambda facts: facts.finding is Finding.REJECTED_EARLY,
        paragraph="The environment refused this copy and will not remember it; another copy is still under way and may be accepted. "
        "After quiet the question is put again.",
        assumes=("A2", "A3"),
        relies_on=("replay_rejection", "settle_window_us", "clock_error_us"),
    ),
    Row(
        number=30,
        name="resend",
        action=Action.RESEND,
        reason=Reason.SAFE_TO_RESEND,
        condition="rule 1 licenses a re-send, the effect is wanted, and attempts are left",
        matches=lambda facts: facts.resend is Resend.LICENSED and facts.wanted and facts.attempts_left,
        paragraph="Reply lost, or crashed between attempt and reply, with a key that the environment deduplicates. The same key and "
        "bytes are sent again: this is the question and the work in one. All copies land within one window of the first attempt, "
        "so a late one meets the key. Where the code has changed and may make other bytes, a question that can be put goes first: a mismatch "
        "would freeze the key. Counting the window from the last send, or only to the moment of sending, executes twice.",
        assumes=("A1", "A2", "A3", "A4", "A5", "A6"),
        relies_on=(*_WINDOW, *_KEY_STORE),
    ),
    Row(
        number=31,
        name="close-unwanted",
        action=Action.CLOSE,
        reason=Reason.UNWANTED,
        condition="the effect is unwanted, and a close is available: its store fails closed, the key's record is still kept, "
        "and it is not closed yet",
        matches=lambda facts: not facts.wanted and facts.close is Close.AVAILABLE,
        paragraph="Cancelled, or the approval lapsed, after an attempt may have left. One atomic question tells the outcome or bars "
        "the key for ever, without any waiting. Re-sending would do what nobody wants any more.",
        assumes=("A1", "A3", "A6"),
        relies_on=("close", "fail_open", "window_us", "lookup"),
    ),
    Row(
        number=32,
        name="send-after-proof",
        action=Action.SEND,
        reason=Reason.PROVEN_ABSENT,
        condition="absence is enforced, the effect is wanted, attempts are left, and the key is usable",
        matches=lambda facts: facts.absence is Absence.ENFORCED and facts.wanted and facts.attempts_left and _usable(facts),
        paragraph="Nothing was done, and the environment itself refuses every earlier copy, so a new attempt is the only one.",
        assumes=("A1", "A4", "A5", "A6"),
        relies_on=("enforced", "lookup"),
    ),
    Row(
        number=33,
        name="proven-absent",
        action=Action.NOT_EXECUTED,
        reason=Reason.PROVEN_ABSENT_UNWANTED,
        condition="absence is enforced, and the effect is unwanted",
        matches=lambda facts: facts.absence is Absence.ENFORCED and not facts.wanted,
        paragraph="As row 32, and nobody wants it any more: settled as not executed, by proof.",
        assumes=("A1", "A4", "A6"),
        relies_on=("enforced", "lookup"),
    ),
    Row(
        number=34,
        name="ask",
        action=Action.ASK,
        reason=Reason.MAY_BE_FOUND,
        condition="a look-up may show it, absence is not enforced, probes are left, and there is no answer since the last attempt, "
        "or none since the time that counts, which has come",
        matches=lambda facts: facts.ask is Ask.DUE and facts.absence is not Absence.ENFORCED,
        paragraph="Crashed between attempt and reply where a re-send is not safe. One read-only question: found is proof at once, "
        "absent is worth something only if asked late enough. Where nobody wants it any more and the contract can cancel by key, the question is "
        "put as a cancel, which undoes what it finds and leaves no tombstone. Before closing, because closing an effect that is merely late would "
        "refuse what is wanted.",
        assumes=("A1", "A6"),
        relies_on=("lookup",),
    ),
    Row(
        number=35,
        name="close-for-proof",
        action=Action.CLOSE,
        reason=Reason.CLOSE_PROVES,
        condition="nothing else can prove it (absence is neither enforced nor going to be), and a close is available as in row 31",
        matches=lambda facts: facts.close is Close.AVAILABLE and facts.absence not in {Absence.ENFORCED, Absence.MATURING},
        paragraph="Wanted, but the key may not be sent again and an absence would rest on an assumption. Closing ends the doubt: the "
        "outcome if there is one, else a refusal, and wanting it again is a new generation. Before rows 36 to 38, because a proof "
        "now is better than an assumption later.",
        assumes=("A1", "A3", "A6"),
        relies_on=("close", "fail_open", "window_us", "lookup"),
    ),
    Row(
        number=36,
        name="send-on-trust",
        action=Action.SEND,
        reason=Reason.TRUSTED_ABSENT,
        condition="absence is final on the settle window alone, the contract trusts that, the effect is wanted, attempts are left, "
        "and the key is usable",
        matches=lambda facts: facts.absence is Absence.TRUSTED and facts.wanted and facts.attempts_left and _usable(facts),
        paragraph="No copy should act any more, and whoever wrote the contract accepts that as enough for this effect. A client cannot "
        "bound a stall between check and write, so this is never the default and the verdict names the assumption.",
        assumes=("A1", "A2", "A3", "A4", "A5", "A6"),
        relies_on=(*_LOOKUP, "trust_settle"),
    ),
    Row(
        number=37,
        name="absent-on-trust",
        action=Action.NOT_EXECUTED,
        reason=Reason.TRUSTED_ABSENT_UNWANTED,
        condition="absence is final on the settle window alone, the contract trusts that, and the effect is unwanted",
        matches=lambda facts: facts.absence is Absence.TRUSTED and not facts.wanted,
        paragraph="As row 36, and nobody wants it any more: settled as not executed, with the assumption named.",
        assumes=("A1", "A2", "A3", "A4", "A6"),
        relies_on=(*_LOOKUP, "trust_settle"),
    ),
    Row(
        number=38,
        name="absence-early",
        action=Action.WAIT,
        reason=Reason.ABSENCE_TOO_EARLY,
        condition="absent, not final, the time that counts lies ahead, and probes are left for it",
        matches=lambda facts: facts.absence in {Absence.PENDING, Absence.MATURING} and facts.ask is Ask.ANSWERED,
        paragraph="A copy may still act, or the look-up may lag. The question is put again when the answer can be worth something; it "
        "is judged by when it was asked, because a copy may land between an early question and a late judgement.",
        assumes=("A2", "A3"),
        relies_on=_LOOKUP,
    ),
    Row(
        number=39,
        name="budget-spent",
        action=Action.PARK,
        reason=ParkingReason.BUDGET_SPENT,
        condition="something above would be allowed, but attempts, probes or closes are spent",
        matches=_budget_stops,
        paragraph="The durable budget of this intent, counted over all workers, is used up. Going on would make a crash loop an "
        "endless one. A person can raise it.",
    ),
    Row(
        number=40,
        name="absence-unproven",
        action=Action.PARK,
        reason=ParkingReason.ABSENCE_UNPROVEN,
        condition="absent, and final on an assumption only, or never final",
        matches=lambda facts: facts.absence is not Absence.NONE,
        paragraph="Nothing was found, and that is as much as can be learnt. A second effect without a key would rest on the settle "
        "window, which no client can guarantee.",
        assumes=("A2",),
        relies_on=(*_LOOKUP, "trust_settle"),
    ),
    Row(
        number=41,
        name="cached-failure",
        action=Action.PARK,
        reason=ParkingReason.CACHED_FAILURE,
        condition="the key answers with a remembered failure that says nothing",
        matches=lambda facts: facts.resend is Resend.CACHED_FAILURE,
        paragraph="The environment failed once and repeats that failure for ever, whether or not the effect took place. Re-sending "
        "would never end; there is no second channel left to ask.",
        relies_on=("replay_failure",),
    ),
    Row(
        number=42,
        name="key-expired",
        action=Action.PARK,
        reason=ParkingReason.KEY_EXPIRED,
        condition="the key's window or the receipt's retention is over, or no window is published",
        matches=lambda facts: facts.resend in {Resend.EXPIRED, Resend.LATE},
        paragraph="Recovered too late: the environment may have forgotten the key and would execute it as new.",
        assumes=("A3",),
        relies_on=_WINDOW,
    ),
    Row(
        number=43,
        name="fail-open",
        action=Action.PARK,
        reason=ParkingReason.FAIL_OPEN,
        condition="the key store executes without protection when it is down",
        matches=lambda facts: facts.resend is Resend.FAIL_OPEN,
        paragraph="A key that protects only on good days licenses no second sending, and its silence proves nothing.",
        relies_on=("fail_open",),
    ),
    Row(
        number=44,
        name="opaque",
        action=Action.PARK,
        reason=ParkingReason.OPAQUE,
        condition="no key, nothing to ask, nothing to close",
        matches=lambda facts: facts.resend is Resend.OPAQUE,
        paragraph="A crash or an unknown reply after an attempt that may have left, and no way to look. At most once: a person decides.",
    ),
    Row(
        number=45,
        name="unwanted-undecidable",
        action=Action.PARK,
        reason=ParkingReason.UNWANTED_UNDECIDABLE,
        condition="unwanted, with nothing to ask or close",
        matches=lambda facts: not facts.wanted,
        paragraph="It may have happened and nobody wants it any more. A re-send would be the only question, and it would also do it.",
    ),
    Row(
        number=46,
        name="nothing-left",
        action=Action.PARK,
        reason=ParkingReason.NOTHING_LEFT,
        condition="nothing is left to ask",
        matches=lambda facts: True,  # noqa: ARG005  # total: every combination ends here at the latest
        paragraph="Every channel has been used, is over, or proves nothing here.",
    ),
)
