"""Running: the tests of the core against one mutant, in a process of its own that starts warm.

Owns the fork, the import of the changed module and its limits. Knows nothing of how mutants are made. Invariant: a mutant never touches a
file, and its process ends: by itself, or at CPU_MAX, MEMORY_MAX or TIME_MAX. On a busy machine none is taken for endless that is only slow.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import io
import os
import resource
import signal
import sys
import threading
import time
from contextlib import redirect_stderr, redirect_stdout
from enum import Enum
from types import CodeType, ModuleType
from typing import Final

from tests.mutants.mutation import ROOT, TARGETS, Mutant

CPU_MAX: Final = 60  # seconds of processor time; unchanged, all tests take five
TIME_MAX: Final = 900  # seconds of wall time, for one that waits and does nothing
MEMORY_MAX: Final = 2 << 30  # bytes, for one that remembers each round of an endless loop
_WEIGH: Final = (
    (
        "unit/core/test_rows_reached.py",
        "unit/core/test_counterexamples.py",
        "unit/core/test_judgement.py",
        "unit/core/test_findings.py",
        "unit/core/test_maturing.py",
        "unit/core/test_evidence.py",
        "unit/core/test_in_flight.py",
    ),
    ("unit/core/test_classes.py", "unit/core/test_truth.py"),
    ("model/test_model.py::test_these_settings_keep_the_promises_further_on",),
)
_JUDGE: Final = (("unit/core/test_rows_reached.py",), ("unit/core/test_verdicts.py",), *_WEIGH)
STAGES: Final = {
    "rows_proven": _JUDGE,
    "rows_open": _JUDGE,
    "verdicts": _JUDGE,
    "trust": (("unit/core/test_trust.py",), *_WEIGH),
    "clocks": (("unit/test_clocks.py",), ("integration/test_time.py",)),
    "claims": (("unit/test_claims.py",), ("integration/test_time.py",)),
    "asking": (("unit/drivers/test_asking.py",), ("integration/test_time.py",)),
}
"""By target; those that are not named have the tests of `weigh`. Quickest to notice first: the run ends with the first failure, and a stage
is not even collected before those above have passed."""


class Fate(Enum):
    NOTICED = "noticed"
    ENDLESS = "endless"
    SURVIVED = "survived"


def warm() -> None:
    """Import what every run needs and no mutant changes; what does change, and what imported it, is forgotten again."""
    import hypothesis
    import pytest

    hypothesis.settings.register_profile("mutants", derandomize=True, max_examples=50, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        pytest.main([*_OPTIONS, "--collect-only", *(str(ROOT / "tests" / name) for stage in _JUDGE for name in stage)])
    for name in [name for name in sys.modules if name.split(".")[0] in {"recovery", "tests"} and not name.startswith(__package__)]:
        del sys.modules[name]


_OPTIONS: Final = (
    "-x", "-q", "--assert=plain", "--timeout=0", "--no-header",
    *(word for name in ("cacheprovider", "xdist", "unraisableexception", "threadexception") for word in ("-p", f"no:{name}")),
)  # fmt: skip
_fork = threading.Lock()


def fate(mutant: Mutant) -> Fate:
    """What becomes of it."""
    with _fork:  # two threads must not fork at once
        pid = os.fork()
        if pid == 0:
            os._exit(_run(mutant))
    until = time.monotonic() + TIME_MAX
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return _fate_of(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return Fate.ENDLESS


def _fate_of(status: int) -> Fate:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL}:
        return Fate.ENDLESS
    return Fate.SURVIVED if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0 else Fate.NOTICED


def _run(mutant: Mutant) -> int:
    """In the child: the exit code of the tests, 0 if nothing was noticed."""
    gc.freeze()  # what was there before the fork stays shared
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_MAX, CPU_MAX + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    try:
        code = compile(mutant.tree, f"<{mutant.name}>", "exec")
        sys.meta_path.insert(0, _Changed(TARGETS[mutant.module], code))
        sys.dont_write_bytecode = True
        os.chdir(ROOT)
        import pytest

        stages = STAGES.get(mutant.module, _WEIGH)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return int(any(pytest.main([*_OPTIONS, *(str(ROOT / "tests" / name) for name in stage)]) for stage in stages))
    except BaseException:  # a mutant that breaks the import is noticed, too
        return 1


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module its changed code."""

    def __init__(self, name: str, code: CodeType) -> None:
        self.name = name
        self.code = code

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname == self.name else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)
