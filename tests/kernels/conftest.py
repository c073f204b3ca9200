"""Triton kernels run in Triton's interpreter where there is no GPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def poisoned_outputs() -> Iterator[None]:
    """New tensors hold nan until a kernel writes them: what it forgets shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> torch.Generator:
    """Random numbers of a test, the same in every run; at night fresh ones, whose seed is told."""
    generator = torch.Generator()
    generator.manual_seed(crc32(request.node.nodeid.encode()))
    if os.environ.get("KVSIM_NIGHTLY") == "1":
        print(f"seed {generator.seed()}")  # shown where the test fails
    return generator


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    """The CPU, and a GPU where there is one."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device(request.param)
