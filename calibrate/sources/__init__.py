"""Readers of other people's measurements: tables of one source in, ``Measurements`` out.

A reader is a module with ``read(request) -> Measurements``; units, file names and columns of its
source stay inside it. New ones are added to ``SOURCES``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    from kvsim.calibrate.sources.measurements import Measurements
    from kvsim.calibrate.sources.request import ReadRequest

SOURCES: Final = ("aiconfigurator", "vidur", "llmservingsim", "splitwise")


def read_measurements(source: str, request: ReadRequest) -> Measurements:
    """Measurements of ``source`` (one of ``SOURCES``).

    Raises ``ValueError`` with one sentence on what the tables lack or mix.
    """
    if source not in SOURCES:
        raise ValueError(unknown("--format", source, SOURCES))
    found: Measurements = import_module(f"kvsim.calibrate.sources.{source}").read(request)
    return found


__all__ = ["SOURCES", "read_measurements"]
