"""Requests: what would be written into a new intent."""

from __future__ import annotations

from datetime import timedelta

from recovery.core.contracts import Keyed
from recovery.core.entries import Attempt, Intent
from recovery.core.request import Request
from recovery.definitions.retry import Retry

CONTRACT = Keyed(window=timedelta(days=1), name="shop")


def test_an_intent_says_what_is_asked_for_each_in_its_place() -> None:
    attempt = Attempt(step="e#1", number=1, purpose="send", sent_at_us=70, send_until_us=80, epoch="0.1")
    request = Request(
        effect="e", environment="n", scope="s", key="k", fingerprint="f", arguments={"a": 1}, contract=CONTRACT, timeout_us=10,
        can_probe=True, can_close=False, subject="the call", valid_until_us=100, undoes="of#1", deadline_us=99,
        retry=Retry(attempts=4, within=timedelta(microseconds=9)),
    )  # fmt: skip
    assert request.intent("e#1", 70, attempt) == Intent(
        step="e#1", effect="e", environment="n", scope="s", key="k", fingerprint="f", arguments={"a": 1}, contract=CONTRACT.digest,
        timeout_us=10, at_us=70, attempt=attempt, valid_until_us=99, undoes="of#1", deadline_us=99, attempts_max=4, attempts_until_us=79,
    )  # fmt: skip
    assert attempt == Attempt("e#1", 1, "send", 70, 80, "0.1"), "an ordinary step's is made by position"
