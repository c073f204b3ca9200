"""A kept heap costs no page faults where the same memory is taken again."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys

import pytest

from tests.small_pages import SMALL_PAGES, can_be_small

_TIMES, _BYTES = 5, 64 << 20
_COUNT = f"""
import resource
import torch
from kvsim.calibrate.measure.heap import keep_heap
x = torch.ones({_BYTES} // 4)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({_TIMES}):
        x * 2
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
plain = faults()
assert keep_heap()
for _ in range(30):  # until all places that are taken have been touched
    x * 2
print(plain, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap is glibc's")
@pytest.mark.skipif(not can_be_small(), reason="pages may be large")
def test_large_results_take_memory_that_is_there() -> None:
    command = [sys.executable, "-c", SMALL_PAGES + _COUNT]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    plain, kept = map(int, done.stdout.split())
    assert plain >= _TIMES * _BYTES // resource.getpagesize(), "every page of every result"
    assert 10 * kept < plain
