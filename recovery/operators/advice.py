"""Advice: what a person must bring to each kind of doubt, and what can be ordered then.

Owns those sentences. Knows no terminal. Invariant: every reason that has a page has one, and none advises to send under a new key.
"""

from __future__ import annotations

from typing import Final

from recovery.core.reasons import HoldReason, Parked, ParkingReason

SETTLED_BY: Final[dict[Parked, str]] = {
    ParkingReason.CONTRACT_BROKEN: "The environment said that nothing was there, finally, and then showed a receipt. Its contract is wrong: find out which "
    "of its promises does not hold, then release it; until then nothing is sent under it.",
    ParkingReason.KEY_MISMATCH: "The environment holds another request under this key. Compare both requests in its records: whose is it?",
    ParkingReason.RECEIPT_MISMATCH: "The environment holds a receipt under this key that is not what was asked for. Compare both in its records.",
    ParkingReason.VALUE_UNKNOWN: "It happened. Only its value is missing: read it in the environment's records. Do not repeat it.",
    ParkingReason.NAME_TAKEN_DOUBTFUL: "Something has this name. Look at it in the environment: is it ours?",
    ParkingReason.HELD: "It was stopped on purpose. Whoever stopped it releases it.",
    HoldReason.QUARANTINED: "The run ended its workers. Find out what ends them and mend it; then whoever has mended it releases the run.",
    ParkingReason.SCOPE_CHANGED: "Go back to the account, region and credential that are named above and recover again: another one cannot tell.",
    ParkingReason.RESTORED: "The journal was restored from a backup, so what was sent after it is unknown. Look in the environment's records by the key.",
    ParkingReason.BUDGET_SPENT: "The attempts or questions of this effect are used up. See why they brought nothing; `recover redrive` allows one attempt more, a larger budget more of them.",
    ParkingReason.ABSENCE_UNPROVEN: "The environment shows nothing, and a late copy could still act or be hidden. Look in its records by the key.",
    ParkingReason.CACHED_FAILURE: "The environment remembers a failure under this key that does not say whether it happened. Look in its records.",
    ParkingReason.KEY_EXPIRED: "The environment no longer remembers the key, so sending again could repeat it. Look in its records by the key and the time.",
    ParkingReason.FAIL_OPEN: "The environment may act twice on one key while its key store is down. Look in its records by the key.",
    ParkingReason.OPAQUE: "The environment has no key, no receipt and nothing to ask. Look in its records by the arguments and the time of the attempts.",
    ParkingReason.UNWANTED_UNDECIDABLE: "It is no longer wanted, and whether it happened cannot be asked. Look in the environment's records by the key.",
    ParkingReason.NOTHING_LEFT: "Nothing is left to ask. Look in the environment's records by the key and the time of the attempts.",
}
"""For each reason to park: what a person must bring."""
