"""A kept heap costs no page faults where the same memory is taken again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_COUNT = """
import resource
import torch
from kvsim.calibrate.measure.heap import keep_heap
x = torch.ones(16 << 20)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        x * 2
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
plain = faults()
assert keep_heap()
for _ in range(30):  # until all places that are taken have been touched
    x * 2
print(plain, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap is glibc's")
def test_large_results_take_memory_that_is_there() -> None:
    command = [sys.executable, "-c", _COUNT]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    plain, kept = map(int, done.stdout.split())
    assert kept < 1_000
    assert plain > 50 * kept + 1_000, "unless pages are large, 64 MB are 16,384 of them"
