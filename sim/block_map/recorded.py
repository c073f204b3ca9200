"""Block maps of run and comparison folders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.block_map.block_map import BlockMap
from kvsim.sim.folders.place import BLOCKS, COMPARISON, MANIFEST, REPORT, row_blocks_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def report_of(folder: Path) -> Path:
    """Path of a folder's report.

    Raises
    ------
    ValueError
        Where the folder is no run or comparison.
    """
    if not any((folder / name).is_file() for name in (MANIFEST, COMPARISON)):
        raise ValueError(
            f"{folder} is not a run or comparison of kvsim: it has no {MANIFEST} or {COMPARISON}; "
            "kvsim simulate and kvsim compare --out write one"
        )
    return folder / REPORT


def recorded_maps(folders: Sequence[Path]) -> list[BlockMap]:
    """Maps of all folders, in order; of several folders they bear the folders' names, too.

    Raises
    ------
    ValueError
        Where a folder is no run or comparison, or nothing was recorded.
    """
    maps = []
    for folder in folders:
        report_of(folder)
        run = folder / BLOCKS
        paths = [run] if run.is_file() else row_blocks_in(folder)
        if not paths:
            raise ValueError(f"{folder} has no block map: run it again with --record blocks")
        found = [BlockMap.load(path) for path in paths]
        if len(folders) > 1:
            found = [_named(one, folder.name, alone=run.is_file()) for one in found]
        maps += found
    return maps


def _named(found: BlockMap, folder: str, *, alone: bool) -> BlockMap:
    name = folder if alone else f"{folder}: {found.facts.name}"
    return replace(found, facts=replace(found.facts, name=name))
