"""`recover check-versions` and `export`, as a person and a program meet them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recovery import Engine, Run, errors, workflow
from recovery.ports import Journal
from recovery.storage.exported import exported, imported, imported_file
from recovery.storage.reading import read
from recovery.testing import replay_journal

from .cli_place import APP, Place
from .world import Shop, keyed


@pytest.fixture
def changed(place: Place) -> Place:
    """A run that died behind its decision and its intent, and an app that decides and books otherwise."""
    return died_in_front(place)


def died_in_front(place: Place) -> Place:
    died = place.run_python("-c", "import shop; shop.engine.run('o1', shop.order, 'lamp')", RECOVERY_CRASH_AT="send.before")
    assert died.code == -9
    return place


def edit(place: Place, before: str, after: str) -> None:
    path = place.directory / "shop.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_open_runs_are_replayed_and_the_first_misfit_is_shown(changed: Place) -> None:
    fits = changed.recover("check-versions", "--app", APP)
    assert (fits.code, fits.out) == (0, "1 run replayed, 1 of them fit\n")
    edit(changed, "book(item=item)", "book(item=item + 's')")
    before = changed.recover("show", "o1", "--json").document
    told = changed.recover("check-versions", "--app", APP)
    assert told.code == 5
    assert "run o1 does not fit: order version 1" in told.out
    [line] = [line for line in told.out.splitlines() if "argument item" in line]
    assert line.split() == ["≠", "argument", "item", '"lamp"', '"lamps"']
    [run] = changed.recover("check-versions", "--app", APP, "--json").document["runs"]
    assert (run["fits"], run["error"]["type"], run["error"]["fields"]["seq"]) == (False, "Diverged", 3)
    assert run["error"]["fields"]["sides"]["recorded"]["arguments"] == {"item": "lamp"}
    assert changed.recover("show", "o1", "--json").document == before
    diverged = changed.recover("--run-id", "o1", "--app", APP)
    assert diverged.code == 5
    assert "side by side" in diverged.out
    assert line in diverged.out


def test_an_exported_journal_is_replayed_in_the_databases_place(changed: Place) -> None:
    said = changed.recover("export", "o1", "--app", APP, "--out", "o1.journal")
    assert (said.code, said.out) == (0, "run o1: 3 entries written to o1.journal\n")
    text = (changed.directory / "o1.journal").read_text()
    assert changed.recover("export", "o1", "--app", APP).out == text
    assert changed.recover("export", "o1", "--app", APP, "--json").document["text"] == text
    assert changed.recover("check-versions", "--app", APP, "--journal", ".", "--db", "sqlite:///none.db").code == 0
    edit(changed, "book(item=item)", "mail(to=item)")
    told = changed.recover("check-versions", "--app", APP, "--journal", "o1.journal", "--json")
    assert told.code == 5
    assert told.document["runs"][0]["error"]["fields"]["recorded"] == "step book#1"


def test_what_cannot_be_checked_says_why(place: Place) -> None:
    assert "It needs the app whose workflows" in place.recover("check-versions").sentence
    assert "there is no database there" in place.recover("export", "x1", "--app", APP).sentence
    (place.directory / "bad.journal").write_text("{}\n")
    refused = place.recover("check-versions", "--app", APP, "--journal", "bad.journal")
    assert refused.code == 2
    assert "bad.journal is no exported journal" in refused.sentence
    assert "is no directory" in place.recover("export", "x1", "--out", "none/x1.journal").err


def test_a_run_comes_back_from_its_text_as_the_database_has_it(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run, note: str) -> str:
        run.perform(reserve(units=1), key="k")
        return note

    with Engine(journal) as engine:
        engine.run("r", order, "a\u2028b\nc")
    text = exported(journal, "r")
    namespace, loaded = imported(text, where="here")
    there = read(journal, "r")
    assert (namespace, loaded.rows, loaded.entries, loaded.late) == (journal.namespace(), there.rows, there.entries, there.late)
    assert (loaded.history, loaded.contracts, loaded.run.status) == (there.history, there.contracts, there.run.status)
    assert loaded.run.owner is None
    [fit] = replay_journal(order, text)
    assert (fit.fits, fit.same_outcome) == (True, True)


def test_values_that_lie_out_of_line_go_with_the_text(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> int:
        return len(run.decide("large", lambda: "ä" * 100_000))

    with Engine(journal) as engine:
        assert engine.run("r", order) == 100_000
    text = exported(journal, "r")
    [fit] = replay_journal(order, text)
    assert (fit.fits, fit.same_outcome) == (True, True)
    lines = text.splitlines(keepends=True)
    with pytest.raises(errors.JournalCorrupt, match="entry 2"):
        imported("".join(line for line in lines if not line.startswith('{"payload"')), where="here")


def test_a_text_that_was_edited_or_is_newer_is_refused(tmp_path: Path) -> None:
    shop, journal = Shop(), Engine("memory://").journal
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=1), key="k")

    Engine(journal).run("r", order)
    text = exported(journal, "r")
    with pytest.raises(errors.JournalCorrupt, match="entry 2"):
        imported(text.replace('\\"units\\":1', '\\"units\\":2'), where="here")
    with pytest.raises(errors.JournalCorrupt, match="head"):
        imported("\n".join(text.splitlines()[:-1]), where="here")
    with pytest.raises(errors.IncompatibleVersion, match="format 2"):
        imported(text.replace('"recovery_journal": 1', '"recovery_journal": 2'), where="here")
    head, *rest = text.splitlines()
    for broken in ("", "no JSON", json.dumps({**json.loads(head), "epoch": "x"}), "[1]"):
        with pytest.raises(errors.SchemaMismatch, match="here is no "):
            imported("\n".join([broken, *rest]), where="here")
    with pytest.raises(errors.SchemaMismatch, match="cannot be read"):
        imported_file(tmp_path / "gone")
    (tmp_path / "a.journal").write_text(text)
    assert [fit.run_id for fit in replay_journal(order, tmp_path)] == ["r"]
    assert replay_journal(order, tmp_path, run_id="q") == []
    with pytest.raises(errors.WorkflowUnknown):
        replay_journal([], text)


def test_versions_in_use_and_a_change_of_version(either: Place) -> None:
    """The run stands in front of an unsettled effect: settled first, it is moved to a version that has no decision."""
    changed = died_in_front(either)
    told = changed.recover("versions", "--app", APP)
    [line] = [line for line in told.out.splitlines() if line.startswith("order")]
    assert (told.code, line.split()) == (0, ["order", "1", "1", "running", "new", "runs", "start", "with", "it", "o1"])
    alone = changed.recover("versions", "--db", changed.url)
    assert "Which versions are registered is known with --app only." in alone.out
    (changed.directory / "newer.py").write_text(NEWER)
    newer = ("--app", "newer:engine")
    refused = changed.recover("change-version", "o1", *newer, "--by", "ann", "--reason", "simpler")
    assert refused.code == 2
    assert "step book#1 is not settled" in refused.sentence
    died = changed.run_python("-c", "import shop; shop.engine.recover('o1')", RECOVERY_CRASH_AT="append.settled.after")
    assert died.code == -9
    assert changed.recover("--run-id", "o1", *newer).code == 5
    [row] = changed.recover("versions", *newer, "--json").document["versions"][1:]
    assert (row["version"], row["registered"], row["taken_over_by"], row["statuses"]) == ("1", False, "2", {"diverged": 1})
    assert "its runs would go on with version 2" in changed.recover("versions", *newer).out
    plan = changed.recover("change-version", "o1", *newer, "--plan")
    assert (plan.code, "would be moved; nothing was written" in plan.out) == (0, True)
    assert "dropped: what it did stays done" in plan.out
    for missing in ((), ("--by", "ann"), ("--reason", "simpler")):
        refused = changed.recover("change-version", "o1", *newer, *missing)
        assert (refused.code, "with --by and --reason" in refused.err) == (2, True)
    ordered = ("change-version", "o1", *newer, "--by", "ann", "--reason", "simpler", "--json")
    assert changed.recover(*ordered, RECOVERY_CRASH_AT="append.override.before").code == -9
    assert changed.recover("versions", *newer, "--json").document["versions"][1]["open"] == 1  # nothing was written
    moved = changed.recover(*ordered)
    assert moved.document["steps"] == {"book#1": "book#1"}
    assert "it goes by version '2' already" in changed.recover(*ordered[:-1]).sentence
    assert changed.recover("--run-id", "o1", *newer).out.count("booked lamp")
    assert (changed.directory / "ledger").read_text().count("book ") == 1
    shown = changed.recover("show", "o1", *newer).out
    for told in ("the first entry that does not fit 2", "move by ann: simpler", "to version 2", "colour#1: dropped"):
        assert told in shown


NEWER = """
from recovery import Engine, Migrated, Run, workflow
from shop import book, engine as older


@workflow(version="2")
def order(run: Run, item: str) -> str:
    return run.perform(book(item=item), key=f"book-{run.run_id}")


@order.migrates(from_version="1")
def from_1(steps):
    return Migrated({"book#1": "book#1"}, dropped=["colour#1"])


engine = Engine(older.journal, workflows=[order])
"""
