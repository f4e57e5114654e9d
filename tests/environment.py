"""Makes a virtual environment of this checkout and installs into it, once, however many makes ask for it at the same time.

Owns: the environments that the Makefile names. Runs under any Python 3 there is, before anything is installed: the standard library alone.
Must not know: what the environments are for.
Invariant: a stamp stands only in an environment that is whole; what could not be finished leaves none, and no half of an environment.

    python3 tests/environment.py .venv --stamp .test -- -e '.[test]'

Two that make one environment at once undo each other's: links that exist already, a pip that is being replaced. So they take turns, on a lock of
the directory that it stands in, which leaves no file behind and falls with the process that holds it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

OLDEST = (3, 11)


def main(arguments: list[str]) -> int:
    """Make the environment and install into it what is asked for, unless its stamps are newer than what they follow.

    Args:
        arguments: As on the command line. What stands behind `--` is given to pip install.

    Returns:
        The exit code: 0, or 1 with one line on standard error that says what to do.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    asked, wanted = _options().parse_args(arguments[:end]), arguments[end + 1 :]
    if sys.version_info < OLDEST:
        return _refused(f"{sys.executable} is too old: recovery needs Python 3.11 or newer. Say: make PYTHON=/path/to/python3.11")
    asked.environment.parent.mkdir(parents=True, exist_ok=True)
    turn = os.open(asked.environment.parent, os.O_RDONLY)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        return _made(asked, wanted)
    finally:
        os.close(turn)


def _made(asked: argparse.Namespace, wanted: list[str]) -> int:
    stamps = [asked.environment / name for name in asked.stamp]
    if stamps and all(_is_newer(stamp, asked.behind) for stamp in stamps):
        return 0
    python, made = asked.environment / "bin" / "python", asked.environment / ".made"
    if not made.exists():  # its interpreter alone says nothing: who made it may have been killed before pip was there
        shutil.rmtree(asked.environment, ignore_errors=True)
        if subprocess.run([sys.executable, "-m", "venv", str(asked.environment)], check=False).returncode:
            shutil.rmtree(asked.environment, ignore_errors=True)
            return _refused(
                f"{sys.executable} could not make a virtual environment. On Debian and Ubuntu, install the package python3-venv."
            )
        made.touch()
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if wanted and (code := subprocess.run([*install, *wanted], check=False).returncode):
        return code
    for each in _lines(asked.each_of):
        if subprocess.run([*install, each], check=False).returncode:
            print(f"{each} cannot be installed here; going on without it", file=sys.stderr)
    for stamp in stamps:
        stamp.touch()
    return 0


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], allow_abbrev=False, epilog="What stands behind -- is given to pip install."
    )
    options.add_argument("environment", type=pathlib.Path, help="its directory")
    options.add_argument(
        "--stamp", action="append", default=[], metavar="NAME", help="a file in it that says that it is whole; may be given again"
    )
    options.add_argument(
        "--behind", action="append", default=[], type=pathlib.Path, metavar="FILE", help="what a stamp must be newer than"
    )
    options.add_argument(
        "--each-of", type=pathlib.Path, metavar="FILE", help="requirements, a line each, that may be missing afterwards"
    )
    return options


def _is_newer(stamp: pathlib.Path, files: list[pathlib.Path]) -> bool:
    return stamp.exists() and all(
        stamp.stat().st_mtime >= file.stat().st_mtime for file in (pathlib.Path("pyproject.toml"), *files)
    )


def _lines(file: pathlib.Path | None) -> list[str]:
    return file.read_text(encoding="utf-8").split() if file else []


def _refused(why: str) -> int:
    print(why, file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
