"""Accepted survivors: mutants that no test can or need notice, each with its reason.

Owns the file that lists them: a mutant's name on a line, its reason on the next, indented. Invariant: no name without a reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ACCEPTED: Final = Path(__file__).with_name("accepted.txt")


def reasons(text: str | None = None) -> dict[str, str]:
    """Reason by name. Raises ValueError for a name without a reason."""
    found: dict[str, str] = {}
    name = ""
    for line in (ACCEPTED.read_text(encoding="utf-8") if text is None else text).splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name = line.strip()
            found[name] = ""
        else:
            found[name] = f"{found[name]} {line.strip()}".strip()
    if empty := [name for name, reason in found.items() if not reason]:
        raise ValueError(f"no reason for {empty[0]}")
    return found
