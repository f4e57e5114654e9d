"""Commands typed in this process: starting one for each of them would cost more than all the rest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from recovery.cli import app


@dataclass(frozen=True)
class Ended:
    """What a command came to: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def typed(*arguments: object) -> Ended:
    """`recover ARGUMENTS`, where the test stands."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    return Ended(done.exit_code, done.stdout, done.stderr)
