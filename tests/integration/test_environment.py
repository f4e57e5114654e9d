"""The checkout's virtual environments: made once, however many makes ask at the same time; no half of one is left."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def asked(environment: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "tests/environment.py", str(environment), "--stamp", ".test", *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_six_makes_at_once_make_one_environment_of_what_a_killed_one_left(tmp_path: Path) -> None:
    """To make one takes seconds, so this is all about one: an install that fails leaves no stamp in it, and the next make goes on."""
    environment, optional = tmp_path / "environment", tmp_path / "optional.txt"
    optional.write_text("./no-such-directory\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    makes = [asked(environment, "--each-of", str(optional), "--", "pip") for _ in range(6)]
    said = [make.communicate(timeout=120)[0] for make in makes]
    assert [make.returncode for make in makes] == [0] * 6, said
    assert "".join(said).count("./no-such-directory cannot be installed here; going on without it") == 1  # the others found it made
    assert (environment / ".test").exists()
    subprocess.run([environment / "bin" / "python", "-m", "pip", "--version"], check=True, capture_output=True)

    (environment / ".test").unlink()
    failed = asked(environment, "--", "--no-index", "no-such-package-anywhere")
    failed.communicate(timeout=120)
    assert failed.returncode != 0
    assert not (environment / ".test").exists()
    again = asked(environment, "--", "pip")
    assert (again.communicate(timeout=120)[0], again.returncode) == ("", 0)
    assert (environment / ".test").exists()


def test_what_cannot_be_made_is_said_in_a_line_and_leaves_no_stamp(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    environment.write_text("a file where the environment should be", encoding="utf-8")
    make = asked(environment)
    said = make.communicate(timeout=120)[0]
    assert make.returncode == 1
    assert said.splitlines()[-1].endswith(
        "could not make a virtual environment. On Debian and Ubuntu, install the package python3-venv."
    )
    assert "Traceback" not in said
