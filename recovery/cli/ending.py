"""How a command ends: every error becomes its sentence and its exit code, here and nowhere else.

Owns the last line of defence. Invariant: no traceback reaches a person who has not asked for one, and an exit code is never a guess.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Final

from recovery.cli.output import Output
from recovery.core.errors import ExitCode, RecoveryError

INTERRUPTED: Final = 130
"""128 + SIGINT, as shells report it."""

PIPE_CLOSED: Final = 141
"""128 + SIGPIPE: whoever read us has gone, and knows why."""

_BUG: Final = (
    "recover met a bug of its own: {error}. Nothing more was done; what the journal holds is intact. "
    "Please report it with the traceback, which RECOVERY_TRACEBACK=1 or --debug prints."
)


def carried_out(work: Callable[[Output], ExitCode], output: Output) -> int:
    """The exit status of `work`, which has said what it had to say."""
    try:
        code = int(work(output))
        sys.stdout.flush()
        return code
    except RecoveryError as error:
        return _said(output, error, str(error), int(error.exit_code))
    except KeyboardInterrupt:
        output.say("Interrupted. Nothing is lost: what was durable stays, and the same command goes on from there.")
        return INTERRUPTED
    except BrokenPipeError:
        # Python would complain once more when it flushes on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001  # the last line of defence
        return _said(output, error, _BUG.format(error=f"{type(error).__name__}: {error}"), int(ExitCode.BUG))


def _said(output: Output, error: Exception, sentence: str, code: int) -> int:
    if output.debug:
        traceback.print_exception(error, file=sys.stderr)
    fields = error.fields if isinstance(error, RecoveryError) else {}
    output.failed(type(error).__name__, sentence, code, fields)
    return code
