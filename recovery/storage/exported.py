"""Exported journals: one run as lines of text, to be kept beside the code and replayed against what becomes of it.

Owns the form of the text: a head line with what stands outside the chain, then one line per entry, in order, then late evidence, and the
values that lie out of line. Invariants: an
entry's body is the very text that was hashed, so that an exported journal verifies as the database does; who owned the run is left out.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any, Final

from recovery import texts
from recovery.core.chain import Row
from recovery.core.entries import JSON, Status
from recovery.core.errors import IncompatibleVersion, RunNotFound, SchemaMismatch
from recovery.core.ids import Epoch, check_run_id
from recovery.core.resting import RestsFor
from recovery.ports import Evidence, Journal, RunRow, Stored
from recovery.storage.folding import Folding
from recovery.storage.opening import digests_of
from recovery.storage.portions import at_hand, in_portions
from recovery.storage.reading import Whole, read, whole
from recovery.vaults import Vault

EXPORT_FORMAT: Final = 1
"""Raised whenever an older reader could misunderstand a newer export; an older reader then refuses."""

_HEAD: Final = "recovery_journal"


def exported(journal: Journal, run_id: str) -> str:
    """One run as text. Read from one verified snapshot; changes nothing. Raises RunNotFound, RunForgotten, JournalCorrupt."""
    if journal.find(check_run_id(run_id)) is None:
        raise RunNotFound(run_id=run_id, database=journal.url)
    loaded, namespace = read(journal, run_id, values=False), journal.namespace()
    run = loaded.run
    head = {
        _HEAD: EXPORT_FORMAT,
        "run_id": run_id,
        "namespace": namespace,
        "incarnation": loaded.incarnation,
        "workflow": run.workflow,
        "status": run.status.value,
        "reason": run.reason,
        "rests_for": run.rests_for.value,
        "input_digest": run.input_digest,
        "epoch": str(run.epoch),
        "head": run.head,
        "head_digest": run.head_digest,
        "created_at_us": run.created_at_us,
        "updated_at_us": run.updated_at_us,
        "next_look_us": run.next_look_us,
        "contracts": {digest: contract.to_json() for digest, contract in sorted(loaded.contracts.items())},
    }
    rows: list[JSON] = [
        {
            "seq": row.seq, "kind": row.kind, "step": row.step, "body": row.body, "epoch": str(row.epoch), "token": row.token,
            "digest": row.digest,
        }
        for row in loaded.rows
    ]  # fmt: skip
    late: list[JSON] = [
        {"late": item.kind, "step": item.step, "body": item.body, "epoch": str(item.epoch), "at_us": item.at_us}
        for item in loaded.late
    ]
    payloads: list[JSON] = [
        {"payload": digest} | _as_text(body) for digest, body in sorted(journal.payloads(digests_of(loaded.rows)).items())
    ]
    return "".join(
        f"{json.dumps(line)}\n" for line in [head, *rows, *late, *payloads]
    )  # in ASCII: no letter of a value can end a line


def imported(text: str, *, where: str, vault: Vault | None = None) -> tuple[str, Whole]:
    """The namespace and the run of an export, verified. where: what the text came from, for messages. vault: what an encrypted one opens with.

    Raises EncryptionKeyMissing and EncryptionKeyWrong, SchemaMismatch for what is no export, IncompatibleVersion for a newer one, and JournalCorrupt where its chain does not verify."""
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        head, *rest = [texts.loads(line) for line in lines]
        form = head[_HEAD]
    except (ValueError, KeyError, TypeError) as error:
        raise _refused(where, "is no exported journal") from error
    if form != EXPORT_FORMAT:
        raise IncompatibleVersion(
            run_id=head.get("run_id"), what="an exported journal", found=f"format {form}", known=EXPORT_FORMAT
        )
    try:
        run_id = check_run_id(head["run_id"])
        rows = [_row(line) for line in rest if "seq" in line]
        late = [_late(run_id, line) for line in rest if "late" in line]
        beside = {line["payload"]: _as_bytes(line) for line in rest if "payload" in line}
        contracts = {digest: texts.dumps(body) for digest, body in head["contracts"].items()}
        run, namespace, incarnation = _run(run_id, head), str(head["namespace"]), int(head["incarnation"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refused(where, f"is no whole exported journal ({type(error).__name__}: {error})") from error
    stored = Stored(namespace, incarnation, run, contracts, late, in_portions(rows), at_hand(beside))
    return namespace, whole(Folding(stored, vault, keeps=True))


def imported_file(path: Path, vault: Vault | None = None) -> tuple[str, Whole]:
    """As `imported`, of a file. Raises SchemaMismatch where it cannot be read, too."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(str(path), f"cannot be read ({error})") from error
    return imported(text, where=str(path), vault=vault)


def _as_text(body: bytes) -> dict[str, JSON]:
    """A payload as it stands in a line: as text, unless it is encrypted."""
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(body).decode()}


def _as_bytes(line: dict[str, Any]) -> bytes:
    return b64decode(line["base64"], validate=True) if "base64" in line else line["text"].encode()


def _row(line: dict[str, Any]) -> Row:
    return Row(int(line["seq"]), line["kind"], line["step"], line["body"], _epoch(line["epoch"]), line["token"], line["digest"])


def _late(run_id: str, line: dict[str, Any]) -> Evidence:
    return Evidence(run_id, line["step"], _epoch(line["epoch"]), int(line["at_us"]), line["late"], line["body"])


def _run(run_id: str, head: dict[str, Any]) -> RunRow:
    return RunRow(
        run_id=run_id,
        workflow=head["workflow"],
        status=Status(head["status"]),
        reason=head["reason"],
        input_digest=head["input_digest"],
        epoch=_epoch(head["epoch"]),
        owner=None,
        lease_counter=0,
        lease_term_us=0,
        head=int(head["head"]),
        head_digest=head["head_digest"],
        created_at_us=int(head["created_at_us"]),
        updated_at_us=int(head["updated_at_us"]),
        next_look_us=head["next_look_us"],
        rests_for=RestsFor(head.get("rests_for", "")),  # an export from before migration 0006 does not say it
    )


def _epoch(text: str) -> Epoch:
    found = Epoch.parse(text)
    if found is None:
        raise ValueError(f"{text!r} is no epoch")
    return found


def _refused(where: str, problem: str) -> SchemaMismatch:
    return SchemaMismatch(url=where, problem=problem, advice="Write one with `recover export RUN`.")
