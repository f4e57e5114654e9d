"""The app of the story, as a command line names it: its journal is the one in RECOVERY_DB."""

from __future__ import annotations

import os

from recovery import Engine
from tests.power import story

engine = Engine(os.environ["RECOVERY_DB"], workflows=[story.errand])
