"""`recover migrate`: bring a database to the schema of this version. The only command that migrates because it was asked to."""

from __future__ import annotations

from recovery.cli.output import Output
from recovery.cli.target import database_to_migrate
from recovery.core.errors import ExitCode


def migrate(output: Output, *, db: str | None, app: str | None) -> ExitCode:
    """Migrate, and say from which version to which. Raises SchemaMismatch, StoreUrlError, StoreUnavailable."""
    from rich.text import Text

    from recovery.storage.migrate import migrate as bring
    from recovery.storage.urls import shown

    url = database_to_migrate(db=db, app=app)
    before, now = bring(url)
    where = shown(url) if isinstance(url, str) else url.shown
    change = "is current" if before == now else f"was migrated from {before or 'nothing'}"
    output.answer(
        lambda: {"database": where, "from": before, "to": now, "migrated": before != now},
        lambda _paper: Text(f"{where} {change}: schema version {now}."),
    )
    return ExitCode.SETTLED
