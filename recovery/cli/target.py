"""The target of a command: which database, and whose workflows.

Owns the precedence of options, environment and pyproject.toml, and the import of an app. Invariant: only a name that the person gave (by
option, environment or the project's own file) is ever imported; a name found in a database never is.
"""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import dataclass
from importlib import import_module
from inspect import iscoroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from recovery.cli.ending import named
from recovery.core.errors import AppNotFound, DefinitionError, RecoveryError
from recovery.core.wording import article

if TYPE_CHECKING:
    from recovery.engine import AsyncEngine, Engine
    from recovery.ports import Journal
    from recovery.storage.urls import Address
    from recovery.vaults import Vault

    AnyEngine: TypeAlias = Engine | AsyncEngine

KEYS: Final = "RECOVERY_KEYS"
DATABASE_DEFAULT: Final = "sqlite:///recovery.db"
_FORM: Final = "Write it as module:engine, for example shop.main:engine."


def finished(came: Any) -> Any:
    """What an engine's method gave, whichever colour the engine has."""
    if not iscoroutine(came):
        return came
    import asyncio

    return asyncio.run(came)


def _at_hand(vault: Vault | None) -> Vault | None:
    try:
        return vault if vault is None or vault.current else None
    except DefinitionError as error:
        print(f"Encrypted values are not shown: {error.problem}.", file=sys.stderr)
        return None


@dataclass(frozen=True, slots=True)
class Target:
    """`app`: the engine of the app, None without one. `url`: the database that was asked for, None for the app's own."""

    app: AnyEngine | None
    url: str | None

    def journal(self) -> Journal:
        """For reading: neither creates nor migrates. Raises StoreUrlError."""
        from recovery.storage import open_journal

        if self.url is None and self.app is not None:
            own = self.app.database
            if own is None or own == "memory://":
                return self.app.journal
            opened = open_journal(own, create=False)
        else:
            opened = open_journal(self.url or DATABASE_DEFAULT, create=False)
        opened.vault = self._keys()
        return opened

    def _keys(self) -> Vault | None:
        """The app's, else those of the environment. Who only looks can do without: an app whose keys are not here is looked into as without keys."""
        if self.app is not None:
            return _at_hand(self.app.encryption)
        if not os.environ.get(KEYS):
            return None
        from recovery.encryption import Keyring

        return Keyring.from_environment(KEYS)

    def looking(self) -> AnyEngine:
        """For a plan: the app's workflows over a journal that is only read."""
        return self.engine() if self.app is None else self.app.on(self.journal())

    def engine(self) -> AnyEngine:
        """For recovering: the app's workflows in the chosen database; without an app an engine that knows none."""
        if self.app is None:
            from recovery.engine import Engine

            return Engine(self.journal())
        return self.app if self.url is None else self.app.on(self.url)


def target(*, db: str | None, app: str | None) -> Target:
    """What was asked for. Raises AppNotFound, and the DefinitionError of an app that defines something wrong."""
    name = app or os.environ.get("RECOVERY_APP") or _from_project()
    return Target(loaded(name) if name else None, db or os.environ.get("RECOVERY_DB") or None)


def database_to_migrate(*, db: str | None, app: str | None) -> str | Address:
    """The database's URL itself, with its password, or the address of an app that brings an engine of its own."""
    chosen = target(db=db, app=app)
    own = chosen.app.database if chosen.app is not None else None
    return chosen.url or own or DATABASE_DEFAULT


def _from_project() -> str | None:
    path = Path("pyproject.toml")
    if not path.is_file():
        return None
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("recovery", {}).get("app")
    except (OSError, ValueError, AttributeError) as error:
        raise _missing(f"pyproject.toml cannot be read ({error})", "Correct it, or name the app with --app.") from error
    if found is not None and not isinstance(found, str):
        raise _missing("[tool.recovery] app in pyproject.toml is not a text", _FORM)
    return found


def loaded(name: str) -> AnyEngine:
    """The engine at `module:attribute`, or the one that a function without arguments there returns."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in module_name.split(".")):
        raise _missing(f"The app {name!r} is not of the form module:engine", _FORM)
    return _engine(name, _attribute(name, _module(name, module_name), attribute))


def _module(name: str, module_name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            advice = "Check its spelling and the directory that you are in, or install the package that has it."
            raise _missing(f"The app {name!r} was not found: there is no module {error.name!r}", advice) from error
        raise _broken(name, error) from error
    except RecoveryError:
        raise  # a definition that cannot be true says so itself
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # it may exit, or raise what is no Exception
        raise _broken(name, error) from error


def _attribute(name: str, module: Any, attribute: str) -> Any:
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            engines = ", ".join(sorted(key for key, value in vars(module).items() if _is_engine(value))) or "none"
            problem = f"The app {name!r} was not found: {module.__name__} has no {attribute!r} (engines in it: {engines})"
            raise _missing(problem, "Name one of its engines.")
        found = getattr(found, part)
    return found


def _engine(name: str, found: Any) -> AnyEngine:
    from recovery.definitions.effect import Effect
    from recovery.definitions.workflow import Workflow

    if not _is_engine(found) and callable(found) and not isinstance(found, type | Effect | Workflow):
        try:
            found = found()
        except (RecoveryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # an app's attribute may run any code; told as a broken app
            raise _broken(name, error) from error
    if not _is_engine(found):
        kind = type(found).__name__
        raise _missing(
            f"The app {name!r} is {article(kind)}, not an engine", "Name an Engine, an AsyncEngine or a function that returns one."
        )
    return cast("AnyEngine", found)


def _is_engine(found: Any) -> bool:
    from recovery.engine import AsyncEngine, Engine

    return isinstance(found, Engine | AsyncEngine)


def _broken(name: str, error: BaseException) -> AppNotFound:
    """The app's own failure, named with its place: the last line of its code that was reached."""
    kind, trace, place = type(error).__name__, error.__traceback__, ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith("<frozen") and path != __file__ and "importlib" not in path:
            place = f", {Path(path).name} line {trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        place = f", {Path(error.filename).name} line {error.lineno}"
        return _missing(f"The app {name!r} does not import ({kind}: {error.msg}{place})", "Correct it first.")
    return _missing(f"The app {name!r} does not import ({named(error)}{place})", "Correct it first; --debug shows its traceback.")


def _missing(problem: str, advice: str) -> AppNotFound:
    return AppNotFound(problem=problem, advice=advice)
