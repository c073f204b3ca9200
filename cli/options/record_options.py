"""``--record``: what a run keeps of its pool beside its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.block_map import RecordOptions


def add_record_options(group: argparse._ArgumentGroup) -> None:
    """Declare what is recorded, and when."""
    group.add_argument(
        "--record",
        choices=("blocks",),
        metavar="blocks",
        help="record the contents of all blocks for kvsim report --block-map; uses the stepper",
    )
    group.add_argument(
        "--record-window",
        metavar="FROM..TO",
        help="record only this part of the run, such as 10s..20s",
    )


def record_options(arguments: argparse.Namespace) -> RecordOptions | None:
    """How to record, ``None`` where nothing is; ValueError on options that do not go together."""
    from kvsim.sim.block_map import RecordOptions

    if arguments.record is None:
        if arguments.record_window is not None:
            raise ValueError("--record-window says when to record: give --record blocks, too")
        return None
    return RecordOptions.of_window(arguments.record_window)
