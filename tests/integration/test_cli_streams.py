"""What an app and a shell can do to a command's streams and ending: the exit code stays true, and stdout holds the answer alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli_place import APP, Ended, Place

LEAVING = """
import os, sys
from recovery import Call, Engine, Run, contracts, effect, workflow

class Own(BaseException):
    def __str__(self):
        raise RuntimeError("it has no words")

def leave():
    how = os.environ.get("LEAVE", "die")
    if how == "die":
        os._exit(9)
    if how == "exit":
        sys.exit(0)
    raise Own

@effect(contracts.Opaque())
def send(call: Call) -> None:
    leave()

@workflow
def by_itself(run: Run) -> None:
    leave()

@workflow
def by_its_effect(run: Run) -> None:
    run.perform(send())

@workflow
def by_its_decision(run: Run) -> None:
    run.decide("what", leave)

engine = Engine("sqlite:///leaving.db", workflows=[by_itself, by_its_effect, by_its_decision])
if __name__ == "__main__":
    engine.run("r", globals()[sys.argv[1]])
"""


@pytest.mark.parametrize("how", ["exit", "own"])
@pytest.mark.parametrize("where", ["by_itself", "by_its_effect"])
def test_an_app_that_leaves_does_not_pass_for_settled(place: Place, where: str, how: str) -> None:
    (place.directory / "leaving.py").write_text(LEAVING)
    if where == "by_its_effect":  # an opaque effect is not sent twice: this one must not have been sent before
        place.run_python("leaving.py", where, RECOVERY_CRASH_AT="append.intent.before")
    else:
        assert place.run_python("leaving.py", where).code == 9
    ended = place.recover("--run-id", "r", "--app", "leaving:engine", "--no-wait", LEAVE=how)
    assert ended.code == 4
    assert ended.sentence.startswith("The app ended this command with " + ("SystemExit: 0" if how == "exit" else "Own before"))
    assert "same command again" in ended.sentence


@pytest.mark.parametrize("text", ["class Own(BaseException): ...\nraise Own\n", "import sys\ndef engine():\n    sys.exit(0)\n"])
def test_an_app_that_leaves_before_it_is_there_is_no_app(place: Place, text: str) -> None:
    (place.directory / "gone.py").write_text(text)
    ended = place.recover("--run-id", "r", "--app", "gone:engine")
    assert ended.code == 2
    assert "does not import" in ended.sentence


def test_what_an_app_prints_is_no_answer(place: Place) -> None:
    place.worker("order", "o1", "screw", crash_at="send.before")
    code = place.directory / "shop.py"
    code.write_text(
        code.read_text()
        .replace("def happen(", "print('while importing')\n\ndef happen(")
        .replace("    while Path", "    print('at work')\n    while Path")
    )
    ended = place.recover("--run-id", "o1", "--app", APP, "--json")
    assert ended.code == 0
    assert ended.document["outcome"]["value"] == "booked screw in blue"
    assert "while importing" in ended.err
    assert "at work" in ended.err


def _with_closed(place: Place, numbers: list[int], *arguments: str) -> Ended:
    command = [sys.executable, "-m", "recovery", *arguments]

    def close() -> None:
        for number in numbers:
            os.close(number)

    streams = {"stdout": None, "stderr": None} if {1, 2} <= set(numbers) else {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ended = subprocess.run(command, cwd=place.directory, preexec_fn=close, text=True, timeout=240, **streams)
    return Ended(ended.returncode, ended.stdout or "", ended.stderr or "")


@pytest.mark.parametrize(("numbers", "extra"), [([1], []), ([1], ["--json"]), ([0, 1, 2], [])], ids=str)
def test_closed_streams_change_no_exit_code(place: Place, numbers: list[int], extra: list[str]) -> None:
    place.worker("order", "o1", "screw")
    for arguments, code in ((["show", "o1"], 0), (["show", "x"], 2)):
        ended = _with_closed(place, numbers, *arguments, "--db", "sqlite:///shop.db", *extra)
        assert ended.code == code
        assert "Traceback" not in ended.err


def test_an_answer_that_cannot_be_written_is_no_bug(place: Place) -> None:
    place.worker("order", "o1", "screw")
    for extra in ([], ["--json"]):
        arguments = ("show", "o1", "--db", "sqlite:///shop.db", *extra)
        with Path("/dev/full").open("w") as full, place.recovering(*arguments, stdout=full.fileno()) as showing:
            _, err = showing.communicate(timeout=240)
        assert showing.returncode == 4
        assert err == (
            "The answer could not be written to standard output (No space left on device). What was done is durable; "
            "run the same command again to hear it.\n"
        )
