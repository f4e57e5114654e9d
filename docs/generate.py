"""Regenerates the reference pages whose truth lives in code. `--check` writes nothing and fails if a page is out of date.

A page is a function that returns Markdown. Add one by writing it and naming it in PAGES.
"""

from __future__ import annotations

import argparse
import inspect
import re
import string
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import recovery
from docs.markdown import field_rows, members, table
from docs.names import CONSTRUCTORS, api_page
from recovery import catalogue, cli, crashpoints
from recovery.checkpoint import errors as checkpoint_errors
from recovery.checkpoint import refusals
from recovery.console import contracts as console_contracts
from recovery.core import contracts, entries, errors, facts, resting
from recovery.core.errors import ExitCode
from recovery.core.reasons import PARKED, HoldReason, Parked
from recovery.core.rows import Action, Row
from recovery.core.truth import REFUSALS
from recovery.core.verdicts import ROWS, Facts, judge
from recovery.operators import parking
from recovery.testing import environment, moves, scenario, steps

DOCS = Path(__file__).resolve().parent

EXIT_CODES: dict[ExitCode, tuple[str, str]] = {
    ExitCode.SETTLED: (
        "The run is settled; its outcome was printed. So it is where something has spoken against an outcome since: the report shows it, and `recover doubt` ends with 3 until somebody acknowledges it.",
        "Nothing, unless the report shows a contradiction.",
    ),
    ExitCode.FAILED: (
        "The run is settled with its own failure, or it was cancelled. That outcome is final too. `recover checkpoint diff`: the two differ.",
        "Read it with `recover show`; wanting another outcome is a new run.",
    ),
    ExitCode.USAGE: (
        "The command cannot be carried out as given: unknown run, wrong URL, no app, or a database of another format. Nothing was changed.",
        "Do what the sentence says.",
    ),
    ExitCode.IN_DOUBT: (
        "At least one effect may have happened and nothing here can prove which; or the run is held.",
        "A person looks: the report names the key, what was asked and what was answered.",
    ),
    ExitCode.UNRESOLVED: (
        "Not settled yet: the environment cannot be reached, an attempt may still land, a timer runs, or the run is queued. Of a checkpoint store: the disk refused, or a checkpoint could not be read, which proves no damage.",
        "Run the same command again at the time it names.",
    ),
    ExitCode.DIVERGED: (
        "The workflow's code asks for other steps than its journal records; nothing was sent. Or a resumed training run is another run.",
        "Register the version that it started with, patch the new code, or start a new run. A trainer: the report names the field.",
    ),
    ExitCode.CORRUPT: (
        "The journal does not verify, or holds what no program of ours writes. Nothing was sent and nothing was repaired. Or a checkpoint is damaged.",
        "Keep the database as it is; restore a backup, and declare that with `recover restored`. A checkpoint: use an earlier one that `recover checkpoint verify` calls whole.",
    ),
    ExitCode.OWNED: (
        "Another worker has the run, or had it since the plan that was to be carried out (`--if-head`). Or a checkpoint store is being written by somebody else. Nothing was changed.",
        "Wait for it, or run again once its lease has ended; plan again.",
    ),
    ExitCode.WAITING: (
        "The run, or a child that it waits for, waits for what somebody must say, with a time-out or without.",
        "`recover waits` shows what is asked. Give it with `recover signal`, then recover the run. Once a time-out has come, recovering it goes on without.",
    ),
    ExitCode.BUG: ("A bug in recovery.", "Keep the database and report it with the traceback."),
}
"""What each code says and what to do. The page cannot be made while one is missing."""


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "Every error says whether something happened, did not, or might have, and ends with the next step. An error carries its fields as",
        "attributes and survives pickling. The exit code is that of a command which ends with the error.",
        "",
        "```text",
        *_tree(errors.RecoveryError),
        "InvariantViolated (an AssertionError, outside the tree)",
        "```",
        "",
    ]
    for error in _descendants(errors.RecoveryError):
        lines += [f"## {error.__name__}", ""]
        if "__doc__" in vars(error) and error.__doc__:
            lines += [inspect.cleandoc(error.__doc__), ""]
        lines += [f"Base: `{error.__mro__[1].__name__}`; exit code [{int(error.exit_code)}](exit-codes.md).", ""]
        if "template" in vars(error) and error.template:
            names = dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(error.template) if name)
            lines += [f"> {_shown(error.template)}", "", f"Fields: {', '.join(f'`{name}`' for name in names)}.", ""]
    lines += ["## InvariantViolated", "", inspect.cleandoc(errors.InvariantViolated.__doc__ or ""), ""]
    lines += [f"Not a `RecoveryError`, so that nobody catches it by habit; exit code [{int(ExitCode.BUG)}](exit-codes.md)."]
    return "\n".join(lines)


def exit_codes_page() -> str:
    rows = [(str(int(code)), f"`{code.name}`", *EXIT_CODES[code]) for code in ExitCode]
    order = sorted(
        ExitCode, key=lambda code: [ExitCode.worst([code, other]) is code for other in ExitCode].count(True), reverse=True
    )
    return "\n".join(
        [
            "# Exit codes",
            "",
            "Every command ends with one of these. A usage mistake of the command line itself is 2 as well.",
            "",
            *table(("code", "name", "what it says", "what to do"), rows),
            "",
            f"Where a command is about several runs, the first of these that holds: {', '.join(str(int(code)) for code in order)}.",
            "A run whose branches rest for several things, its children included, counts the same way.",
            "",
            "How a run stands is one code wherever it is asked: `recover --run-id`, its `--plan`, `recover --all`, its `--plan`, and `exit_code` of what `engine.get`",
            "returns. A plan says what a recovery would end with as far as it can be told without one: where something is still to be done, such as an effect to",
            "be sent or a workflow to return, that is 4. Without an app it goes by the run's row, as `recover --all` does for the",
            "runs that it leaves alone; of a child that has come to stand otherwise since, only its own plan tells. `engine.get` says how a run",
            "stands whoever has it; the commands say 7. What has settled is not looked at by `recover --all`. Commands that only show, such as `recover runs` and `recover show`, end",
            "with 0; in JSON, `rests_for` of a run says what one that waits [rests for](values.md).",
        ]
    )


def crash_points_page() -> str:
    rows = [(f"`{name}`", meaning, f"`{name}.before`, `{name}.after`") for name, meaning in crashpoints.BRACKETS.items()]
    return "\n".join(
        [
            "# Crash points",
            "",
            "Every durable write and every request that leaves lies between two named points. A process is told to kill itself with SIGKILL at",
            f"one of them by the environment variable `{crashpoints.VARIABLE}=POINT` or `{crashpoints.VARIABLE}=POINT:N` (the N-th passage). The",
            "second point of a bracket is not reached when what it brackets raises.",
            "",
            *table(("bracket", "what happens in it", "points"), rows),
        ]
    )


def values_page() -> str:
    sections: list[tuple[type[StrEnum], str]] = [
        (entries.Status, "A run's status"),
        (resting.RestsFor, "What a run that waits rests for"),
        (entries.AnswerKind, "Answers: what came back from the environment"),
        (entries.Source, "Sources of observations"),
        (entries.OutcomeKind, "Outcomes"),
    ]
    lines = [
        "# Values in the journal",
        "",
        "The closed vocabularies that entries are written in. The words themselves: [words](words.md).",
        "",
    ]
    kinds = [(f"`{name}`", ", ".join(f"`{item.name}`" for item in fields(kind))) for name, kind in entries.KINDS.items()]
    lines += ["## Kinds of entries", "", *table(("entry", "fields"), kinds), ""]
    for enum, title in sections:
        lines += [f"## {title}", "", *table(("value", "meaning"), members(enum)), ""]
    lines += [f"The entries' format is number {entries.ENTRY_FORMAT}. A reader refuses a newer one (exit code 2)."]
    return "\n".join(lines)


def contracts_page() -> str:
    lines = [
        "# Contracts",
        "",
        "A contract says what an environment promises about one kind of effect. It is stored whole, by digest; every verdict lists, among its",
        "assumptions, the fields that were left unstated. How to choose one: [choose a contract](../how-to/choose-a-contract.md).",
        "",
    ]
    for build in CONSTRUCTORS:
        parameters = ", ".join(name for name in inspect.signature(build).parameters)
        lines += [
            f"## {build.__name__}",
            "",
            inspect.cleandoc(build.__doc__ or ""),
            "",
            f"Arguments, all by name: {parameters}.",
            "",
        ]
    lines += ["## Classes of effects", "", *table(("kind", "meaning"), members(contracts.Kind)), ""]
    lines += ["## Fields of a contract", "", *table(("field", "default", "meaning"), field_rows(contracts.Contract)), ""]
    lines += ["## Fields of a look-up", "", inspect.cleandoc(contracts.Lookup.__doc__ or ""), ""]
    lines += [*table(("field", "default", "meaning"), field_rows(contracts.Lookup)), ""]
    lines += [
        "## What is refused",
        "",
        "A contract that cannot be true is refused where it is stated. The refusal names the field and the reason.",
        "",
    ]
    refusals = dict.fromkeys((f"`{refusal.field}`", refusal.reason, refusal.advice) for refusal in REFUSALS)
    lines += [*table(("field", "refused because", "what to do"), refusals), ""]
    for enum in (
        contracts.Remembers,
        contracts.Replay,
        contracts.WindowStart,
        contracts.AfterWindow,
        contracts.Deletion,
        contracts.Batch,
        contracts.Enforced,
    ):
        lines += [f"## {enum.__name__}", ""]
        if "__doc__" in vars(enum) and enum.__doc__:
            lines += [inspect.cleandoc(enum.__doc__), ""]
        lines += [*table(("value", "meaning"), members(enum)), ""]
    return "\n".join(lines)


DOCUMENTS: dict[str, tuple[str, ...]] = {
    "recover --run-id": ("run", "exit_code", "outcome", "appended", "head_digest", "verdicts", "contradictions", "unsettled"),
    "recover --run-id --plan": ("run", "exit_code", "plan", "owner"),
    "recover runs": ("runs", "damaged", "more"),
    "recover show": (
        "run",
        "parent",
        "children",
        "head_digest",
        "entries",
        "late_evidence",
        "heartbeats",
        "contradictions",
        "contracts",
    ),
    "recover doubt": ("doubts", "contradicted", "contracts", "damaged", "more"),
    "recover explain": ("explanation",),
    "recover explain RUN": ("why",),
    "recover parking": ("reasons",),
    "recover probe": ("run_id", "step", "answer", "kept", "because", "verdict"),
    "recover resolve": ("run_id", "step", "settled", "checked"),
    "recover close": ("run_id", "step", "answer", "settled", "verdict"),
    "recover acknowledge": ("run_id", "step", "order", "left"),
    "recover compensate": ("run_id", "step", "undoings"),
    "recover hold": ("run_id", "order", "status", "epoch", "was_owned_by", "acts_until"),
    "recover release": ("run_id", "order", "status", "epoch", "was_owned_by", "acts_until"),
    "recover cancel": (
        "run",
        "exit_code",
        "outcome",
        "appended",
        "head_digest",
        "verdicts",
        "contradictions",
        "unsettled",
        "error",
    ),
    "recover pause": ("run_id", "order", "by", "reason", "status", "taken_in", "owner"),
    "recover resume": ("run_id", "order", "by", "reason", "status", "taken_in", "owner"),
    "recover signal": ("signal",),
    "recover send": ("message",),
    "recover waits": ("waits",),
    "recover query": ("run_id", "published"),
    "recover listen": ("run_id", "position", "events"),
    "recover fork": (
        "run_id",
        "of_run",
        "of_run_status",
        "both_go_on",
        "at",
        "head",
        "head_digest",
        "version",
        "prefix",
        "terms",
        "plan",
    ),
    "recover restart": (
        "run_id",
        "from_step",
        "generation",
        "head",
        "head_digest",
        "status",
        "prefix",
        "superseded",
        "terms",
        "plan",
    ),
    "recover fence": ("run_id", "order", "status", "epoch", "was_owned_by", "acts_until"),
    "recover forget": ("run_id", "status", "outcome_digest", "keys", "by", "reason", "at"),
    "recover restored": ("database", "by", "reason", "at", "before", "incarnation", "unsettled"),
    "recover orphans": ("environments", "orphans"),
    "recover verify": ("exit_code", "runs", "entries", "broken", "asked", "effects", "unopened"),
    "recover migrate": ("database", "from", "to", "migrated"),
    "recover replay": ("scenarios", "passed", "failed"),
    "recover explore": (
        "histories",
        "merged",
        "states",
        "end_states",
        "faults",
        "recoverers",
        "seconds",
        "complete",
        "promises",
        "repeated",
        "stores",
        "colours",
        "unanswered",
        "violations",
    ),
    "recover demo": ("scenes", "holds"),
    "recover checkpoint plan": ("plan", "measurement", "failures", "simulation", "work_s", "intervals", "plot"),
    "recover checkpoint verify-resume": (
        "make",
        "step",
        "finding",
        "exact",
        "before",
        "after",
        "draws",
        "fields",
        "compared",
        "contract",
        "fresh_process",
        "divergence",
        "dropped",
        "trajectories",
        "unregistered",
        "advice",
        "plot",
        "store",
    ),
    "recover checkpoint list": ("store", "writing", "checkpoints", "rejected", "quarantine"),
    "recover checkpoint inspect": (
        "path",
        "name",
        "id",
        "kind",
        "rule",
        "sequence",
        "step",
        "parent",
        "journal",
        "fingerprint",
        "writers",
        "bytes",
        "schema",
        "files",
        "tensors",
        "marks",
        "state",
        "lifecycle",
        "passed_over",
    ),
    "recover checkpoint verify": ("path", "exit_code", "whole", "damaged", "bytes", "seconds", "marked", "checkpoints"),
    "recover checkpoint diff": ("equal", "a", "b", "kind", "state", "lifecycle", "tensors", "compared"),
    "recover checkpoint gc": ("store", "dry_run", "writing", "keep", "kept", "retired", "damaged", "unfinished", "bytes"),
    "recover checkpoint pin": ("store", "name", "pinned", "changed"),
    "recover checkpoint unpin": ("store", "name", "pinned", "changed"),
    "recover contracts list": ("contracts",),
    "recover contracts show": ("provider", "contract", "digest", "measured", "statuses", "consequences"),
}
"""The keys of each command's document beside schema_version; a run that is not completed has `error` too. Tests compare them."""


def cli_page() -> str:
    tree: Any = typer.main.get_command(cli.app)
    lines = [
        "# Command line",
        "",
        "`recover` is also `python -m recovery`. The database of every command is `--db`, else `RECOVERY_DB`, else the app's, else",
        '`sqlite:///recovery.db`. The app is `--app`, else `RECOVERY_APP`, else `[tool.recovery] app = "module:engine"` in the `pyproject.toml` of',
        "the current directory; modules in the current directory can be imported. Without an app, `show`, `runs`, the outcomes of settled runs",
        "and a plan from the journal alone still work.",
        "",
        "The answer is on stdout, everything else on stderr. On a terminal it has colours (`NO_COLOR` turns them off), in a pipe it is plain",
        'text. With `--json` stdout holds one JSON document with a `schema_version`; a command that fails prints `{"error": ...}` in it.',
        "How a command ends: [exit codes](exit-codes.md), and 130 after an interrupt (nothing is lost). `RECOVERY_TRACEBACK=1` is `--debug`.",
        "",
        *_command("recover", tree),
    ]
    for name, command in _leaves("recover", tree):
        lines += _command(name, command)
    lines += [
        "## JSON documents",
        "",
        "Each has `schema_version`, and of a run that is not completed `error` as well. Times are ISO 8601 in UTC.",
        "",
    ]
    lines += table(("command", "keys"), [(f"`{name}`", ", ".join(f"`{key}`" for key in keys)) for name, keys in DOCUMENTS.items()])
    return "\n".join(lines)


def _leaves(name: str, group: Any) -> Iterable[tuple[str, Any]]:
    """The commands of a group and of the groups in it, with their whole names."""
    for part in group.list_commands(None):
        command = group.commands[part]
        if hasattr(command, "commands"):
            yield from _leaves(f"{name} {part}", command)
        else:
            yield f"{name} {part}", command


def _taken(argument: Any) -> str:
    """An argument as it is typed: in brackets where it may be left out, and with dots where there may be several."""
    several = "..." if argument.nargs == -1 else ""
    return f"{argument.metavar}{several}" if argument.required else f"[{argument.metavar}{several}]"


def _command(name: str, command: Any) -> list[str]:
    """A command's help as a section. `Any`: typer brings its own copy of click, whose types are private."""
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    rows = [(f"`{item.metavar}`", item.help or "") for item in arguments]
    for item in command.params:
        if item.param_type_name == "option":
            taken = "" if item.is_flag else f" {item.metavar}"
            default = f" Default: {item.default}." if item.default and not item.is_flag else ""
            rows.append((f"`{', '.join(item.opts)}{taken}`", f"{item.help}{default}"))
    usage = " ".join([name, *map(_taken, arguments), "[OPTIONS]"])
    return [f"## {name}", "", f"`{usage}`", "", inspect.cleandoc(command.help), "", *table(("option", "meaning"), rows), ""]


def verdicts_page() -> str:
    lines = [
        "# Verdicts",
        "",
        "What is known about one effect is weighed into facts, and the first row that matches them is the verdict. The order is part of the",
        "meaning. Judging the same evidence again gives the same row. Times are those of the [words](words.md); A1 to A6 are the assumptions of",
        "the [guarantees](../explanation/guarantees.md).",
        "",
        *table(
            ("#", "row", "verdict", "if none above holds and"),
            [(str(row.number), f"[{row.name}](#{row.name})", f"`{row.action.value}`", row.condition) for row in ROWS],
        ),
        "",
        "## Actions",
        "",
        *table(("action", "what follows"), members(Action)),
        "",
        "## Facts",
        "",
        inspect.cleandoc(Facts.__doc__ or ""),
        "",
    ]
    for enum in (facts.Finding, facts.Gate, facts.Resend, facts.Ask, facts.Close, facts.Absence):
        lines += [f"### {enum.__name__}", "", inspect.cleandoc(enum.__doc__ or ""), ""]
        lines += [*table(("value", "meaning"), members(enum)), ""]
    lines += ["## Rows", ""]
    for row in ROWS:
        assumed = f"Assumes {', '.join(row.assumes)}." if row.assumes else "Assumes nothing."
        page = f" Page: [{row.parking.value}](parking/{row.parking.value}.md)." if row.parking is not None else ""
        lines += [
            f"### {row.name}",
            "",
            f"Row {row.number}: `{row.action.value}`, reason `{row.reason.value}`. {assumed}{page}",
            "",
        ]
        lines += [row.paragraph, ""]
    return "\n".join(lines)


def parking_index_page() -> str:
    """The index of the pages about reasons to park, in the order of the table, and to hold a run."""
    reasons = [*(row.parking for row in ROWS if row.parking is not None), *HoldReason]
    rows = [(f"[{reason.value}]({reason.value}.md)", parking.page_of(reason).title, _open_orders(reason)) for reason in reasons]
    return "\n".join(
        [
            "# Reasons for parking",
            "",
            "A parked step is in doubt or held: nothing more is sent for it until somebody brings something. Each reason has a page, which says what",
            "to look at first, what is known, why the table does not decide by itself, which orders are open, and how to have fewer of it. The same",
            "words are in the program: `recover parking REASON`. The way through: [decide a doubt](../../how-to/decide-a-doubt.md).",
            "",
            *table(("reason", "what it means", "orders that are or may be open"), rows),
            "",
            "`resolve` is always open, unless somebody else is at work on the run: hold it first.",
        ]
    )


def _open_orders(reason: Parked) -> str:
    orders = parking.page_of(reason).orders
    told = [(name, getattr(orders, name).is_) for name in parking.Orders.model_fields]
    return ", ".join(f"`{name}`" for name, is_ in told if is_ is not parking.Open.REFUSED)


def parking_page(reason: Parked) -> str:
    """One page, and the facts under which the table comes to it."""
    row = parking.row_of(reason)
    lines = [
        parking.markdown(reason),
        "",
        "## In the table",
        "",
        f"[Row {row.number}](../verdicts.md#{row.name}) is reached from these [facts](../verdicts.md#facts); a fact that is not named can be anything.",
        "",
        *table(("fact", "values"), _reached_from(row)),
        "",
    ]
    if row.relies_on:
        named = ", ".join(f"`{name}`" for name in row.relies_on)
        lines += [f"It rests on these [fields of the contract](../contracts.md#fields-of-a-contract): {named}.", ""]
    return "\n".join([*lines, "All reasons: [index](index.md)."])


def _reached_from(row: Row) -> list[tuple[str, str]]:
    """What the facts that lead to a row have in common; those of a finding that decides alone are the finding."""
    reached, every = _facts_by_row()[row.name], list(_facts_by_row().values())
    if all(found.finding in facts.SELF_EVIDENT for found in reached):
        return [("finding", ", ".join(f"`{found.finding.value}`" for found in reached))]
    told = []
    for item in fields(Facts):
        values = {str(getattr(found, item.name)).lower() for found in reached}
        if values != {str(getattr(found, item.name)).lower() for others in every for found in others}:
            told.append((item.name, ", ".join(f"`{value}`" for value in sorted(values))))
    return told


@cache
def _facts_by_row() -> dict[str, list[Facts]]:
    found: dict[str, list[Facts]] = {row.name: [] for row in ROWS}
    for each in facts.all_facts():
        found[judge(each).name].append(each)
    return found


def scenarios_page() -> str:
    lines = [
        "# Scenarios",
        "",
        "A scenario is a YAML file: a story, an environment, a workflow, a timeline and what must come of it. It is played on a virtual clock with",
        "the real engines, in both colours, and judged after every move by the promises I1 to I10 of the",
        "[guarantees](../explanation/guarantees.md). How to write one: [write a scenario](../how-to/write-a-scenario.md).",
        "",
        "Durations are written like `500ms`, `30s`, `20m`, `25h`, `7d` or `1h30m`. A file is at most 256 KiB of plain YAML, without tags, aliases",
        "or duplicate keys. A mistake is reported as `file:line: field: what is wrong`, and nothing is run.",
        "",
    ]
    sections: list[tuple[str, tuple[type[BaseModel], ...]]] = [
        ("The file", (scenario.Scenario, scenario.LeaseSpec, scenario.BudgetSpec)),
        ("Environment", (scenario.EnvironmentSpec, scenario.EffectSpec, scenario.LookupSpec)),
        ("Workflow", (*steps.STEPS, steps.Module)),
        ("Timeline", (*moves.MOVES, moves.Stop, moves.Happens, moves.Strikes, moves.Jump, moves.NewCode)),
        ("Expectations", (moves.Came, moves.World, moves.Standing, moves.Settlement)),
    ]
    for title, models in sections:
        lines += [f"## {title}", ""]
        for model in models:
            rows = [_model_field(name, field) for name, field in model.model_fields.items()]
            lines += [f"### {model.__name__}", "", inspect.cleandoc(model.__doc__ or ""), ""]
            lines += [*table(("field", "default", "meaning"), rows), ""]
    lines += [
        "## Places",
        "",
        "A process is stopped at a [crash point](crash-points.md) or at one of these places inside the environment:",
        "",
    ]
    lines += [*table(("place", "what is true there"), [(f"`{place}`", text) for place, text in environment.PLACES.items()]), ""]
    lines += [
        "A process that is killed reaches nothing any more: its lease is not released, and no `finally` block gets through. One that is paused",
        "stands still as under SIGSTOP; its lease ends when time passes while somebody watches it.",
    ]
    return "\n".join(lines)


def _model_field(name: str, field: FieldInfo) -> tuple[str, str, str]:
    default = field.get_default(call_default_factory=True)
    if field.is_required():
        shown = "required"
    elif default is None or default in ([], {}):
        shown = "none"
    else:
        shown = f"`{_plain(default)}`"
    return f"`{field.alias or name}`", shown, field.description or ""


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    if isinstance(value, timedelta):
        return f"{value // timedelta(seconds=1)}s"
    return type(value).__name__ if isinstance(value, BaseModel) else str(value).lower() if isinstance(value, bool) else str(value)


def providers_page() -> str:
    entries = catalogue.entries()
    lines = [
        "# Providers",
        "",
        'Contracts that are shipped, as data: `recovery.catalogue.load("stripe-v1")` in a definition, `recover contracts show stripe-v1` at a',
        f"terminal. {console_contracts.DISCLAIMER} What a vendor does not say keeps its default, and each verdict names the defaults that it relied on.",
        "",
        "A window is how long the provider remembers a key. A re-send must end before it does, with room for a copy that is still under way, so",
        "that it is allowed for less long. How to choose: [choose a contract](../how-to/choose-a-contract.md).",
        "",
        "How we know a number: *read at the vendor* (on its page, in its code, or from its staff), *in an earlier edition* (the vendor said so once, and",
        "today's page is silent), *reported by a third party*, *not published* (the source says how we know that), *inferred* from something that was",
        "read, *not verified* (collected earlier and not found again).",
        "",
    ]
    rows = []
    for entry in entries:
        contract = entry.contract()
        after = console_contracts.after_a_crash(contract)
        known = console_contracts.how_known(entry, "window")
        window = console_contracts.window(contract), "-" if known is None else console_contracts.KNOWN[known]
        rows.append((f"[{entry.name}](#{entry.name})", entry.kind.value, *window, after, console_contracts.a_copy(entry)))
    head = ("name", "class", "window", "known from", "after a crash in the wrong moment", "one more request")
    lines += [*table(head, rows), ""]
    for entry in entries:
        contract = entry.contract()
        lines += [f"## {entry.name}", "", f"{entry.title}. Class `{entry.kind.value}`, version {entry.version}.", ""]
        lines += [console_contracts.a_copy(entry), ""]
        stated = [
            (f"`{p.field}`", console_contracts.shown(p), p.says, entry.status(p).value, _cited(entry.sources[p.source]))
            for p in entry.promises
        ]
        lines += [*table(("promise", "value", "what it says", "how we know", "source"), stated), ""]
        lines += [f"- {note.says} ({entry.status(note).value}: {_cited(entry.sources[note.source])})" for note in entry.notes]
        lines += [""] if entry.notes else []
        told = [
            (c.when, f"[{c.row.name}](verdicts.md#{c.row.name})", console_contracts.follows(c))
            for c in catalogue.consequences(contract)
        ]
        lines += [
            *table(("after a crash", "row", "then"), [(when, row, then.rpartition(" (")[0]) for when, row, then in told]),
            "",
        ]
    return "\n".join(lines)


def _cited(source: catalogue.Source) -> str:
    cited = console_contracts.cited(source)
    return cited if source.url is None else cited.replace(source.title, f"[{source.title}]({source.url})", 1)


PAGES: dict[str, Callable[[], str]] = {
    "reference/api.md": api_page,
    "reference/cli.md": cli_page,
    "reference/contracts.md": contracts_page,
    "reference/crash-points.md": crash_points_page,
    "reference/errors.md": errors_page,
    "reference/exit-codes.md": exit_codes_page,
    "reference/parking/index.md": parking_index_page,
    **{reason.page: partial(parking_page, reason) for reason in PARKED},
    "reference/providers.md": providers_page,
    "reference/scenarios.md": scenarios_page,
    "reference/values.md": values_page,
    "reference/verdicts.md": verdicts_page,
}


def _tree(error: type[errors.RecoveryError], depth: int = 0) -> list[str]:
    return ["  " * depth + error.__name__, *(line for child in _children(error) for line in _tree(child, depth + 1))]


_TREE = {recovery.errors.__name__, checkpoint_errors.__name__, refusals.__name__}
"""Where errors of the package are."""


def _descendants(error: type[errors.RecoveryError]) -> Iterable[type[errors.RecoveryError]]:
    yield error
    for child in _children(error):
        yield from _descendants(child)


def _children(error: type[errors.RecoveryError]) -> list[type[errors.RecoveryError]]:
    """Those of the package's tree: a program may have subclasses of its own in the same process. By name, since the order of subclasses is the
    order in which modules happened to be imported."""
    found = [child for child in error.__subclasses__() if child.__module__ in _TREE]
    return sorted(found, key=lambda child: (child.__module__ != recovery.errors.__name__, child.__name__))


def _shown(template: str) -> str:
    """A template with its fields as a reader sees them: {run_id!r} becomes *run_id*."""
    return re.sub(r"\{(\w+)(![rs])?(:[^}]*)?\}", r"*\1*", template)


def render(name: str) -> str:
    """A page as it should be committed."""
    return f"<!-- Made by docs/generate.py; run `make docs` instead of editing. -->\n\n{PAGES[name]().strip()}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check: bool = parser.parse_args().check
    stale = [name for name in PAGES if not (DOCS / name).is_file() or (DOCS / name).read_text(encoding="utf-8") != render(name)]
    for name in stale:
        if not check:
            (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
            (DOCS / name).write_text(render(name), encoding="utf-8")
        sys.stdout.write(f"{'out of date' if check else 'written'}: docs/{name}\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
