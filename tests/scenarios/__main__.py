"""Every scenario, with every variant, on memory, SQLite and PostgreSQL, each in both colours: `recover replay` with a server of its own.

The tests of the suite take each database in one colour only, since there a play costs three times what it costs in memory.
"""

from __future__ import annotations

import subprocess
import sys

from tests.architecture.source import ROOT
from tests.postgres import serving


def main() -> int:
    with serving() as server:
        stores = ("memory", "sqlite", server.url("postgres"))
        options = [part for store in stores for part in ("--store", store)]
        return subprocess.run([sys.executable, "-m", "recovery", "replay", "scenarios", *options], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
