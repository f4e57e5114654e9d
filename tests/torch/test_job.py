"""A torch job of one process: complete, exact, and left alone by whatever is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from recovery.checkpoint import CheckpointStore, Learning, Lifecycle, Stage
from recovery.checkpoint.errors import CheckpointInvalid, NothingToRestore, WrongKind
from recovery.checkpoint.lifecycle import Look
from recovery.checkpoint.torch import TorchStore
from tests.torch.jobs import DIGESTS, Training


def trained(updates: int) -> Training:
    training = Training()
    for _ in range(updates):
        training.step()
    return training


@pytest.fixture
def store(tmp_path: Path) -> TorchStore:
    return TorchStore(CheckpointStore(tmp_path))


def test_three_updates_saved_loaded_and_three_more_equal_six(store: TorchStore) -> None:
    first = trained(3)
    store.save(first.job)
    three, six = first.whole(), trained(6)
    whole, digest = six.whole(), six.job.capture().digest
    resumed = Training()
    store.load(resumed.job)
    assert resumed.whole() == three
    for _ in range(3):
        resumed.step()
    assert resumed.whole() == whole
    assert resumed.job.capture().digest == digest


def test_saved_and_loaded_twice_over_it_is_the_same_state(store: TorchStore) -> None:
    training = trained(2)
    digests = {training.job.capture().digest}
    for _ in range(2):
        store.save(training.job)
        training = Training()
        store.load(training.job)
        digests.add(training.job.capture().digest)
    assert len(digests) == 1


def test_it_is_a_checkpoint_like_any_other_and_needs_no_torch_to_be_read(store: TorchStore) -> None:
    training = trained(2)
    saved = store.save(training.job)
    read = store.store.load(saved, kind="learning")
    state = Learning.from_parts(read.arrays, read.state)
    assert (state.digest, saved.manifest.step) == (training.job.capture().digest, 2)
    assert set(state.groups) == {"w", "m", "v", "step", "b"}
    assert not any(b"torch.storage" in path.read_bytes() for path in saved.path.iterdir())


def test_one_flipped_bit_in_any_file_is_refused_and_the_job_is_as_it_was(store: TorchStore) -> None:
    saved = store.save(trained(2).job)
    training = trained(1)
    before = training.job.capture().digest
    for path in sorted(saved.path.iterdir()):
        whole = path.read_bytes()
        for at in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises((CheckpointInvalid, NothingToRestore)):
                store.load(training.job)
            path.write_bytes(whole)
    assert training.job.capture().digest == before
    store.load(training.job)


def test_a_damaged_newest_one_is_passed_over_and_told(store: TorchStore) -> None:
    first = store.save(trained(1).job)
    newest = store.save(trained(2).job)
    (shard,) = newest.path.glob("*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
    training = Training()
    loaded = store.load(training.job)
    assert (loaded.candidate.name, training.job.counter) == (first.name, 1)
    assert [(each.name, each.reason) for each in loaded.rejected] == [(newest.name, "digest")]
    with pytest.raises(CheckpointInvalid, match="digest"):
        store.load(training.job, newest)


def another_key(training: Training) -> None:
    training.job.tensors_too = {"average": torch.zeros(2)}


def another_size(training: Training) -> None:
    training.model.scale = torch.ones(4, dtype=torch.bfloat16)


def another_dtype(training: Training) -> None:
    training.model.scale = torch.ones(3, dtype=torch.float16)


def another_configuration(training: Training) -> None:
    training.job.config = {**training.job.config, "rate": 0.06}


def another_tokenizer(training: Training) -> None:
    training.job.lifecycle = Lifecycle(**{**DIGESTS, "tokenizer": "d" * 64}, stage=Stage("tune"))


def another_generator(training: Training) -> None:
    training.job.generators = {"torch": torch.default_generator}


def another_part(training: Training) -> None:
    training.job.parts = {}


CHANGES: list[tuple[Callable[[Training], None], str]] = [
    (another_key, "x/average"),
    (another_size, "b/scale"),
    (another_dtype, "b/scale"),
    (another_configuration, "rate"),
    (another_tokenizer, "tokenizer"),
    (another_generator, "sampler"),
    (another_part, "schedule"),
]


@pytest.mark.parametrize(("change", "named"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_what_is_only_here_or_only_there_is_refused_by_name(
    change: Callable[[Training], None], named: str, store: TorchStore, tmp_path: Path
) -> None:
    changed, plain = trained(1), trained(2)
    change(changed)
    before = changed.job.capture().digest, plain.job.capture().digest
    store.save(plain.job)
    with pytest.raises(CheckpointInvalid, match=named):
        store.load(changed.job)
    saved = store.save(changed.job)
    for which in (None, saved):  # the newest is not passed over for an older one that would fit
        with pytest.raises(CheckpointInvalid, match=named):
            store.load(plain.job, which)
    assert (changed.job.capture().digest, plain.job.capture().digest) == before


def test_weights_are_no_continuation_and_replace_the_model_alone(store: TorchStore) -> None:
    weights = store.save(trained(3).job, kind="weights")
    assert {name.partition("/")[0] for name in weights.manifest.tensors} == {"w", "b"}
    training = trained(1)
    with pytest.raises(NothingToRestore):
        store.load(training.job)
    with pytest.raises(WrongKind):
        store.load(training.job, weights)
    rest = {name: value for name, value in training.whole()["tensors"].items() if name[0] not in "wb"}
    store.load(training.job, kind="weights")
    now = training.whole()["tensors"]
    assert {name: now[name] for name in rest} == rest
    assert {name: value for name, value in now.items() if name[0] in "wb"} == {
        name: value for name, value in trained(3).whole()["tensors"].items() if name[0] in "wb"
    }
    assert training.job.counter == 1


@pytest.mark.parametrize("kind", ["journal", "receipt"])
def test_a_journal_is_no_checkpoint(kind: str, store: TorchStore) -> None:
    with pytest.raises(WrongKind):
        store.save(Training().job, kind=kind)


def test_a_number_that_is_not_finite_is_refused_and_nothing_is_committed(store: TorchStore) -> None:
    training = trained(1)
    with torch.no_grad():
        training.model.first.weight[0, 0] = float("nan")
    with pytest.raises(CheckpointInvalid, match=r"w/first\.weight"):
        store.save(training.job)
    assert store.store.scan() == []


class Unsayable:
    def state_dict(self) -> dict[str, Any]:
        return {"inner": {1, 2}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        raise AssertionError


def test_a_part_that_is_no_plain_value_is_refused_by_name(store: TorchStore) -> None:
    training = trained(1)
    training.job.parts = {"schedule": training.schedule, "odd": Unsayable()}
    with pytest.raises(CheckpointInvalid, match=r"odd\.inner"):
        store.save(training.job)


class Refuses:
    """Takes on a state and then complains."""

    def __init__(self) -> None:
        self.value = 0

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.value = state_dict["value"]
        if self.value == 3:
            raise ArithmeticError("not this one")


def test_a_part_that_refuses_its_state_leaves_the_whole_job_as_it_was(store: TorchStore) -> None:
    saved, training = trained(2), trained(1)
    for each, value in ((saved, 3), (training, 1)):
        each.job.parts = {**each.job.parts, "refuses": Refuses()}
        each.job.parts["refuses"].value = value
    store.save(saved.job)
    before = training.job.capture().digest
    with pytest.raises(ArithmeticError):
        store.load(training.job)
    assert training.job.capture().digest == before


def test_a_restore_takes_no_look_back(store: TorchStore) -> None:
    training = trained(1)
    store.save(training.job)
    training.job.lifecycle = training.job.lifecycle.merge(training.job.lifecycle.exposure.seen("final", "look-1"))
    store.load(training.job)
    assert training.job.lifecycle.exposure.looks == {Look("final", "look-1")}


def test_what_the_stage_does_not_update_is_compared_by_content(store: TorchStore) -> None:
    def staged(updates: int) -> Training:
        training = trained(updates)
        training.job.lifecycle = Lifecycle(**DIGESTS, stage=Stage("tune", updates=("w", "m", "v", "step")))
        return training

    first, other = staged(1), staged(2)  # the buffer is another one
    store.save(first.job)
    before, state = other.job.capture().digest, first.job.capture()
    with pytest.raises(CheckpointInvalid, match=r"b/scale: stage tune does not update it"):
        store.load(other.job)
    with pytest.raises(CheckpointInvalid, match=r"b/scale: stage tune does not update it"):
        other.job.restore(state)
    assert other.job.capture().digest == before
    store.load(staged(1).job)


def test_a_reference_in_parts_is_refused_since_nobody_can_compare_it(store: TorchStore) -> None:
    training = trained(1)
    training.job.tensors_too = {"policy": torch.ones(2)}
    training.job.lifecycle = Lifecycle(**DIGESTS, stage=Stage("tune"), snapshots={"x": "e" * 64})
    with pytest.raises(CheckpointInvalid, match="a reference cannot be compared in parts"):
        store.save(training.job)
    assert store.store.scan() == []


def test_an_optimizer_without_moments_has_none_and_is_exact(store: TorchStore) -> None:
    def plain() -> Training:
        training = Training()
        training.job.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.1)
        training.schedule = torch.optim.lr_scheduler.StepLR(training.job.optimizer, step_size=2)
        training.job.parts = {"schedule": training.schedule}
        return training

    first = plain()
    first.step()
    saved = store.save(first.job)
    assert {name.partition("/")[0] for name in saved.manifest.tensors} == {"w", "b"}
    first.step()
    two = first.job.capture().digest
    second = plain()
    store.load(second.job)
    second.step()
    assert second.job.capture().digest == two


def test_what_is_trained_meanwhile_is_not_in_a_save_beside_it(store: TorchStore) -> None:
    training = trained(2)
    before = training.job.capture().digest
    pending = store.async_save(training.job)
    training.step()
    read = store.store.load(pending.result(60))
    assert Learning.from_parts(read.arrays, read.state).digest == before
