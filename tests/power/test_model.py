"""The model of lost power, on records written by hand: what is in every state, and what is in some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.power import record
from tests.power.model import EXHAUSTIVE, PAGE, Disk, Tree
from tests.power.record import ROOT, Change, Made, Moved, Refused, Resized, Said, Synced, Unnamed, Wrote

FILE = 2


def states(*changes: Change) -> list[Tree]:
    disk = Disk()
    for change in changes:
        disk.play(change)
    return [disk.tree(choice)[0] for choice in disk.choices(0, settled_down=True)]


def contents(*changes: Change) -> set[bytes | None]:
    """Of the file `a`, whose name is durable; None where it is not there."""
    return {state.get("a") for state in states(Made(FILE, ROOT, "a", False), Synced(ROOT), *changes)}


def test_what_was_synced_is_in_every_state() -> None:
    assert contents(Wrote(FILE, 0, b"old"), Synced(FILE)) == {b"old"}


def test_what_was_not_synced_is_there_or_not_or_torn_or_zeros() -> None:
    assert contents(Wrote(FILE, 0, b"news")) == {b"", b"news", b"ne", b"\0\0ws", b"\0\0\0\0"}


def test_a_later_write_may_survive_an_earlier_one() -> None:
    found = contents(Wrote(FILE, 0, b"a"), Wrote(FILE, PAGE, b"b"))
    assert b"\0" * PAGE + b"b" in found
    assert {b"a", b"a" + bytes(PAGE - 1) + b"b", b""} < found


def test_a_write_over_a_page_is_two_pieces() -> None:
    assert b"\0" * PAGE + b"y" * 4 in contents(Wrote(FILE, PAGE - 4, b"x" * 4 + b"y" * 4))


def test_a_tear_is_at_a_sector() -> None:
    found = contents(Wrote(FILE, 0, b"o" * PAGE), Synced(FILE), Wrote(FILE, 0, b"n" * PAGE))
    assert found == {b"o" * PAGE, b"n" * PAGE, b"n" * 2048 + b"o" * 2048, b"o" * 2048 + b"n" * 2048}


def test_a_truncation_is_undone_as_a_whole() -> None:
    assert contents(Wrote(FILE, 0, b"long"), Synced(FILE), Resized(FILE, 1)) == {b"long", b"l"}


def test_a_file_whose_name_was_not_synced_may_be_gone_with_all_that_was() -> None:
    found = states(Made(FILE, ROOT, "a", False), Wrote(FILE, 0, b"x"), Synced(FILE))
    assert {tuple(state.items()) for state in found} == {(), (("a", b"x"),)}


def test_a_rename_is_one_change_and_over_a_file_leaves_one_of_the_two() -> None:
    old = (Made(FILE, ROOT, "a", False), Wrote(FILE, 0, b"old"), Synced(FILE), Synced(ROOT))
    new = (Made(3, ROOT, "b", False), Wrote(3, 0, b"new"), Synced(3), Synced(ROOT))
    found = states(*old, *new, Moved(3, ROOT, "b", ROOT, "a"))
    assert {tuple(sorted(state.items())) for state in found} == {(("a", b"old"), ("b", b"new")), (("a", b"new"),)}


def test_names_are_durable_by_either_directory_and_in_no_order() -> None:
    made = (Made(FILE, ROOT, "d", True), Synced(ROOT), Made(3, ROOT, "a", False))
    assert {tuple(sorted(state)) for state in states(*made, Moved(3, ROOT, "a", FILE, "b"))} == {("d",), ("a", "d"), ("d", "d/b")}
    assert {tuple(sorted(state)) for state in states(*made, Moved(3, ROOT, "a", FILE, "b"), Synced(FILE))} == {("d", "d/b")}


def test_an_unlink_may_be_forgotten() -> None:
    assert contents(Wrote(FILE, 0, b"x"), Synced(FILE), Unnamed(ROOT, "a")) == {b"x", None}


def test_after_a_refused_sync_a_later_one_says_nothing_about_what_was_there() -> None:
    lost = contents(Wrote(FILE, 0, b"x"), Refused("sync", FILE, 5), Synced(FILE))
    assert {b"", b"x"} <= lost
    assert b"y" in contents(Wrote(FILE, 0, b"x"), Refused("sync", FILE, 5), Wrote(FILE, 0, b"y"), Synced(FILE))
    assert contents(Wrote(FILE, 0, b"x"), Refused("sync", FILE, 5), Wrote(FILE, 0, b"y"), Synced(FILE)) == {b"y"}


def test_a_refused_sync_of_names_is_made_good_by_a_later_one() -> None:
    made = (Made(FILE, ROOT, "a", False), Wrote(FILE, 0, b"x"), Synced(FILE), Refused("sync", ROOT, 5))
    assert {len(state) for state in states(*made)} == {0, 1}
    assert {len(state) for state in states(*made, Synced(ROOT))} == {1}


def test_another_refused_call_changes_nothing() -> None:
    assert contents(Wrote(FILE, 0, b"x"), Synced(FILE), Refused("write", FILE, 28)) == {b"x"}


def survivors(found: Sequence[bytes | None]) -> set[tuple[int, ...]]:
    return {
        tuple(page for page in range(len(each or b"") // PAGE + 1) if (each or b"")[page * PAGE : page * PAGE + 1] == b"x")
        for each in found
    }


def test_up_to_eight_pieces_every_subset_is_laid_out() -> None:
    found = contents(*(Wrote(FILE, page * PAGE, b"x") for page in range(EXHAUSTIVE)))
    assert len(survivors(list(found))) == 2**EXHAUSTIVE


def test_above_that_prefixes_losses_survivors_and_samples_are() -> None:
    pages = range(20)
    found = survivors(list(contents(*(Wrote(FILE, page * PAGE, b"x") for page in pages))))
    assert {tuple(range(count)) for count in range(21)} <= found
    assert {(page,) for page in pages} <= found
    assert {tuple(other for other in pages if other != page) for page in pages} <= found
    assert len(found) > 60


def test_shared_memory_and_locks_are_as_they_stand_or_garbage_or_gone() -> None:
    shared = (Made(FILE, ROOT, "a", False), Synced(ROOT), Made(3, ROOT, "a-shm", False), Wrote(3, 0, b"map"))
    found = states(*shared, *(Wrote(FILE, page * PAGE, b"x") for page in range(3)))
    assert {state.get("a-shm") for state in found} == {b"map", b"\xa5\xa5\xa5", None}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    changes = [Made(FILE, ROOT, "ä", False), Wrote(FILE, 3, b"\0\xff"), Resized(FILE, 1), Moved(FILE, ROOT, "ä", ROOT, "b")]
    changes += [Synced(FILE), Refused("sync", FILE, 5), Unnamed(ROOT, "b"), Said({"landed": "k"})]
    (tmp_path / "record").write_text("".join(record.line(each) + "\n" for each in changes))
    assert record.read(tmp_path / "record") == changes
