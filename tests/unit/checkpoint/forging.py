"""Checkpoints as a faulty or hostile writer would leave them: consistent to the last digest, except where a test says otherwise."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recovery.checkpoint.manifest import FILE, ID_DOMAIN, STATE, digest
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.strict import canonical


def document_of(candidate: Candidate) -> dict[str, Any]:
    return json.loads((candidate.path / FILE).read_bytes())


def named(document: dict[str, Any]) -> str:
    return f"{document['sequence']:012d}-{document['id'][:12]}"


def identified(document: dict[str, Any]) -> dict[str, Any]:
    """With the id that belongs to its content."""
    inner = {key: value for key, value in document.items() if key != "id"}
    return inner | {"id": digest(ID_DOMAIN + canonical(inner))}


def forge(candidate: Candidate, change: Callable[[dict[str, Any], Path], None]) -> Path:
    """Replace a checkpoint by a changed one: `change` may edit the manifest's document and the files; digests, sizes, totals, schema and id are
    brought in line afterwards, as far as the document still has them."""
    document = document_of(candidate)
    change(document, candidate.path)
    for entry in document["files"]:
        path = candidate.path / str(entry.get("name"))
        if "/" not in str(entry.get("name")) and path.is_file() and len(str(entry.get("blake3"))) == 64:
            entry |= {"size": path.stat().st_size, "blake3": digest(path.read_bytes())}
    document["totals"] = {
        "bytes": sum(entry["size"] for entry in document["files"]),
        "files": len(document["files"]),
        "tensors": len(document["tensors"]),
    }
    document["schema"] = digest(
        canonical({name: {"dtype": tensor["dtype"], "shape": tensor["shape"]} for name, tensor in document["tensors"].items()})
    )
    return put(candidate, identified(document))


def put(candidate: Candidate, document: dict[str, Any]) -> Path:
    """The checkpoint under this manifest, in the directory that its name asks for."""
    (candidate.path / FILE).write_bytes(canonical(document))
    target = candidate.path.with_name(named(document))
    if target != candidate.path:
        shutil.move(candidate.path, target)
    return target


def with_header(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any], Path], None]:
    """An edit for `forge`: the first shard's header changed. What `change` returns becomes the header: an object, or bytes as they are."""

    def edit(document: dict[str, Any], path: Path) -> None:
        shard = path / next(entry["name"] for entry in document["files"] if entry["name"] != STATE)
        data = shard.read_bytes()
        length = int.from_bytes(data[:8], "little")
        changed = change(json.loads(data[8 : 8 + length]))
        text = changed if isinstance(changed, bytes) else json.dumps(changed, separators=(",", ":")).encode()
        shard.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])

    return edit
