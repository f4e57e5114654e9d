"""Families on the command line: `runs` and `show` draw them, and recovering the parent recovers its children."""

from __future__ import annotations

from tests.integration.cli_place import APP, Place


def test_runs_and_show_draw_the_family(either: Place) -> None:
    assert either.worker("bundle", "b", "screw", "nut").code == 0
    either.worker("order", "a", "screw")
    listed = either.recover("runs", "--app", APP)
    drawn = [line.partition("  ")[0] for line in listed.out.splitlines()[1:]]
    assert drawn == ["a", "b", "└ b.mail", "└ b.nut", "└ b.screw"]
    by_id = {run["run_id"]: run["parent"] for run in either.recover("runs", "--app", APP, "--json").document["runs"]}
    assert by_id == {"a": None, "b": None, "b.mail": "b", "b.nut": "b", "b.screw": "b"}
    shown = either.recover("show", "b", "--app", APP).out
    assert "├ b.mail  notify  queued, detached  notify#1" in shown
    assert "└ b.nut  order  completed  order#2" in shown
    assert "child b.screw of workflow order" in shown
    assert "'booked screw in blue' from child b.screw" in shown or '"booked screw in blue" from child b.screw' in shown
    below = either.recover("show", "b.nut", "--app", APP)
    assert "run b, step order#2" in below.out
    document = either.recover("show", "b", "--app", APP, "--json").document
    assert (document["parent"], [child["run_id"] for child in document["children"]]) == (None, ["b.mail", "b.screw", "b.nut"])
    assert document["children"][2] == {
        "run_id": "b.nut",
        "step": "order#2",
        "workflow": "order",
        "status": "completed",
        "rests_for": "",
        "reason": "",
        "detached": False,
        "adopted": True,
        "children": [],
    }
    assert either.recover("show", "b.nut", "--app", APP, "--json").document["parent"] == {"run_id": "b", "step": "order#2"}


def test_recovering_the_parent_recovers_its_children(place: Place) -> None:
    place.worker("bundle", "b", "screw", "nut", crash_at="send.after:2")
    plan = place.recover("--run-id", "b", "--app", APP, "--plan")
    assert "then the workflow would wait for child b.nut" in plan.out
    ended = place.recover("--run-id", "b", "--app", APP, "--json")
    assert (ended.code, ended.document["outcome"]["value"]) == (0, ["booked screw in blue", "booked nut in blue"])
    assert sorted(place.ledger()) == [
        "book book-b.nut",
        "book book-b.nut",
        "book book-b.screw",
    ]  # the world has no keys, and so counts both
    mail = place.recover("--run-id", "b.mail", "--app", APP)
    assert (mail.code, "sent to the warehouse" in mail.out) == (0, True)
