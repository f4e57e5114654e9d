"""Checkpoints: complete, exact, and honest about effects. See docs/explanation/checkpoints.md.

Needs the extra `checkpoint`; importing this package does not, and neither does planning. Names are looked up where they are used, so that a
program without the extra is told what to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from recovery.core.errors import ExtraMissing

if TYPE_CHECKING:
    from recovery.checkpoint.background import BackgroundSaver as BackgroundSaver
    from recovery.checkpoint.continuing import Restored as Restored
    from recovery.checkpoint.fingerprint import Fingerprint as Fingerprint
    from recovery.checkpoint.fingerprint import digest_of as digest_of
    from recovery.checkpoint.fingerprint import digest_of_array as digest_of_array
    from recovery.checkpoint.generators import Generators as Generators
    from recovery.checkpoint.inference import Hit as Hit
    from recovery.checkpoint.inference import Identity as Identity
    from recovery.checkpoint.inference import KVStore as KVStore
    from recovery.checkpoint.journal import RunJournal as RunJournal
    from recovery.checkpoint.kinds import Kind as Kind
    from recovery.checkpoint.learning import Cursor as Cursor
    from recovery.checkpoint.learning import Learning as Learning
    from recovery.checkpoint.learning import Weights as Weights
    from recovery.checkpoint.lifecycle import Exposure as Exposure
    from recovery.checkpoint.lifecycle import Lifecycle as Lifecycle
    from recovery.checkpoint.lifecycle import Look as Look
    from recovery.checkpoint.lifecycle import Stage as Stage
    from recovery.checkpoint.limits import Limits as Limits
    from recovery.checkpoint.manifest import JournalPosition as JournalPosition
    from recovery.checkpoint.manifest import Manifest as Manifest
    from recovery.checkpoint.objects import ObjectCheckpoints as ObjectCheckpoints
    from recovery.checkpoint.parts import Parts as Parts
    from recovery.checkpoint.planning.interval import Plan as Plan
    from recovery.checkpoint.planning.interval import plan_interval as plan_interval
    from recovery.checkpoint.planning.measuring import Measurement as Measurement
    from recovery.checkpoint.planning.measuring import measure as measure
    from recovery.checkpoint.readback import ReadBack as ReadBack
    from recovery.checkpoint.resume.tolerance import EXACT as EXACT
    from recovery.checkpoint.resume.tolerance import Contract as Contract
    from recovery.checkpoint.resume.tolerance import Tolerance as Tolerance
    from recovery.checkpoint.resume.verifying import ResumeReport as ResumeReport
    from recovery.checkpoint.resume.verifying import verify_resume as verify_resume
    from recovery.checkpoint.retention import Keep as Keep
    from recovery.checkpoint.scanning import Candidate as Candidate
    from recovery.checkpoint.scanning import Rejected as Rejected
    from recovery.checkpoint.sharded import Sharded as Sharded
    from recovery.checkpoint.store import CheckpointStore as CheckpointStore
    from recovery.checkpoint.validating import Capture as Capture
    from recovery.checkpoint.validating import Checkpoint as Checkpoint
    from recovery.checkpoint.writer import ShardWriter as ShardWriter

_PLACES: Final = {
    "BackgroundSaver": "background",
    "Candidate": "scanning",
    "Capture": "validating",
    "Checkpoint": "validating",
    "CheckpointStore": "store",
    "Contract": "resume.tolerance",
    "Cursor": "learning",
    "EXACT": "resume.tolerance",
    "Exposure": "lifecycle",
    "Fingerprint": "fingerprint",
    "Generators": "generators",
    "Hit": "inference",
    "Identity": "inference",
    "JournalPosition": "manifest",
    "KVStore": "inference",
    "Keep": "retention",
    "Kind": "kinds",
    "Learning": "learning",
    "Lifecycle": "lifecycle",
    "Limits": "limits",
    "Look": "lifecycle",
    "Manifest": "manifest",
    "Measurement": "planning.measuring",
    "Parts": "parts",
    "Plan": "planning.interval",
    "ObjectCheckpoints": "objects",
    "ReadBack": "readback",
    "Rejected": "scanning",
    "Restored": "continuing",
    "ResumeReport": "resume.verifying",
    "RunJournal": "journal",
    "ShardWriter": "writer",
    "Sharded": "sharded",
    "Stage": "lifecycle",
    "Tolerance": "resume.tolerance",
    "Weights": "learning",
    "measure": "planning.measuring",
    "plan_interval": "planning.interval",
    "verify_resume": "resume.verifying",
    "digest_of": "fingerprint",
    "digest_of_array": "fingerprint",
}

_EXTRA: Final = {"blake3": "checkpoint", "numpy": "checkpoint", "obstore": "objects", "safetensors": "checkpoint"}

# What the extra `checkpoint` is enough for: `import *` looks every name up. `ObjectCheckpoints` needs `objects`, and is imported by its name.
__all__ = [
    "EXACT",
    "BackgroundSaver",
    "Candidate",
    "Capture",
    "Checkpoint",
    "CheckpointStore",
    "Contract",
    "Cursor",
    "Exposure",
    "Fingerprint",
    "Generators",
    "Hit",
    "Identity",
    "JournalPosition",
    "KVStore",
    "Keep",
    "Kind",
    "Learning",
    "Lifecycle",
    "Limits",
    "Look",
    "Manifest",
    "Measurement",
    "Parts",
    "Plan",
    "ReadBack",
    "Rejected",
    "Restored",
    "ResumeReport",
    "RunJournal",
    "ShardWriter",
    "Sharded",
    "Stage",
    "Tolerance",
    "Weights",
    "digest_of",
    "digest_of_array",
    "measure",
    "plan_interval",
    "verify_resume",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise ExtraMissing(what="A checkpoint", missing=error.name, extra=_EXTRA[error.name]) from error
