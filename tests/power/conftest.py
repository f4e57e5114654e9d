"""The numbers of each sweep, below the tests' own summary; and the one reason for which these tests may be skipped."""

from __future__ import annotations

import pytest

from tests.power.mount import why_not


@pytest.fixture
def disk() -> None:
    """What the issue names: without FUSE nothing here can be shown, and a skipped proof counts as unproved."""
    if reason := why_not():
        pytest.skip(reason)  # FUSE is a part of the machine; .ci/run installs fuse3 where it may


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "swept":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")
