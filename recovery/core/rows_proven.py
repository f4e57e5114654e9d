"""Rows 1 to 21: verdicts that the evidence itself settles, parks or times.

Owns the upper half of the verdict table. Knows nothing of budgets or gates. Invariant: order is meaning; each guard is tried
only after all earlier ones have failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from recovery.core.facts import Facts, Finding
from recovery.core.rows import Action, ParkingReason, Reason, Row


def _is(finding: Finding) -> Callable[[Facts], bool]:
    return lambda facts: facts.finding is finding


PROVEN: Final = (
    Row(
        number=1,
        name="diverged",
        action=Action.DIVERGE,
        reason=Reason.FINGERPRINT_DIFFERS,
        condition="the replayed call has another fingerprint than the recorded intent",
        matches=_is(Finding.DIVERGED),
        paragraph="After a crash the workflow asked for something else under the same step: its code changed, or a choice was not "
        "recorded as a decision. Nothing is sent. Leaving it to the environment to notice would fail wherever keys are not "
        "compared with requests, and there the old outcome would be returned for a new question.",
    ),
    Row(
        number=2,
        name="kept",
        action=Action.KEEP,
        reason=Reason.SETTLED,
        condition="settled, and all evidence agrees",
        matches=_is(Finding.KEPT),
        paragraph="Any crash after the settlement was durable. The first durable outcome is final; asking again could only bring a "
        "younger state of the same object.",
    ),
    Row(
        number=3,
        name="contradicted",
        action=Action.KEEP,
        reason=Reason.SETTLED_AND_CONTRADICTED,
        condition="settled, and later evidence speaks against it",
        matches=_is(Finding.CONTRADICTED),
        paragraph="A superseded worker's reply or a receipt arrived after the outcome had been recorded, often after an operator "
        "decided. Later steps ran on that outcome, so it stands, and each contradicting item is recorded once. Flipping it would "
        "give two values to readers of one run; coming after row 4 it would adopt a duplicate over a settled outcome.",
    ),
    Row(
        number=4,
        name="duplicate",
        action=Action.ADOPT,
        reason=Reason.DUPLICATE,
        condition="two receipts under one key with different identities",
        matches=_is(Finding.DUPLICATE),
        paragraph="The effect happened twice: a copy outlived the key's window, or the store was down and failed open. The first is "
        "adopted and the other reported, with its compensation proposed. Compensating unasked could undo the one that a customer "
        "has already seen.",
        assumes=("A6",),
        relies_on=("stable_fields",),
    ),
    Row(
        number=5,
        name="absence-contradicted",
        action=Action.PARK,
        reason=ParkingReason.CONTRACT_BROKEN,
        condition="a receipt, and an absence that was final with no attempt since that may have been sent",
        matches=_is(Finding.CONTRACT_BROKEN),
        paragraph="Either the look-up does not see what it promises to see, or a copy acted after the settle window. Both make every "
        "other verdict under this contract doubtful, so the contract is held until a person has looked. An attempt sent after the "
        "absence would explain the receipt, and then this row does not apply.",
        assumes=("A1", "A2"),
        relies_on=("lookup", "settle_window_us", "clock_error_us"),
    ),
    Row(
        number=6,
        name="key-mismatch",
        action=Action.PARK,
        reason=ParkingReason.KEY_MISMATCH,
        condition="the key answers for another request",
        matches=_is(Finding.KEY_MISMATCH),
        paragraph="Somebody used this key for something else, or a lost decision of ours did. The key is frozen and both requests are "
        "shown. A new key would be a second effect wherever the first request was ours.",
        assumes=("A1",),
    ),
    Row(
        number=7,
        name="receipt-mismatch",
        action=Action.PARK,
        reason=ParkingReason.RECEIPT_MISMATCH,
        condition="a receipt under our key whose stable fields are not those of the intent",
        matches=_is(Finding.RECEIPT_MISMATCH),
        paragraph="The environment says that it did something, and not what was asked. The key is frozen. Adopting would report "
        "success for five units where two were wanted, which is why this row comes before the one that adopts.",
        assumes=("A1",),
        relies_on=("stable_fields",),
    ),
    Row(
        number=8,
        name="receipt-original",
        action=Action.ADOPT,
        reason=Reason.ORIGINAL_RECEIPT,
        condition="a receipt that holds the first reply",
        matches=_is(Finding.RECEIPT_ORIGINAL),
        paragraph="The common end: the effect committed and the reply was lost, was held in memory, or came from a superseded worker. "
        "The environment gives the first reply again and it becomes the outcome. Sending anything more would be a second effect or "
        "a wasted request.",
        assumes=("A1", "A6"),
        relies_on=("replay_success",),
    ),
    Row(
        number=9,
        name="receipt-reconstructed",
        action=Action.ADOPT,
        reason=Reason.RECONSTRUCTED,
        condition="a receipt that shows the present state, and the stable fields give the outcome back",
        matches=_is(Finding.RECEIPT_STABLE),
        paragraph="It happened, and the environment keeps the object rather than the reply. Only the fields that never change are "
        "adopted, marked as reconstructed. Adopting the whole object would return a state that no first run ever saw.",
        assumes=("A1", "A6"),
        relies_on=("replay_success", "stable_fields"),
    ),
    Row(
        number=10,
        name="value-unknown",
        action=Action.PARK,
        reason=ParkingReason.VALUE_UNKNOWN,
        condition="applied, and the value can be neither told nor stored",
        matches=_is(Finding.VALUE_UNKNOWN),
        paragraph="It happened, so nothing is sent; but the value was shown once, has changed since, or does not fit the journal. A "
        "person brings it. Making one up would let later steps act on it.",
        assumes=("A1",),
        relies_on=("shown_once", "stable_fields"),
    ),
    Row(
        number=11,
        name="gone",
        action=Action.ADOPT,
        reason=Reason.GONE,
        condition="it happened, and its object has been removed since",
        matches=_is(Finding.GONE),
        paragraph="The effect is done and somebody has undone its object on purpose. It counts as applied, without a value. Creating "
        "it again would overrule whoever removed it.",
        assumes=("A1", "A6"),
    ),
    Row(
        number=12,
        name="swallowed",
        action=Action.ADOPT,
        reason=Reason.ACCEPTED_WITHOUT_VALUE,
        condition="accepted inside the window by a store that drops duplicates",
        matches=_is(Finding.SWALLOWED),
        paragraph="A queue that deduplicates accepts a copy as it accepts the first and tells nothing. Inside the window both mean "
        "applied once. Outside it an acceptance may be the second delivery, so it proves nothing there.",
        assumes=("A1", "A2", "A3"),
        relies_on=("window_us", "settle_window_us", "clock_error_us"),
    ),
    Row(
        number=13,
        name="mixed",
        action=Action.ADOPT,
        reason=Reason.MIXED,
        condition="a batch whose every item is applied, or rejected for good as in rows 14 and 15",
        matches=_is(Finding.MIXED),
        paragraph="One request, many results, none of them open: the batch is adopted item by item. Calling it failed would repeat "
        "the applied items, calling it applied would hide the rejected ones. Adopting a rejection that is forgotten, while another copy "
        "is under way, would be refuted by that copy once stock is there again.",
        assumes=("A1",),
        relies_on=("batch",),
    ),
    Row(
        number=14,
        name="rejection-remembered",
        action=Action.REJECT,
        reason=Reason.REMEMBERED_REJECTION,
        condition="a declared rejection which the environment keeps for all copies, all of them inside one window",
        matches=_is(Finding.REJECTED_REMEMBERED),
        paragraph="The key holds the rejection as it would hold a success, so that a copy still under way meets it too. That needs a "
        "store that fails closed and attempts that all land within one window; otherwise the rejection counts as forgotten.",
        assumes=("A1", "A2", "A3"),
        relies_on=("replay_rejection", "fail_open", "window_us", "settle_window_us", "clock_error_us"),
    ),
    Row(
        number=15,
        name="rejection-after-quiet",
        action=Action.REJECT,
        reason=Reason.REJECTION_AFTER_QUIET,
        condition="a forgotten rejection, given after every other attempt was quiet, and the journal is not restored",
        matches=lambda facts: facts.finding is Finding.REJECTED_AFTER_QUIET and not facts.restored,
        paragraph="Nothing else could act any more when the environment refused, so the refusal is the end. Judged by the time of "
        "asking: a refusal given while another copy was held back would be followed by that copy once stock is there again. After "
        "a restore there may be attempts nobody knows of.",
        assumes=("A1", "A2", "A3", "A4"),
        relies_on=("settle_window_us", "clock_error_us"),
    ),
    Row(
        number=16,
        name="refused-for-ever",
        action=Action.NOT_EXECUTED,
        reason=Reason.REFUSED_FOR_EVER,
        condition="a tombstone written while the key's record would still have been there, by a store that fails closed; "
        "or a final absence behind an expired first-sent fence",
        matches=_is(Finding.NEVER_EXECUTED),
        paragraph="The environment found no effect and bars every later copy itself. Wanting it again is a new generation with a new "
        "key. A tombstone written after the record could have been pruned bars copies but says nothing about the past, and one in "
        "a store that fails open does not even bar them.",
        assumes=("A1", "A3", "A4"),
        relies_on=("close", "fail_open", "window_us", "lookup", "clock_error_us"),
    ),
    Row(
        number=17,
        name="name-taken",
        action=Action.REJECT,
        reason=Reason.NAME_TAKEN,
        condition="the name belongs to a foreign object, the marker is reliable, and objects cannot be deleted, or a deletion "
        "would show and the answer was asked after quiet",
        matches=_is(Finding.FOREIGN_FINAL),
        paragraph="Somebody else has the name and ours can no longer arrive. The step is rejected with a named error. Without the "
        "ownership marker our own success would look the same.",
        assumes=("A1", "A2", "A3", "A4", "A6"),
        relies_on=("lookup", "settle_window_us", "clock_error_us"),
    ),
    Row(
        number=18,
        name="name-taken-early",
        action=Action.WAIT,
        reason=Reason.NAME_TAKEN_EARLY,
        condition="as row 17 with visible deletion, and quiet lies ahead",
        matches=_is(Finding.FOREIGN_EARLY),
        paragraph="The foreign object could be deleted and our held-back create could then land. So nothing is settled before no copy "
        "can act, and the question is asked again then.",
        assumes=("A2", "A3"),
        relies_on=("lookup", "settle_window_us", "clock_error_us"),
    ),
    Row(
        number=19,
        name="name-taken-doubtful",
        action=Action.PARK,
        reason=ParkingReason.NAME_TAKEN_DOUBTFUL,
        condition="a foreign object, and the marker is unreliable, a deletion would not show, or attempts may be missing",
        matches=_is(Finding.FOREIGN_DOUBTFUL),
        paragraph="It may be ours with its marker stripped, or ours may have been deleted before this one came. Neither rejecting nor "
        "creating is safe, and waiting brings no proof.",
    ),
    Row(
        number=20,
        name="never-sent",
        action=Action.NOT_EXECUTED,
        reason=Reason.NEVER_SENT,
        condition="every attempt is proven without effect, the effect is no longer wanted, and the journal is not restored",
        matches=lambda facts: not facts.exposed and not facts.wanted and not facts.restored,
        paragraph="The crash came before anything left, or each try was turned away, and meanwhile the approval lapsed or the run was "
        "cancelled. It is settled as not executed. Sending first and asking for permission later would buy what nobody wants any "
        "more. In a restored journal the attempt that did leave may be missing. What an operator said comes after this proof.",
        assumes=("A4",),
    ),
    Row(
        number=21,
        name="operator",
        action=Action.ADOPT,
        reason=Reason.OPERATOR,
        condition="an operator's word, and no evidence of the environment that settles",
        matches=_is(Finding.OPERATOR),
        paragraph="A person looked where the engine cannot. The outcome is marked heuristic, with who and why, and a receipt that "
        "arrives later is recorded against it. It comes after everything that the environment itself has said.",
    ),
)
