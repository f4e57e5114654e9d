"""A run that leaves a file in the checkout fails, and names it."""

from __future__ import annotations

import pytest


def test_what_tests_leave_is_told_once_and_fails_the_run(pytester: pytest.Pytester) -> None:
    """Also where workers ran them: each of those would tell everything again."""
    pytester.makepyfile("""
        from pathlib import Path
        def test_one():
            for path in ("there", "done-1", "tests/kept/a.db", ".cache/a", "build/a", "tests/__pycache__/a"):
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text("new")
    """)
    (pytester.path / "there").touch()
    ran = pytester.runpytest("-p", "tests.strays", "-p", "no:cacheprovider", "-n", "1")
    ran.assert_outcomes(passed=1)
    left = [line.rpartition(": ")[2] for line in ran.outlines if line.startswith("LEFT IN THE CHECKOUT")]
    assert left == ["done-1", "tests", "tests/kept", "tests/kept/a.db"]
    assert ran.ret == pytest.ExitCode.TESTS_FAILED
