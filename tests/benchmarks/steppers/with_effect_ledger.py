"""effect-ledger: `execute` for each step, synchronous=FULL, which is its default. It has no asynchronous interface: runs share threads."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import turns
from effect_ledger import EffectExecutor

THREADS = 16
if turns.URL:
    from effect_ledger.postgres import PostgresOperationStore

    executor = EffectExecutor(scope="bench", store=PostgresOperationStore(turns.URL))
else:
    executor = EffectExecutor(turns.sqlite("effects.sqlite"), scope="bench")
numbers = count(1)


def one_by_one(run, steps):
    for at in range(steps):
        executor.execute(f"{run}:{at}", "step:v1", {"number": at}, lambda operation: operation.request["number"])


def sequential(runs, steps):
    for _ in range(runs):
        one_by_one(f"run-{next(numbers)}", steps)


def concurrent(runs, steps):
    names = [f"run-{next(numbers)}" for _ in range(runs)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda name: one_by_one(name, steps), names))


turns.serve(sequential=sequential, concurrent=concurrent)
