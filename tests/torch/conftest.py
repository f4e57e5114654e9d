"""Tests of torch jobs. Without torch they are not even collected; `make test-torch` installs it."""

from importlib.util import find_spec

import pytest

if find_spec("torch"):
    import torch

    torch.set_num_threads(1)  # two processors may be shared with other tests, and threads that wait for each other cost seconds

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/torch/" in item.path.as_posix():
            item.add_marker(pytest.mark.torch)
