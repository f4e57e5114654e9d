"""`recover demo`: the canonical incident, told and checked. How it reads is on the front page, which `tests/docs` compares."""

from __future__ import annotations

import json
from dataclasses import asdict
from urllib.parse import quote

from docs.generate import DOCUMENTS
from recovery.processes import identify
from tests.integration.cli_place import Place
from tests.warm.parent import DOOR


def test_the_demo_holds_and_says_why(place: Place) -> None:
    kept = "kept ?#%20"  # a directory may have any name
    ended = place.recover("demo", "--json", "--keep", kept)
    assert (ended.code, ended.err) == (0, "")
    claims = [claim for scene in ended.document["scenes"] for claim in scene["claims"]]
    assert set(ended.document) == {"schema_version", *DOCUMENTS["recover demo"]}
    assert ended.document["holds"] is True
    assert len(claims) == 14
    assert [claim for claim in claims if claim["expected"] != claim["found"]] == []
    stock = [claim["found"] for claim in claims if "in stock" in claim["text"]]
    assert stock == [10, 8, 8, 8]
    shown = place.recover("show", "incident-7", "--db", f"sqlite:///{quote(kept)}/journal.db")
    assert shown.code == 0
    assert "key reservation-1" in shown.out
    again = place.recover("demo", "--keep", kept)
    assert (again.code, again.out) == (2, "")
    assert "is not empty" in again.err
    assert place.files() >= {kept}


WITH_OTHER_STOCK = """#!/bin/bash
exec {python} "${{@//FILTER-A=10/FILTER-A=11}}"
"""
DEMO = """
import os, sys, tempfile
from recovery.cli import main
_, tempfile.tempdir, sys.executable, door, os.environ[door] = sys.argv  # all that it starts is forked
sys.argv = ["recover", "demo"]
main()
"""


def test_a_demo_whose_claims_do_not_hold_ends_non_zero(place: Place) -> None:
    """The service of this demo starts with other stock than the demo believes. What a demo that was killed has left is removed."""
    killed = place.directory / "tmp" / "recovery-demo-killed"
    killed.mkdir(parents=True)
    (killed / "owner.json").write_text(json.dumps(asdict(identify("")) | {"process_start": 1}))
    (python := place.directory / "python").write_text(WITH_OTHER_STOCK.format(python=place.parent.stand_ins() / "python"))
    python.chmod(0o755)
    before = place.files()
    ended = place.run_python("-c", DEMO, str(killed.parent), str(python), DOOR, place.parent.door)
    assert list(killed.parent.iterdir()) == []
    assert place.files() == before
    assert ended.code == 70
    assert "✗ the service says: 10 units of FILTER-A in stock: expected 10, found 11" in ended.out
    assert "do not hold" in ended.out


def test_a_missing_extra_is_named(place: Place) -> None:
    (place.directory / "sitecustomize.py").write_text(
        "import sys\n"
        "from importlib.machinery import PathFinder\n\n"
        "class Without(PathFinder):\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        return None if name == 'uvicorn' else super().find_spec(name, path, target)\n\n"
        "sys.meta_path[sys.meta_path.index(PathFinder)] = Without\n"
    )
    ended = place.recover("demo", fresh=True, PYTHONPATH=str(place.directory))
    assert ended.code == 2
    assert ended.sentence == (
        "The demo needs uvicorn, not installed here. Nothing happened. Install its extra; in a checkout: pip install -e '.[demo]'"
    )


def test_a_directory_that_cannot_be_made_is_a_mistake_and_no_bug(place: Place) -> None:
    for keep in ("shop.py/kept", "/proc/kept"):
        ended = place.recover("demo", "--keep", keep)
        assert (ended.code, ended.out) == (2, "")
        assert "cannot be made" in ended.err
