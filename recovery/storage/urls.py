"""Database URLs: what they may say, and how they are shown.

Owns parsing and masking. Knows nothing of connections. Invariant: no password, in whatever part of a URL, is ever shown.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from recovery.core.errors import StoreUrlError
from recovery.storage.place import Place

NETWORK_OPTION: Final = "network_file_system"
ACCEPTED: Final = "accepted"

_ADVICE: Final = "Use memory://, sqlite:///file.db or postgresql://user@host/database."
_POSTGRES: Final = {"postgres", "postgresql", "postgresql+psycopg"}
_PORTS: Final = range(1, 2**16)  # the server's library takes 0 for its default
_SECRETS: Final = re.compile(r"(://[^:@/]*:).*(?=@)|((?:^|[?&\s])[^=&?\s]*pass[^=&\s]*=)[^&]*", re.IGNORECASE)


def shown(url: str) -> str:
    """The URL for people. Works on text that is no URL, too: a typing error must not leak what it was made in."""
    masked = _SECRETS.sub(lambda found: f"{found[1] or found[2]}***", url)
    return masked if "://" in masked or "@" not in masked else f"***@{masked.rpartition('@')[2]}"


def refused(url: str, problem: str, advice: str = _ADVICE) -> StoreUrlError:
    return StoreUrlError(url=shown(url), problem=problem, advice=advice)


ENCODED: Final = {"client_encoding": "utf8"}
"""Of each connection to a server that we make: below the driver a text is said as its UTF-8, and a database, a role or the environment may have another
encoding in mind."""
WHOLE_TEXTS: Final = "Make a database with ENCODING 'UTF8': another one does not hold every text."


@dataclass(frozen=True, slots=True)
class Address:
    """A database, and what its URL says about the use of it."""

    url: URL
    """With SQLAlchemy's name of the driver, and without what is said to us."""
    shown: str
    """For people, without password."""
    place: Place
    network_accepted: bool = False
    """An SQLite file may be on a network file system, whatever that does to it."""
    lent: Engine | None = None
    """A service's own engine, whose connections are used; None: connections of our own."""


def parsed(url: str) -> Address:
    """Raises StoreUrlError."""
    scheme = url.partition("://")[0]
    if any("\ud800" <= letter <= "\udfff" for letter in url):
        raise refused(url, "there is a character in it that is no Unicode", "Give the file a name in UTF-8.")
    if scheme not in _POSTGRES | {"sqlite"}:
        raise refused(url, f"{shown(scheme)!r} is not a kind of database known here" if "://" in url else "it is not a URL")
    try:
        made = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise refused(url, "it is not a URL") from error
    if scheme in _POSTGRES:
        if made.port is not None and made.port not in _PORTS:
            raise refused(url, f"{made.port} is not a port", f"Use one of {_PORTS[0]} to {_PORTS[-1]}.")
        if "%00" in url or "\0" in url:  # the server's library would read up to it, and connect to somewhere else
            raise refused(url, "there is a NUL character in it")
    options = dict(made.query)
    place = _place(url, options)
    if scheme in _POSTGRES:
        told = shown(made.set(drivername="postgresql").render_as_string(hide_password=False))
        return Address(made.set(drivername="postgresql+psycopg", query=options), told, place)
    network = options.pop(NETWORK_OPTION, None)
    if place.schema:
        raise refused(url, "SQLite has no schemas", "Use table_prefix.")
    if made.host or options or ("?" in url and not made.query):
        advice = f"Use sqlite:///file.db; behind a ? it may say table_prefix= and {NETWORK_OPTION}=."
        raise refused(url, "an SQLite URL has three slashes, a path, and no such options", advice)
    if network not in {None, ACCEPTED}:
        raise refused(url, f"{NETWORK_OPTION} has one value, {ACCEPTED}", "Leave it out, unless you run that risk.")
    if not made.database or made.database == ":memory:":
        raise refused(url, "it names no file", "Use sqlite:///file.db, or memory:// for a journal that dies with its process.")
    address = made.set(drivername="sqlite+pysqlite", query={})
    return Address(address, shown(made.render_as_string()), place, network_accepted=network is not None)


def lent(engine: Any, schema: str, table_prefix: str) -> Address:
    """The database of a service's own engine. Of SQLite only the file is taken: what our connections to it must be set to is not a service's to bear.
    Raises StoreUrlError."""
    url: Any = getattr(engine, "url", None)
    if isinstance(engine, Engine) and engine.dialect.name == "sqlite" and (url.query or url.database in {None, "", ":memory:"}):
        raise refused(str(url), "it is no plain file", "Name the file by its URL, sqlite:///file.db.")
    if isinstance(engine, Engine) and engine.dialect.name == "sqlite":
        options = {"table_prefix": table_prefix, "schema": schema}
        named = url.set(drivername="sqlite", query={name: value for name, value in options.items() if value})
        return parsed(named.render_as_string())
    if not isinstance(engine, Engine) or engine.dialect.driver != "psycopg" or engine.dialect.is_async:
        problem = f"{type(engine).__name__} over {getattr(url, 'drivername', 'no URL')} is not SQLAlchemy's Engine over psycopg or sqlite3"
        advice = "Give create_engine('postgresql+psycopg://...'), for AsyncEngine, too: no commit of ours is made on an event loop."
        raise refused(str(url), problem, advice)
    options = {"schema": schema, "table_prefix": table_prefix}
    told = url.set(drivername="postgresql").update_query_dict({name: value for name, value in options.items() if value})
    text = told.render_as_string(hide_password=False)
    return Address(url, shown(text), _place(text, options), lent=engine)


def _place(url: str, options: dict[str, Any]) -> Place:
    """Taken out of the options. Raises StoreUrlError."""
    said = [options.pop(name, "") for name in ("schema", "table_prefix")]
    if not all(isinstance(each, str) for each in said):
        raise refused(url, "it says schema or table_prefix twice", "Say each once.")
    place = Place(*said)
    if problem := place.problem():
        raise refused(url, problem, "Choose another name.")
    return place


def sqlite_path(url: URL) -> Path:
    """The file of an SQLite URL: absolute, so that a later change of the working directory does not move it, and itself rather than a
    link to it, so that all its users take one lock. Raises StoreUrlError for what can be no path."""
    try:
        return Path(url.database or "").resolve()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links that lead to themselves, before Python 3.13
        raise refused(url.render_as_string(), f"its path is none ({error})", "Check the path.") from error


def is_file(path: Path, shown_url: str) -> bool:
    """Whether a regular file is there. Raises StoreUrlError for anything else, since opening a pipe would wait for ever, and where it
    cannot be known."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        problem = error.strerror or str(error)
        raise StoreUrlError(url=shown_url, problem=problem, advice="Check the path and its permissions.") from error
    if not stat.S_ISREG(mode):
        problem = "Is a directory" if stat.S_ISDIR(mode) else "it is not a regular file"
        raise StoreUrlError(url=shown_url, problem=problem, advice="Check the path.")
    return True
