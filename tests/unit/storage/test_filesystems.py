"""Network file systems are known by their kind, and no journal is written there unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.core.errors import StoreUrlError
from recovery.storage import filesystems, open_journal
from recovery.storage.filesystems import NETWORK, kind_of, mounted, mounts_of_darwin, mounts_of_linux
from recovery.storage.migrate import migrate

LINUX = r"""
/dev/vda / ext4 rw,relatime 0 0
tmpfs /dev/shm tmpfs rw 0 0
server:/export /srv/shared nfs4 rw,vers=4.2,addr=10.0.0.1 0 0
/dev/vdb /srv/shared/local xfs rw 0 0
//server/share /mnt/two\040words cifs rw 0 0
me@host:/ /srv/remote fuse.sshfs rw 0 0
/dev/vdc /covered ext4 rw 0 0
server:/export /covered nfs rw 0 0
share /mnt/host 9p rw,trans=virtio 0 0
"""
DARWIN = """
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse)
//me@server/share on /Volumes/two words (smbfs, nodev, nosuid, mounted by me)
server:/export on /Volumes/export (nfs)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/a.db", "ext4"),
        ("/dev/shm/a.db", "tmpfs"),
        ("/srv/shared/a.db", "nfs4"),
        ("/srv/shared/local/a.db", "xfs"),
        ("/srv/sharedelsewhere/a.db", "ext4"),
        ("/mnt/two words/a.db", "cifs"),
        ("/srv/remote/deep/a.db", "fuse.sshfs"),
        ("/covered/a.db", "nfs"),
        ("/mnt/host/a.db", "9p"),
    ],
)
def test_on_linux_a_path_has_the_kind_of_the_mount_nearest_to_it(path: str, kind: str) -> None:
    assert kind_of(Path(path), mounts_of_linux(LINUX)) == kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/Applications/a.db", "apfs"),
        ("/Volumes/two words/a.db", "smbfs"),
        ("/Volumes/export/a.db", "nfs"),
        ("/System/Volumes/Data/home/a.db", "autofs"),
    ],
)
def test_on_macos_a_path_has_the_kind_of_the_mount_nearest_to_it(path: str, kind: str) -> None:
    assert kind_of(Path(path), mounts_of_darwin(DARWIN)) == kind


def test_a_path_that_nothing_is_known_of_is_of_no_kind_and_so_of_no_network() -> None:
    assert kind_of(Path("/a.db"), []) == ""
    assert "" not in NETWORK


def test_this_machine_says_what_it_has_mounted(tmp_path: Path) -> None:
    assert kind_of(tmp_path, mounted()) not in {"", *NETWORK}


@pytest.fixture
def on_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a file on what counts as a network file system."""
    monkeypatch.setattr(filesystems, "NETWORK", NETWORK | {kind_of(tmp_path, mounted())})
    return f"sqlite:///{tmp_path}/a.db"


@pytest.mark.parametrize("kind", ["fuse.sshfs", "nfs4", "cifs"])
def test_in_user_space_or_not_it_is_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(filesystems, "mounted", lambda: [("/", "ext4"), (str(tmp_path), kind)])
    with pytest.raises(StoreUrlError, match=f"network file system .{kind}."):
        filesystems.refuse_network(tmp_path / "a.db", "sqlite:///a.db")
    filesystems.refuse_network(tmp_path.parent / "a.db", "sqlite:///a.db")


def test_no_journal_is_created_on_a_network_file_system(on_network: str, tmp_path: Path) -> None:
    for create in (lambda: migrate(on_network), open_journal(on_network).namespace):
        with pytest.raises(StoreUrlError) as caught:
            create()
        assert "it is on a network file system (" in str(caught.value)
        assert "Nothing was changed" in str(caught.value)
        assert "?network_file_system=accepted" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_there_is_read_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    migrate(url)
    monkeypatch.setattr(filesystems, "NETWORK", NETWORK | {kind_of(tmp_path, mounted())})
    journal = open_journal(url)
    assert journal.runs() == []
    with pytest.raises(StoreUrlError, match="network file system"):
        journal.raise_incarnation(0, 1)
    journal.close()


def test_who_accepts_the_risk_in_the_url_runs_it(on_network: str) -> None:
    accepted = f"{on_network}?network_file_system=accepted"
    migrate(accepted)
    journal = open_journal(accepted)
    assert journal.raise_incarnation(0, 1) == 1
    assert journal.url == accepted
    journal.close()


@pytest.mark.parametrize("option", ["network_file_system", "network_file_system=", "network_file_system=yes"])
def test_the_risk_is_accepted_in_one_way_only(tmp_path: Path, option: str) -> None:
    with pytest.raises(StoreUrlError):
        open_journal(f"sqlite:///{tmp_path}/a.db?{option}")
