"""`recover checkpoint list`, `inspect`, `verify`, `diff`, `gc`, `pin`, `unpin`: reports, documents, exit codes and refusals."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from obstore.store import LocalStore

from docs.generate import DOCUMENTS
from recovery.checkpoint.lease import LOCK
from recovery.checkpoint.manifest import JournalPosition
from recovery.checkpoint.objects import ObjectCheckpoints
from recovery.checkpoint.planning.units import shown_size
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.store import CheckpointStore
from recovery.core.errors import ExitCode
from tests.integration.cli_typed import Ended, typed
from tests.unit.checkpoint.learners import learning
from tests.unit.checkpoint.making import small, spread


def checkpoint(*arguments: object) -> Ended:
    return typed("checkpoint", *arguments)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckpointStore:
    monkeypatch.chdir(tmp_path)
    return spread(Path("run"), keep=Keep(last=9))


@pytest.fixture
def saved(store: CheckpointStore) -> list[Candidate]:
    """1: weights; 2 and 3: learning states that differ in one element of `w/bias`."""
    changed = {**learning().arrays, "w/bias": np.array([0.125, 0.0])}
    position = JournalPosition("r1", 20, "a" * 64)
    return [
        store.save(small(1)),
        store.save(learning(), journal=position, fingerprint="0123456789ab"),
        store.save(learning(arrays=changed)),
    ]


def flipped(candidate: Candidate, name: str = "shard-000-of-001.safetensors", at: int = -1) -> None:
    path = candidate.path / name
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def tree(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() if each.is_file() else b"" for each in path.rglob("*")}


ASKING = [("list",), ("inspect",), ("verify", "--all"), ("diff",), ("gc", "--dry-run"), ("gc",), ("pin",), ("unpin",)]


def asked(command: tuple[str, ...], path: str) -> tuple[str, ...]:
    return (*command, path, *{"diff": (path,), "pin": ("1",), "unpin": ("1",)}.get(command[0], ()))


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_asking_about_no_store_is_one_sentence_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").touch()
    (tmp_path / "a directory").mkdir()
    ObjectCheckpoints(LocalStore(tmp_path / "objects", mkdir=True)).save(small(1))
    before = tree(tmp_path)
    for path in ("nowhere", "a file", "a directory", "objects"):
        ended = checkpoint(*asked(command, path))
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.count("\n") == 1
        assert f"{path} is no checkpoint store" in ended.err
    assert tree(tmp_path) == before


def test_a_url_is_told_from_a_directory_that_is_not_there() -> None:
    assert "it is a URL" in checkpoint("list", "s3://bucket/run").err


def test_one_checkpoint_of_an_object_store_can_be_looked_at(tmp_path: Path) -> None:
    saved = ObjectCheckpoints(LocalStore(tmp_path, mkdir=True)).save(small(1))
    path = tmp_path / "ckpt" / saved.name
    assert checkpoint("inspect", path, "--json").document["id"] == saved.id
    assert checkpoint("verify", path).code == 0
    assert checkpoint("diff", path, path).code == 0


@pytest.mark.parametrize("command", [each for each in ASKING if each != ("gc",)], ids=" ".join)
def test_an_empty_store_stays_empty(store: CheckpointStore, command: tuple[str, ...]) -> None:
    (store.path / "ckpt").mkdir(parents=True)
    ended = checkpoint(*asked(command, "run"))
    assert ended.code == (0 if command[0] in {"list", "gc"} else 2)
    assert set(tree(store.path)) == {"ckpt"}


@pytest.mark.parametrize("command", [("list",), ("inspect",), ("verify", "--all"), ("diff",), ("gc", "--dry-run")], ids=" ".join)
def test_who_asks_changes_nothing(store: CheckpointStore, saved: list[Candidate], command: tuple[str, ...]) -> None:
    flipped(saved[1])
    (store.path / "ckpt" / ".tmp-000000000009-00ff").mkdir()
    before = tree(store.path)
    checkpoint(*asked(command, "run"))
    assert tree(store.path) == before


@pytest.mark.parametrize("command", [*(each for each in ASKING if each != ("gc", "--dry-run"))], ids=" ".join)
def test_every_document_has_the_documented_keys(saved: list[Candidate], command: tuple[str, ...]) -> None:
    ended = checkpoint(*asked(command, "run"), "--json")
    assert (ended.code, ended.err) == (0, "")
    assert set(ended.document) == {"schema_version", *DOCUMENTS[f"recover checkpoint {command[0]}"]}


def test_a_list_says_what_is_there_and_why_the_rest_is_not(store: CheckpointStore, saved: list[Candidate]) -> None:
    store.pin(saved[1].name)
    store.mark_restored(saved[2])
    (store.path / "ckpt" / ".tmp-000000000009-00ff").mkdir()
    (store.path / "ckpt" / "000000000007-0123456789ab").mkdir()
    (store.path / "ckpt" / "latest").symlink_to(saved[0].path)
    (store.path / "quarantine" / "000000000000-0123456789ab").mkdir()
    lines = [line.split() for line in checkpoint("list", "run").out.splitlines()]
    size = [shown_size(each.manifest.total_bytes).split() for each in saved]
    assert [saved[2].name, "learning", "3", *size[2], "newest,", "restored", "from"] in lines
    assert [saved[1].name, "learning", "3", *size[1], "pinned"] in lines
    assert [saved[0].name, "weights", "1", *size[0], "newest"] in lines
    assert [".tmp-000000000009-00ff", "unfinished", "its", "save", "was", "not", "committed"] in lines
    assert ["000000000007-0123456789ab", "files", "MANIFEST.json:", "it", "is", "missing"] in lines
    assert ["latest", "name", "it", "is", "neither", "a", "directory", "nor", "a", "file"] in lines
    assert ["In", "quarantine,", "damaged:", "000000000000-0123456789ab."] in lines


@pytest.fixture
def writing(store: CheckpointStore, saved: list[Candidate]) -> Iterator[None]:
    """Somebody saves: the lease is held, and an attempt is there."""
    (store.path / "ckpt" / ".tmp-000000000004-00ff").mkdir()
    with (store.path / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.usefixtures("writing")
def test_a_save_under_way_is_said_and_left_alone() -> None:
    assert "A save is under way" in checkpoint("list", "run").out
    assert checkpoint("list", "run", "--json").document["writing"] is True
    assert "left alone" in checkpoint("gc", "run", "--dry-run").out


def test_nobody_writes_afterwards(saved: list[Candidate]) -> None:
    assert checkpoint("list", "run", "--json").document["writing"] is False


def test_an_inspection_says_what_a_checkpoint_may_be_used_for(saved: list[Candidate]) -> None:
    text = checkpoint("inspect", "run", "2").out
    for part in (
        "learning: weights, moments, counter",
        "continue training, so that the next update equals the uninterrupted one",
        f"id              {saved[1].id}",
        f"parent          {saved[0].id}",
        "run r1, after 20 entries, head aaaaaaaaaaaa",
        "runtime         0123456789ab",
        "digest checked: config",
        "stage       tune: reads no split by name, updates everything, until update 10",
        "w/layer          F64    [2, 2]       1  32 B",
    ):
        assert part in text


@pytest.mark.parametrize("how", ["run/2", "run 2", "run {name}", "run {id}", "run/ckpt/{name}"])
def test_a_checkpoint_is_named_in_any_of_these_ways(saved: list[Candidate], how: str) -> None:
    path = how.format(name=saved[1].name, id=saved[1].id[:6])
    assert checkpoint("inspect", *path.split(), "--json").document["id"] == saved[1].id


@pytest.mark.parametrize(
    ("name", "says"), [("9", "there is nothing of that name"), ("fff", "there is nothing"), ("../2", "there is nothing")]
)
def test_a_name_that_means_nothing_is_refused(saved: list[Candidate], name: str, says: str) -> None:
    for command in ("inspect", "verify", "pin", "unpin"):
        ended = checkpoint(command, "run", name)
        assert (ended.code, ended.out) == (2, "")
        assert says in ended.err


def test_a_damaged_state_is_told_and_ends_with_six(saved: list[Candidate]) -> None:
    flipped(saved[2], "state.json", 10)
    ended = checkpoint("inspect", "run")
    assert ended.code == int(ExitCode.CORRUPT)
    assert "damaged: its content has the digest" in ended.out


def test_verify_says_which_are_whole_and_where_the_others_are_not(saved: list[Candidate]) -> None:
    flipped(saved[1])
    flipped(saved[1], "state.json", 10)
    ended = checkpoint("verify", "run", "--all")
    assert ended.code == int(ExitCode.CORRUPT)
    assert f"{saved[1].name}, shard-000-of-001.safetensors  digest" in ended.out
    assert f"{saved[1].name}, state.json                    digest" in ended.out
    assert "2 whole, 1 damaged." in ended.out
    assert checkpoint("verify", "run").code == 0  # the newest of each kind
    assert checkpoint("verify", "run", "2").code == int(ExitCode.CORRUPT)
    assert checkpoint("verify", saved[2].path).code == 0


def test_verify_tells_what_a_manifest_gives_away_unasked(saved: list[Candidate]) -> None:
    (saved[0].path / "state.json").unlink()
    ended = checkpoint("verify", "run", "--json")
    assert ended.code == ended.document["exit_code"] == int(ExitCode.CORRUPT)
    verdicts = {each["name"]: each["verdict"] for each in ended.document["checkpoints"]}
    assert verdicts == {saved[0].name: "damaged", saved[2].name: "whole"}


def test_only_mark_marks_and_what_is_damaged_loses_its_mark(saved: list[Candidate]) -> None:
    def verified() -> list[bool]:
        return ["verified" in each["marks"] for each in checkpoint("list", "run", "--json").document["checkpoints"]]

    checkpoint("verify", "run", "--all")
    assert verified() == [False, False, False]
    checkpoint("verify", "run", "--all", "--mark")
    assert verified() == [True, True, True]
    flipped(saved[1])
    checkpoint("verify", "run", "--all")
    assert verified() == [True, True, True]
    assert checkpoint("verify", "run", "--all", "--mark").code == int(ExitCode.CORRUPT)
    assert verified() == [True, False, True]


def test_a_difference_is_told_by_place_values_and_distance(saved: list[Candidate]) -> None:
    ended = checkpoint("diff", "run/2", "run/3")
    assert (ended.code, ended.err) == (1, "")
    assert ["w/bias", "1", "of", "2", "[1]", "-0.0", "->", "0.0", "0", "ULP"] in [line.split() for line in ended.out.splitlines()]
    assert "different in 1 tensor" in ended.out
    document = checkpoint("diff", "run/2", "run/3", "--json").document
    assert document["tensors"][0]["values"] == {"differ": 1, "first": [1], "a": "-0.0", "b": "0.0", "ulps": 0, "ulps_max": 0}


def test_equal_is_said_whatever_the_place(store: CheckpointStore, saved: list[Candidate]) -> None:
    again = store.save(learning())
    ended = checkpoint("diff", "run/2", again.path)
    assert ended.code == 0
    assert "equal: the same kind, state and tensors, in every bit" in ended.out
    assert "sequence, parent, journal position, runtime fingerprint differ: where they stand" in ended.out


def test_what_is_damaged_is_not_compared(saved: list[Candidate]) -> None:
    flipped(saved[1])
    ended = checkpoint("diff", "run/3", "run/2")
    assert (ended.code, ended.out) == (int(ExitCode.CORRUPT), "")


def test_gc_says_why_each_one_stays(store: CheckpointStore, saved: list[Candidate]) -> None:
    store.pin(saved[1].name)
    fourth = store.save(learning())
    (saved[0].path / "state.json").unlink()
    dry = checkpoint("gc", "run", "--dry-run", "--keep-last", "1")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in dry.out.splitlines() if line.startswith("  0")}
    size = shown_size(fourth.manifest.total_bytes)
    assert rows == {
        fourth.name: f"{size} keep one of the last",
        saved[2].name: f"{size} retire nothing says that it must stay",
        saved[1].name: f"{size} keep pinned",
        saved[0].name: "quarantine damaged: files",
    }
    assert saved[2].path.is_dir()
    done = checkpoint("gc", "run", "--keep-last", "1", "--json").document
    assert (list(done["kept"]), done["retired"]) == ([fourth.name, saved[1].name], [saved[2].name])
    assert not saved[2].path.exists()


def test_pins_are_put_and_taken(saved: list[Candidate]) -> None:
    assert checkpoint("pin", "run", "2", "--json").document == {
        "schema_version": 1, "store": "run", "name": saved[1].name, "pinned": True, "changed": True,
    }  # fmt: skip
    assert "is pinned already" in checkpoint("pin", "run", "2").out
    assert "is no longer pinned" in checkpoint("unpin", "run", "2").out
    assert "was not pinned" in checkpoint("unpin", "run", "2").out


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_what_the_disk_refuses_is_one_sentence_and_four(
    saved: list[Candidate], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def refuses(path: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuses)
    ended = checkpoint(*asked(command, "run"))
    assert (ended.code, ended.out) == (int(ExitCode.UNRESOLVED), "")
    assert ended.err.startswith("run: the file system refused run/")
    assert ended.err.count("\n") == 1


def test_a_damaged_one_that_is_kept_does_not_cost_the_last_that_is_whole(store: CheckpointStore, saved: list[Candidate]) -> None:
    flipped(saved[2])
    checkpoint("verify", "run", "--all", "--mark")
    done = checkpoint("gc", "run", "--keep-last", "1", "--json").document
    assert done["kept"][saved[1].name] == "last verified"


@pytest.mark.parametrize("arguments", [("verify", "run", "2", "--all"), ("gc", "run", "--keep-last", "0")])
def test_what_contradicts_itself_is_a_usage_mistake(saved: list[Candidate], arguments: tuple[str, ...]) -> None:
    ended = checkpoint(*arguments)
    assert (ended.code, ended.out) == (2, "")
