"""Logs: silent by default, redacted always, cheap when off."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from recovery import logs
from recovery.logs import REDACTED, logger, redact


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger("recovery")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before
    structlog.reset_defaults()


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_a_library_nobody_configured_is_silent() -> None:
    done = run("from recovery.logs import logger; logger('x').error('claimed', run_id='r'); logger('x').debug('claimed')")
    assert (done.stdout, done.stderr) == ("", "")


def test_a_switched_off_event_imports_nothing() -> None:
    code = "import sys; from recovery.logs import logger; logger('x').debug('claimed', a=1); print('structlog' in sys.modules)"
    assert run(code).stdout == "False\n"


def test_an_event_that_nobody_would_see_imports_nothing() -> None:
    code = "import sys; from recovery.logs import logger; logger('x').error('claimed', a=1); print('structlog' in sys.modules)"
    assert run(code).stdout == "False\n"
    assert run(f"import logging; logging.basicConfig(); {code}").stdout == "True\n"


def test_events_reach_the_standard_librarys_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="recovery"):
        logger("engine").info("run claimed", run_id="incident-7", epoch="0.2", owner="process 7 on host")
    (record,) = caplog.records
    assert record.name == "recovery.engine"
    assert record.getMessage() == "run claimed run_id=incident-7 epoch=0.2 owner='process 7 on host'"
    assert record.recovery["run_id"] == "incident-7"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "key", ["password", "db_password", "Authorization", "access_token", "client_secret", "api-key", "Set-Cookie", "PASSWD"]
)
def test_what_has_a_secrets_name_is_not_written(key: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="recovery"):
        logger("x").warning("sent", **{key: "hunter2"}, headers={key: "hunter2"}, items=[{"deep": {key: ["hunter2"]}}])
    (record,) = caplog.records
    assert "hunter2" not in record.getMessage()
    assert "hunter2" not in repr(record.__dict__)
    assert record.getMessage().count(REDACTED) == 3


def test_a_password_inside_a_url_is_not_written() -> None:
    assert redact("postgresql+psycopg://me:hunter2@host:5432/db") == f"postgresql+psycopg://me:{REDACTED}@host:5432/db"
    assert redact({"urls": ["http://host:80/a@b"]}) == {"urls": ["http://host:80/a@b"]}


def test_idempotency_keys_are_not_secrets() -> None:
    """A person needs them to ask the environment."""
    assert redact({"key": "reservation-1", "idempotency_key": "reservation-1"}) == {
        "key": "reservation-1",
        "idempotency_key": "reservation-1",
    }


def test_redaction_does_not_change_what_it_was_given() -> None:
    given = {"headers": {"authorization": "hunter2"}}
    redact(given)
    assert given == {"headers": {"authorization": "hunter2"}}


def test_configure_writes_lines() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)
    logger("x").info("run claimed", run_id="r 1")
    logger("x").debug("not shown")
    assert stream.getvalue() == "info: run claimed logger=recovery.x run_id='r 1'\n"


def test_configure_writes_json() -> None:
    stream = io.StringIO()
    logs.configure(stream=io.StringIO())
    logs.configure(json=True, level=logging.DEBUG, stream=stream)
    logger("x").debug("run claimed", run_id="r1", token="hunter2")
    assert json.loads(stream.getvalue()) == {
        "level": "debug",
        "logger": "recovery.x",
        "event": "run claimed",
        "run_id": "r1",
        "token": REDACTED,
    }


def test_a_programs_own_structlog_receives_events_redacted() -> None:
    seen = structlog.testing.LogCapture()
    structlog.configure(processors=[seen])
    logger("x").warning("run claimed", run_id="r1", token="hunter2")
    assert seen.entries == [
        {"event": "run claimed", "run_id": "r1", "token": REDACTED, "logger": "recovery.x", "log_level": "warning"}
    ]


def test_a_module_that_gives_its_own_name_is_not_named_twice(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "recovery"):
        for name in ("recovery.engine.leases", "engine.leases", "recoveries"):
            logger(name).info("said")
    assert [record.name for record in caplog.records] == ["recovery.engine.leases"] * 2 + ["recovery.recoveries"]
