"""Beating: how a heartbeat lies beside late evidence, and how a load reads it.

Owns the stored form, sealed where the journal's values are. Invariant: what cannot be read is passed over: a heartbeat decides nothing, and a run
must not become unreadable by one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from contextlib import suppress

from recovery import texts
from recovery.core.errors import RecoveryError
from recovery.core.heartbeats import HEARTBEAT, Heartbeat, decoded, encoded
from recovery.core.history import History
from recovery.core.ids import Epoch
from recovery.core.recorded import EffectStep
from recovery.ports import Evidence
from recovery.storage.resting import SEALED, Sealing, key_of


def beat_item(run_id: str, step: str, epoch: Epoch, beat: Heartbeat, sealing: Sealing | None) -> Evidence:
    """A heartbeat as it is kept."""
    text = texts.dumps(encoded(beat))
    if sealing is not None:
        about = sealing.about(HEARTBEAT, step, str(epoch), str(beat.at_us))
        sealed = b64encode(sealing.vault.seal(text.encode(), about)).decode()
        text = texts.dumps({SEALED: {"key": sealing.vault.current, "text": sealed}})
    return Evidence(run_id, step, epoch, beat.at_us, HEARTBEAT, text)


def hear(history: History, items: Iterable[Evidence], sealing: Sealing | None) -> None:
    """Tell the steps of a run what their attempts said of themselves."""
    for item in items:
        effect = history.steps.get(item.step)
        if isinstance(effect, EffectStep):
            with suppress(ValueError, RecoveryError):  # of a newer version, or under a key that is not here
                effect.heard.take(_beat(item, sealing))


def _beat(item: Evidence, sealing: Sealing | None) -> Heartbeat:
    body = texts.loads(item.body)
    if SEALED in body and sealing is not None:
        about = sealing.about(HEARTBEAT, item.step, str(item.epoch), str(item.at_us))
        body = texts.loads(sealing.vault.unseal(key_of(body), b64decode(body[SEALED]["text"], validate=True), about).decode())
    return decoded(body)
