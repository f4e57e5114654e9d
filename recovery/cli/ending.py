"""How a command ends: every error becomes its sentence and its exit code, here and nowhere else.

Owns the last line of defence. Invariant: no traceback reaches a person who has not asked for one, and an exit code is never a guess.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Final

from recovery.cli.output import Output, Unwritten
from recovery.core.errors import ExitCode, RecoveryError

INTERRUPTED: Final = 130
"""128 + SIGINT, as shells report it."""

PIPE_CLOSED: Final = 141
"""128 + SIGPIPE: whoever read us has gone, and knows why."""

_BUG: Final = (
    "recover met a bug of its own: {error}. Nothing more was done; what the journal holds is intact. "
    "Please report it with the traceback, which RECOVERY_TRACEBACK=1 or --debug prints."
)

_LEFT: Final = (
    "The app ended this command with {error} before it could answer. Nothing is lost: what was durable stays. "
    "Correct the app, whose traceback --debug prints, and run the same command again."
)
_UNWRITTEN: Final = (
    "The answer could not be written to standard output ({error}). What was done is durable; run the same command again to hear it."
)


def carried_out(work: Callable[[Output], ExitCode], output: Output) -> int:
    """The exit status of `work`, which has said what it had to say. What the app prints meanwhile is no answer: it goes to stderr."""
    try:
        with redirect_stdout(sys.stderr):
            code = int(work(output))
        output.stream.flush()
        return code
    except RecoveryError as error:
        return _said(output, error, str(error), int(error.exit_code))
    except KeyboardInterrupt:
        output.say("Interrupted. Nothing is lost: what was durable stays, and the same command goes on from there.")
        return INTERRUPTED
    except BrokenPipeError:
        # Python would complain once more when it flushes on its way out.
        _silence(output)
        return PIPE_CLOSED
    except Unwritten as error:
        _silence(output)
        output.say(_UNWRITTEN.format(error=error))
        return int(ExitCode.UNRESOLVED)
    except Exception as error:  # noqa: BLE001  # the last line of defence
        return _said(output, error, _BUG.format(error=named(error)), int(ExitCode.BUG))
    except BaseException as error:  # noqa: BLE001  # an app's sys.exit(0) must not pass for "settled"
        return _said(output, error, _LEFT.format(error=named(error)), int(ExitCode.UNRESOLVED))


def named(error: BaseException) -> str:
    """Type and message of any error, even of one whose message cannot be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # it is the app's class
        return type(error).__name__


def _silence(output: Output) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), output.stream.fileno())


def _said(output: Output, error: BaseException, sentence: str, code: int) -> int:
    if output.debug:
        traceback.print_exception(error, file=sys.stderr)
    fields = error.fields if isinstance(error, RecoveryError) else {}
    output.failed(type(error).__name__, sentence, code, fields)
    return code
