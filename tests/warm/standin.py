"""Stands on a shell's path as `python` or `recover`: has the warm parent run the program on its own streams, and ends as that did.

Knows nothing of the program. What the parent cannot run, and everything where no parent is named, is what it stands in for that runs it:
the same command in the directory of the interpreter that runs this. Started with -I and -S, it imports next to nothing.
"""

import _signal
import _socket
import os
import sys


def main() -> None:
    real = os.path.join(os.path.dirname(sys.executable), os.path.basename(sys.argv[0]))  # noqa: PTH118, PTH119, PTH120  # pathlib costs as much as all the rest
    program = sys.argv[1:] if os.path.basename(real) == "python" else [real, *sys.argv[1:]]  # noqa: PTH119
    if program and (code := _asked(program)) is not None:
        if code < 0:
            if code != -_signal.SIGKILL:
                _signal.signal(-code, _signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)
    os.execv(real, [real, *sys.argv[1:]])


def _asked(program: list[str]) -> int | None:
    """How the program ended; None if it could not be run."""
    if not (door := os.environ.get("WARM_PARENT")):
        return None
    asking = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    asking.connect(door)
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    request = os.fsencode("\0".join([os.getcwd(), str(len(program)), *program, *environment]))  # noqa: PTH109
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    asking.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    if int(asking.recv(100)) < 0:
        return None
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, lambda sent, _frame: asking.send(b"%d" % sent))
    return int(asking.recv(100))


main()
