"""Small torch jobs that processes of a test train, and what they do in it. Importable by other processes."""

from __future__ import annotations

import time
from datetime import timedelta
from threading import Event
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

from recovery import crashpoints
from recovery.checkpoint import CheckpointStore, Cursor, Lifecycle, Stage
from recovery.checkpoint.errors import CheckpointError, SaveUnderWay
from recovery.checkpoint.torch import ExactLoadPlanner, Job, PlainSavePlanner, StoreReader, StoreWriter, TorchStore

CONFIG = {"rate": 0.05, "inputs": 5, "hidden": 6, "per_update": 4}
DIGESTS = {name: letter * 64 for name, letter in (("tokenizer", "a"), ("data", "b"), ("model", "c"))}


class Net(nn.Module):
    """Six rows over four ranks leave one without any; a buffer, a dropout and a narrow embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(CONFIG["inputs"], CONFIG["hidden"])
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(CONFIG["hidden"], 1)
        self.register_buffer("scale", torch.ones(3, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(torch.tanh(self.first(x)))) * self.scale[0].float()


class Sampler:
    """A loader of a rank's own: it draws its examples from a generator of numpy's."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.taken = 0

    def batch(self) -> torch.Tensor:
        self.taken += 1
        return torch.from_numpy(self.generator.standard_normal((2, CONFIG["inputs"])).astype(np.float32))

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.taken = state["taken"]


class Training:
    """A job with everything that an update needs."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        torch.manual_seed(7)
        self.model: Any = Net()
        if size > 1:
            mesh = init_device_mesh("cpu", (size,))
            fully_shard(self.model, mesh=mesh)
        torch.manual_seed(100 + rank)  # each rank drops others
        optimizer = torch.optim.Adam(self.model.parameters(), lr=CONFIG["rate"])
        self.schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.9)
        self.sampler = Sampler(rank)
        self.job = Job(
            model=self.model,
            optimizer=optimizer,
            cursor=Cursor(0, CONFIG["per_update"]),
            config=CONFIG,
            lifecycle=Lifecycle(**DIGESTS, stage=Stage("tune")),
            parts={"schedule": self.schedule},
            parts_of_rank={"sampler": self.sampler},
        )
        self.job.generators = {"torch": torch.default_generator, "sampler": self.sampler.generator}

    def step(self) -> None:
        x = self.sampler.batch()
        loss = (self.model(x) - x.sum(dim=1, keepdim=True)).pow(2).mean()
        loss.backward()
        self.job.optimizer.step()
        self.job.optimizer.zero_grad()
        self.schedule.step()
        with torch.no_grad():
            self.model.scale += 0.5
        self.job.updated(loss.item())

    def whole(self) -> dict[str, Any]:
        """Every tensor in full, as bytes; and the counters."""
        tensors = {}
        for name, tensor in self.job.view().tensors.items():
            full = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
            tensors[name] = (
                str(full.dtype),
                tuple(full.shape),
                full.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes().hex(),
            )
        return {
            "tensors": tensors,
            "counter": self.job.counter,
            "draws": self.job.cursor.draws,
            "rate": self.schedule.get_last_lr(),
        }


def opened(directory: str, **options: Any) -> TorchStore:
    return TorchStore(CheckpointStore(directory), **options)


def train_and_save(rank: int, size: int, directory: str, updates: int, more: int = 0) -> Any:
    """What the job was when it was saved, and after some more updates."""
    training = Training(rank, size)
    for _ in range(updates):
        training.step()
    saved = opened(directory).save(training.job)
    before = training.whole()
    for _ in range(more):
        training.step()
    return saved.name, before, training.whole()


def load_and_train(rank: int, size: int, directory: str, more: int = 0, reshard: bool = False) -> Any:
    """What the job was when it was loaded, and after some more updates."""
    training = Training(rank, size)
    loaded = opened(directory).load(training.job, reshard=reshard)
    before = training.whole()
    for _ in range(more):
        training.step()
    return loaded.candidate.name, loaded.resharded, before, training.whole()


SOON = timedelta(seconds=2)
"""A deadline for those who wait for a rank that is dead; generous for ranks that live on a busy machine is `opened`'s own."""


def save_twice(rank: int, size: int, directory: str) -> Any:
    """After one update and after two. A rank that is to be killed is killed in the second save."""
    training, store = Training(rank, size), opened(directory)
    training.step()
    with crashpoints.hooked(lambda _: None):
        store.save(training.job)
    training.step()
    store.deadline = SOON
    return store.save(training.job).name


def save_with_a_fault(rank: int, size: int, directory: str, fault: str) -> Any:
    """Rank 1 has a number that is none, or has counted an update more."""
    training = Training(rank, size)
    training.step()
    if rank == 1 and fault == "nan":
        with torch.no_grad():
            training.model.first.weight.to_local().fill_(float("nan"))
    if rank == 1 and fault == "behind":
        training.job.updated(0.0)
    return opened(directory).save(training.job).name


def save_beside(rank: int, size: int, directory: str) -> Any:
    """Two saves beside the training; the first is held up until an update with its collectives is done."""
    training, store, updated = Training(rank, size), opened(directory), Event()

    def held(point: str) -> None:
        if point == "checkpoint.shard.before":
            assert updated.wait(60)

    training.step()
    with crashpoints.hooked(held):
        first = store.async_save(training.job)
    training.step()
    overlapped, refused = not first.done(), ""
    try:
        store.async_save(training.job, wait=False)
    except SaveUnderWay as error:
        refused = type(error).__name__
    updated.set()
    second = store.async_save(training.job)
    store.close()
    return overlapped, refused, [each.result().manifest.step for each in (first, second)]


def fail_beside(rank: int, size: int, directory: str) -> Any:
    """A save that is whole, one beside the training that is not, and what is told of it; then what can be loaded."""
    alarms: list[BaseException] = []
    training, store = Training(rank, size), opened(directory, on_failure=alarms.append)
    training.step()
    store.save(training.job)
    training.step()
    with torch.no_grad():
        training.model.scale.fill_(float("inf"))
    store.async_save(training.job)
    try:
        store.save(training.job)
    except CheckpointError as error:
        raised = type(error).__name__
    store.load(training.job)
    return type(alarms[0]).__name__, raised, training.job.counter


def through_dcp(rank: int, size: int, directory: str) -> Any:
    """Whether a state dict of sharded tensors came back; then what is said of a damaged shard of rank 1's, and whether this rank's tensors were touched."""
    store, mesh = CheckpointStore(directory), init_device_mesh("cpu", (size,))

    def of(value: float) -> dict[str, Any]:
        return {"a": distribute_tensor(torch.full((5, 2), value), mesh, [Shard(0)]), "b": torch.full((3,), value), "rate": value}

    saved, into = of(0.5), of(0.0)
    with StoreWriter(store) as writer:
        dcp.save(saved, storage_writer=writer, planner=PlainSavePlanner())
    candidate = store.latest("weights")
    dcp.load(into, storage_reader=StoreReader(store, candidate), planner=ExactLoadPlanner())
    loaded = into["a"].full_tensor().equal(torch.full((5, 2), 0.5)) and into["b"][0] == into["rate"] == 0.5
    torch.distributed.barrier()
    if rank == 1:
        part = next(part for part in candidate.manifest.tensors["a"].slices if part.offset == (3, 0))
        shard = candidate.path / part.file
        shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
    torch.distributed.barrier()
    into = of(0.25)
    failed = ""
    try:
        dcp.load(into, storage_reader=StoreReader(store, candidate), planner=ExactLoadPlanner())
    except dcp.CheckpointException as error:
        failed = str(error)
    untouched = into["a"].to_local().eq(0.25).all().item() and into["b"].eq(0.25).all().item() and into["rate"] == 0.25
    return bool(loaded), failed, untouched


def save_late(rank: int, size: int, directory: str) -> Any:
    """Rank 1 is not lost and only slow: it writes once rank 0 has given it up."""
    training, store = Training(rank, size), opened(directory)
    training.step()
    store.deadline = SOON

    def held(point: str) -> None:
        if rank == 1 and point == "checkpoint.shard.before":
            while not any(store.store.path.glob("ranks/*/*/failed-00000.json")) or any(store.store.path.glob("ckpt/.tmp-*")):
                time.sleep(0.01)

    with crashpoints.hooked(held):
        return store.save(training.job).name
