"""Verifying a resume: the fixture in fresh processes, and what is found in trainers with a fault.

The numbers of faults are those of public projects' threads: 13 a cached structure, 14 a second resume, 15 generators, 17 the place in the
data, 18 the boundary of an update, 19 schedules, 22 keys, 38 tokenizers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint import reference
from recovery.checkpoint.errors import CheckpointInvalid, TrainerRefused, WrongKind
from recovery.checkpoint.fingerprint import fingerprint
from recovery.checkpoint.learning import Learning, Weights, continued
from recovery.checkpoint.reference import ReferenceTrainer, make
from recovery.checkpoint.resume.ablation import Dropped
from recovery.checkpoint.resume.resuming import Shelf
from recovery.checkpoint.resume.tolerance import REORDERED
from recovery.checkpoint.resume.verifying import Finding, ResumeReport, judged, verify_resume
from recovery.checkpoint.store import CheckpointStore
from tests.integration import resume_trainers as trainers

MODULE = "tests.integration.resume_trainers"


@pytest.fixture(autouse=True)
def global_generators() -> Iterator[None]:
    kept = random.getstate(), np.random.get_state()
    yield
    random.setstate(kept[0])
    np.random.set_state(kept[1])


def here(make: Callable[[], Any], **given: Any) -> ResumeReport:
    """In this process and with few updates, where a look costs milliseconds."""
    return verify_resume(make, trainers.step, fresh_process=False, **{"before": 3, "after": 3, "ablate": False, **given})


@pytest.fixture(scope="module")
def whole() -> ResumeReport:
    """17 and 23 against 40, in fresh processes, from files."""
    return verify_resume()


def test_seventeen_and_twenty_three_in_a_fresh_process_equal_forty(whole: ResumeReport) -> None:
    assert whole.ok
    assert (whole.finding, whole.divergence) == (Finding.EXACT, None)
    assert (whole.before, whole.after, whole.draws) == (17, (23,), 80)
    assert whole.compared == whole.fields * (17 + 1 + 23)


def test_every_field_that_is_dropped_is_missed(whole: ResumeReport) -> None:
    dropped = {each.field: each for each in whole.dropped}
    assert [*dropped] == [
        "w", "m", "v", "counter", "generators.draws", "generators.masks", "cursor", "history", "config", "lifecycle",
    ]  # fmt: skip
    assert all(each.refused for each in dropped.values())
    diverged = {name: each.diverged.step for name, each in dropped.items() if each.diverged}
    assert diverged == dict.fromkeys(["w", "m", "v", "counter", "generators.draws", "generators.masks", "cursor", "history"], 18)
    weights = {name: each.weights.step for name, each in dropped.items() if each.weights}
    assert weights == dict.fromkeys(["w", "m", "v", "counter", "generators.draws", "generators.masks"], 18)


def test_a_divergence_is_named_by_field_step_index_and_distance(whole: ResumeReport) -> None:
    moments = next(each.diverged for each in whole.dropped if each.field == "m")
    assert moments is not None
    assert (moments.field, moments.step, moments.index) == ("m/embedding", 18, (0, 0))
    assert moments.ulps is not None
    assert moments.ulps > 0
    assert float(moments.expected) != float(moments.found)
    assert "w/output" in moments.also


def test_weights_alone_leave_the_trajectory_and_the_report_shows_where(whole: ResumeReport) -> None:
    lines = {each.name: each.points for each in whole.trajectories}
    assert [*lines] == ["uninterrupted", "resumed", "weights only", "all but the moments"]
    assert [len(points) for points in lines.values()] == [40, 23, 23, 23]
    assert all(each.apart == 0 and each.ulps == 0 for each in lines["resumed"])
    assert [each.loss for each in lines["resumed"]] == [each.loss for each in lines["uninterrupted"][17:]]
    for name in ("weights only", "all but the moments"):
        assert all(each.apart > 1e-4 and (each.ulps or 0) > 10**9 for each in lines[name])
        assert lines[name][0].step == 18


def test_several_resumes_inside_the_same_run_are_exact() -> None:
    """Fault 14: the second resume of the projects that had it was another run."""
    report = here(make, after=(2, 1, 3))
    assert report.ok
    assert (report.after, report.draws, len(report.trajectories[1].points)) == ((2, 1, 3), 18, 6)


def test_the_checkpoints_can_be_kept_and_loaded(tmp_path: Path) -> None:
    here(make, before=3, after=(2, 2), directory=tmp_path / "kept")
    assert [each.name for each in (tmp_path / "kept").iterdir()] == ["store"]
    assert Shelf(tmp_path / "kept" / "store").load().counter == 5
    with pytest.raises(TrainerRefused, match="not empty"):
        here(make, directory=tmp_path / "kept")


# -- faults ------------------------------------------------------------------------------------------------------------


def test_13_a_later_save_that_writes_the_first_ones_tensors_is_seen() -> None:
    report = here(trainers.CachesItsFirstCapture)
    assert report.finding is Finding.HIDDEN_STATE
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.field) == (4, "history")


def test_13_what_changed_has_another_digest_and_both_saves_read_back(tmp_path: Path) -> None:
    trainer, shelf, saved = make(), Shelf(tmp_path), []
    for _ in range(2):
        trainer.step()
        shelf.save(trainer.capture())
        saved.append((trainer.capture().digest, shelf.load().digest))
    assert [written for written, _ in saved] == [read for _, read in saved]
    assert saved[0] != saved[1]


def test_14_a_round_trip_changes_nothing_however_often(tmp_path: Path) -> None:
    trainer, shelf = make(), Shelf(tmp_path)
    trainer.step()
    first = trainer.capture().digest
    for _ in range(3):
        shelf.save(trainer.capture())
        trainer.restore(shelf.load())
        assert trainer.capture().digest == first


def test_14_a_restore_that_is_right_only_once_is_seen() -> None:
    report = here(trainers.AppendsToItsHistory)
    assert report.finding is Finding.NOT_IDEMPOTENT
    assert report.divergence is not None
    assert (report.divergence.field, report.divergence.found) == ("history", "float64 [6]")


@pytest.mark.parametrize("make_it", [trainers.ForgetsItsMasks, trainers.SwallowsAMissingState])
def test_15_a_generator_that_is_not_registered_is_seen(make_it: Callable[[], Any]) -> None:
    report = here(make_it)
    assert report.finding is Finding.HIDDEN_STATE
    assert report.divergence is not None
    assert (report.divergence.field, report.divergence.step, report.divergence.index) == ("history", 4, (3,))
    assert report.unregistered == ("masks",)
    assert "a generator that is not registered" in report.advice


def test_15_a_state_without_a_generator_is_refused() -> None:
    with pytest.raises(CheckpointInvalid, match="without masks; exactly the run's are taken"):
        trainers.ForgetsItsMasks().capture().check_fits(make().capture())


def test_15_the_process_wide_generator_can_be_registered() -> None:
    report = here(trainers.RegistersNumpyItself)
    assert report.ok
    assert report.unregistered == ()


def test_15_the_process_wide_generator_is_seen_where_it_is_not_registered() -> None:
    report = here(trainers.DrawsFromNumpyItself)
    assert report.finding is Finding.HIDDEN_STATE
    assert report.unregistered == ("numpy.random",)


def test_17_the_place_in_the_epoch_survives_two_resumes_inside_it() -> None:
    """Fifteen updates of two are six epochs of five; both resumes fall inside the second one."""
    report = here(trainers.Epochs, before=3, after=(1, 11))
    assert report.ok
    assert report.draws == 30


def test_17_the_list_of_what_was_drawn_equals_the_uninterrupted_one() -> None:
    reference, resumed = trainers.Epochs(), trainers.Epochs()
    for update in range(12):
        reference.step()
        resumed.step()
        if update in {2, 3}:
            state, resumed = resumed.capture(), trainers.Epochs()
            resumed.restore(state)
    assert resumed.seen == reference.seen
    assert len(reference.seen) == 24


def test_17_a_place_in_the_epoch_that_is_lost_is_seen() -> None:
    report = here(trainers.LosesItsPlaceInTheEpoch, before=3, after=5)
    assert report.finding is Finding.HIDDEN_STATE
    assert report.divergence is not None
    assert (report.divergence.field, report.divergence.step) == ("history", 4)


def test_17_a_cursor_that_counts_what_was_fetched_is_refused() -> None:
    with pytest.raises(CheckpointInvalid, match="3 updates of 2 examples consume 6, and it says 8"):
        here(trainers.CountsWhatWasFetched)


def test_17_the_cursor_is_monotone() -> None:
    trainer, before = make(), -1
    for _ in range(5):
        assert trainer.capture().cursor.draws > before
        before = trainer.capture().cursor.draws
        trainer.step()


def test_18_a_state_from_inside_an_update_is_refused() -> None:
    with pytest.raises(CheckpointInvalid, match="it was not captured between two updates"):
        here(trainers.CountsAfterTheCapture)


def test_18_it_is_refused_at_the_save_and_nothing_is_committed(tmp_path: Path) -> None:
    trainer, store = trainers.CountsAfterTheCapture(), CheckpointStore(tmp_path)
    for _ in range(3):
        trainer.step()
    with pytest.raises(CheckpointInvalid, match="it was not captured between two updates"):
        store.save(trainer.capture())
    assert store.scan() == []


def test_weights_are_no_continuation_wherever_they_come_from(tmp_path: Path) -> None:
    """The store refuses them by kind, and a refusal says what a continuation would need."""
    store = CheckpointStore(tmp_path)
    saved = store.save(Weights.of(make().capture()), step=0)
    with pytest.raises(WrongKind, match="moments, counter, generators and cursor are missing"):
        store.load(saved, kind="learning")
    loaded = store.load(saved)
    with pytest.raises(WrongKind, match=r"it lacks first moments \(m/...\), second moments"):
        continued(Weights.from_parts(loaded.arrays, loaded.state), name=saved.name)


def test_19_a_schedule_that_begins_anew_is_seen() -> None:
    report = here(trainers.KeepsItsScheduleOutside)
    assert report.finding is Finding.HIDDEN_STATE
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.field) == (4, "w/embedding")


def test_19_a_resume_beyond_the_schedules_horizon_keeps_the_least_rate() -> None:
    trainer = make()
    horizon = trainer.config["horizon"]
    assert here(make, before=horizon + 2, after=4).ok
    for _ in range(horizon + 2):
        trainer.step()
    again = make()
    again.restore(trainer.capture())
    assert again.rate(again.counter + 1) == trainer.config["rate_least"] > 0


def saved(make: Callable[[], ReferenceTrainer]) -> Learning:
    trainer = make()
    trainer.step()
    return trainer.capture()


@pytest.mark.parametrize(
    ("found", "current", "problem"),
    [
        (trainers.WithAnotherRate, make, r"rate: 0.03, here 0.02"),  # 19
        (trainers.WithAnotherArray, make, "with the unknown average/output"),  # 22
        (make, trainers.WithAnotherArray, "without average/output"),  # 22
        (trainers.OtherTokenizer, trainers.OneTokenizer, "it was made with the tokenizer .* sizes do not count"),  # 38
    ],
    ids=["19 another configuration", "22 a key more", "22 a key less", "38 another tokenizer of the same size"],
)
def test_a_checkpoint_of_another_run_is_refused(
    found: Callable[[], Any], current: Callable[[], Any], problem: str, tmp_path: Path
) -> None:
    """From real files, and the run is untouched."""
    Shelf(tmp_path).save(saved(found))
    run = current()
    before = run.capture().digest
    with pytest.raises(CheckpointInvalid, match=problem):
        Shelf(tmp_path).load().check_fits(run.capture())
    assert run.capture().digest == before


# -- tolerance ---------------------------------------------------------------------------------------------------------


def test_sums_in_another_order_are_within_the_contract_for_them_and_not_exact() -> None:
    assert here(trainers.AddsInAnotherOrder).finding is Finding.HIDDEN_STATE
    assert here(trainers.AddsInAnotherOrder, contract=REORDERED).finding is Finding.EXACT


def test_lost_moments_are_outside_the_contract_for_sums_in_another_order() -> None:
    report = here(trainers.LosesItsMomentsAsWell, contract=REORDERED)
    assert report.finding is Finding.HIDDEN_STATE
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.field) == (4, "m/embedding")


def test_a_contract_and_a_process_wide_generator_reach_fresh_processes() -> None:
    """The ablation is judged by the contract, too: a field that a new run has alike diverges only by the order of its sums."""
    report = verify_resume(trainers.NoisyInAnotherOrder, trainers.step, before=2, after=2, contract=REORDERED)
    assert report.ok
    assert report.unregistered == ()
    diverged = {each.field for each in report.dropped if each.diverged}
    assert diverged >= {"w", "m", "v", "counter", "generators.draws", "generators.numpy.random"}
    assert "config" not in diverged


# -- what else can be wrong --------------------------------------------------------------------------------------------


def test_a_run_that_cannot_be_repeated_is_told_apart() -> None:
    report = here(trainers.SeedsNothing)
    assert report.finding is Finding.NOT_REPEATABLE
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.field) == (1, "w/output")


def test_a_restore_that_loses_digits_is_told_by_field_and_distance() -> None:
    report = here(trainers.RestoresFloatsThroughText)
    assert report.finding is Finding.NOT_RESTORED
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.field) == (3, "v/embedding")
    assert report.divergence.ulps is not None
    assert 10**3 < report.divergence.ulps < 10**12


def test_a_trainer_that_cannot_be_found_is_refused_by_name() -> None:
    with pytest.raises(TrainerRefused, match="there is no module 'nowhere'"):
        verify_resume("nowhere:make", before=1, after=1)


@pytest.mark.parametrize("name", ["make", ":make", "module:", lambda: None])
def test_what_another_process_could_not_import_is_refused(name: Any) -> None:
    with pytest.raises(TrainerRefused):
        verify_resume(name)


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (1, ()), (1, (2, 0))])
def test_there_is_an_update_on_either_side(before: int, after: Any) -> None:
    with pytest.raises(TrainerRefused, match="no numbers of updates"):
        verify_resume(before=before, after=after)


def test_exact_is_not_enough_where_a_field_can_be_lost_without_notice() -> None:
    lost, missed = Dropped("config", "", None, None), Dropped("w", "arrays: without w", None, None)
    assert judged(Finding.EXACT, [missed]) is Finding.EXACT
    assert judged(Finding.EXACT, [missed, lost]) is Finding.UNNOTICED
    assert judged(Finding.HIDDEN_STATE, [lost]) is Finding.HIDDEN_STATE


def test_a_trainer_that_refuses_a_state_without_a_field_has_noticed() -> None:
    report = here(trainers.RefusesAnEmptyHistory, ablate=True)
    history = next(each for each in report.dropped if each.field == "history")
    assert report.ok
    assert history.diverged is None
    assert "weights only" in [line.name for line in report.trajectories]
    assert [len(line.points) for line in report.trajectories] == [6, 3, 0, 3]


def test_checkpoints_carry_the_fingerprint_of_the_runtime(tmp_path: Path) -> None:
    here(make, directory=tmp_path / "kept")
    found, _ = CheckpointStore(tmp_path / "kept" / "store").load_latest("learning")
    assert found.manifest.fingerprint == str(fingerprint([reference, trainers]))


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainerRefused, match="it cannot be used"):
        here(make, directory=tmp_path / "file")


def test_a_report_survives_json() -> None:
    import json

    told = json.loads(json.dumps(here(make, before=2, after=2, ablate=True).to_json()))
    assert (told["finding"], told["exact"], len(told["dropped"])) == ("exact", True, 10)
