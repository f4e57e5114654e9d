"""On the path of every program whose clock is stepped, whatever it is: under libfaketime with a monotonic clock that is left alone,
`time.sleep` of newer Pythons fails (EINVAL from clock_nanosleep with an absolute time), and waiting for an event does not."""

import threading
import time


def _sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


time.sleep = _sleep
