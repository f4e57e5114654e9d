"""The reference trainer: small, repeatable to the last bit, and wholly in what it captures."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np

from recovery.checkpoint.reference import CONFIG, ReferenceTrainer, make, step

FORTY = """
import numpy as np
from recovery.checkpoint.reference import make, step
trainer = make()
for _ in range(40):
    step(trainer)
print(trainer.capture().digest)
"""


def trained(updates: int, config: object = CONFIG) -> ReferenceTrainer:
    trainer = ReferenceTrainer(config)  # type: ignore[arg-type]
    for _ in range(updates):
        trainer.step()
    return trainer


def test_two_examples_an_update_are_eighty_draws() -> None:
    state = trained(40).capture()
    assert (state.counter, state.cursor.draws, len(state.history)) == (40, 80, 40)
    state.check()


def test_forty_updates_are_seventeen_and_twenty_three_bit_for_bit() -> None:
    second = make()
    second.restore(trained(17).capture())
    for _ in range(23):
        step(second)
    assert second.capture().digest == trained(40).capture().digest


def test_it_learns() -> None:
    losses = trained(400, {**CONFIG, "horizon": 400, "dropout": 0.0}).losses
    assert sum(losses[-50:]) < 0.1 * sum(losses[:50])


def test_its_gradients_are_those_of_the_loss() -> None:
    """Against differences of the loss, weight by weight: a wrong sign or a forgotten factor would still train."""
    trainer = ReferenceTrainer({**CONFIG, "dropout": 0.0})
    text, target = trainer.tokens[0], float(trainer.targets[0])
    gradients = {name: np.zeros_like(values) for name, values in trainer.weights.items()}
    trainer._learn_from(text, target, gradients)
    for name, values in trainer.weights.items():
        for index in np.ndindex(values.shape):
            kept, losses = values[index], []
            for moved in (1e-6, -1e-6):
                values[index] = kept + moved
                losses.append(trainer._learn_from(text, target, {n: np.zeros_like(v) for n, v in gradients.items()}))
            values[index] = kept
            assert abs((losses[0] - losses[1]) / 2e-6 - gradients[name][index]) < 1e-8


def test_the_order_of_sums_in_a_linear_algebra_library_does_not_reach_it() -> None:
    """Another process, another number of threads, none of the vector instructions that numpy found here: the same bits."""
    expected = trained(40).capture().digest
    found = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])  # type: ignore[union-attr]
    settings = {"OPENBLAS_NUM_THREADS": "1", "NPY_DISABLE_CPU_FEATURES": " ".join(found), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-W", "ignore", "-c", FORTY]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_every_weight_moves_in_the_first_update() -> None:
    """Or a frozen part would make a resume look exact that is not."""
    trainer = ReferenceTrainer({**CONFIG, "dropout": 0.0})
    before = trainer.capture()
    trainer.step()
    after = trainer.capture()
    assert all((before.arrays[name] != after.arrays[name]).any() for name in before.arrays)


def test_the_rate_comes_down_to_its_least_and_stays_there() -> None:
    trainer = make()
    rates = [trainer.rate(update) for update in range(1, 50)]
    assert rates[29:] == [CONFIG["rate_least"]] * 20
    assert all(one > other for one, other in pairwise(rates[:30]))


def test_another_order_of_letters_is_another_tokenizer_of_the_same_size() -> None:
    """The same texts and targets, other numbers for the letters: it trains on, and is another run."""
    one, other = trained(3), trained(3, {**CONFIG, "vocabulary": CONFIG["vocabulary"][::-1]})
    assert one.texts == other.texts
    assert one.lifecycle.data == other.lifecycle.data
    assert one.lifecycle.tokenizer != other.lifecycle.tokenizer
    assert one.losses != other.losses
