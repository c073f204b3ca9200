"""Snapshots of a pool as one table, in memory and as ``blocks.parquet``.

On disk a snapshot is a row. Its lists have an entry for each cell that is not wholly blank; what a
cell's slots do not add up to is blank, of the kind that the row names. ``docs/block-map.md`` has
the columns.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.sim.block_map.pool_facts import PoolFacts
from kvsim.sim.metrics.shares import PRIMITIVES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from kvsim.sim.block_map.cells import Grid
    from kvsim.sim.block_map.snapshot import Snapshot

SCHEMA: Final = "kvsim.blocks/1"
_KEY: Final = b"kvsim.blocks"
BLANKS: Final = ("hole", "blocked", "free")
_HELD: Final = tuple(name for name in PRIMITIVES if name not in BLANKS)


@dataclass(frozen=True, slots=True)
class BlockMap:
    """Snapshots in order of time; arrays over (snapshots) or (snapshots, cells).

    ``slots`` is (snapshots, primitives, cells), all of a cell's slots. ``owner`` is the request
    that owns most of a cell (-1: nobody), ``owners`` the most that a slot of it has, ``evicted``
    the slots that lost cached content since the snapshot before.
    """

    facts: PoolFacts
    time_ps: NDArray[np.int64]
    running: NDArray[np.int32]
    waiting: NDArray[np.int32]
    slots: NDArray[np.int32]
    owner: NDArray[np.int32]
    owners: NDArray[np.int32]
    evicted: NDArray[np.int32]

    @property
    def grid(self) -> Grid:
        """Cells of the pool."""
        return self.facts.grid

    def __len__(self) -> int:
        return len(self.time_ps)

    @staticmethod
    def of(facts: PoolFacts, snapshots: Sequence[Snapshot]) -> BlockMap:
        """Stack the snapshots of a recording."""
        grid = facts.grid
        count, cells = len(snapshots), grid.num_cells

        def column(values: list[int]) -> NDArray[np.int32]:
            return np.array(values, dtype=np.int32)

        def stacked(arrays: list[NDArray[np.int32]], *shape: int) -> NDArray[np.int32]:
            return np.array(arrays, dtype=np.int32).reshape(count, *shape)

        slots = stacked([one.cells.slots for one in snapshots], len(PRIMITIVES), cells)
        fill_blank(slots, [one.blank for one in snapshots], grid)
        return BlockMap(
            facts,
            np.array([one.time_ps for one in snapshots], dtype=np.int64),
            column([one.num_running for one in snapshots]),
            column([one.num_waiting for one in snapshots]),
            slots,
            stacked([one.cells.owner for one in snapshots], cells),
            stacked([one.cells.owners for one in snapshots], cells),
            stacked([one.evicted for one in snapshots], cells),
        )

    def at(self, time_ps: int) -> int:
        """Number of the last snapshot up to ``time_ps``, else the first."""
        return max(int(np.searchsorted(self.time_ps, time_ps, side="right")) - 1, 0)

    def save(self, path: Path) -> None:
        """Write ``blocks.parquet``; the same map gives the same bytes."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - only who records pays for pyarrow

        with path.open("wb") as file:  # pyarrow opens no file whose name is no text
            pq.write_table(_to_arrow(self), file, compression="zstd", compression_level=9)

    @staticmethod
    def load(path: Path) -> BlockMap:
        """Read what :meth:`save` wrote.

        Raises
        ------
        ValueError
            Where the file is not of this schema.
        """
        import pyarrow as pa  # noqa: PLC0415 - as above
        import pyarrow.parquet as pq  # noqa: PLC0415

        try:
            with path.open("rb") as file:
                table = pq.read_table(file)
            document = json.loads((table.schema.metadata or {})[_KEY])
            if document.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            return _from_arrow(table, PoolFacts(**document))
        except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a block map of schema {SCHEMA}: record the run again ({error})"
            ) from None


def fill_blank(slots: NDArray[np.int32], blanks: Sequence[str], grid: Grid) -> None:
    """Count what cells lack as blank, of the kind that each snapshot names."""
    rest = grid.sizes() - slots.sum(axis=1)
    for number, name in enumerate(blanks):
        slots[number, PRIMITIVES.index(name)] = rest[number]


def _to_arrow(found: BlockMap) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - as above

    blank_codes = [PRIMITIVES.index(name) for name in BLANKS]
    blank = found.slots[:, blank_codes].sum(axis=2)
    held_codes = [PRIMITIVES.index(name) for name in _HELD]
    told = (found.slots[:, held_codes].sum(axis=1) > 0) | (found.evicted > 0)
    offsets = np.concatenate([[0], np.cumsum(told.sum(axis=1))]).astype(np.int32)

    def lists(values: NDArray[Any]) -> pa.ListArray:
        return pa.ListArray.from_arrays(offsets, pa.array(values[told].astype(np.int32)))

    cells = np.broadcast_to(np.arange(found.grid.num_cells), told.shape)
    columns: dict[str, object] = {
        "time_ps": pa.array(found.time_ps),
        "running": pa.array(found.running),
        "waiting": pa.array(found.waiting),
        "blank": pa.array(
            [BLANKS[code] for code in np.where(blank.any(1), blank.argmax(1), 2)], pa.string()
        ),
        "cell": lists(cells),
        "owner": lists(found.owner),
        "owners": lists(found.owners),
        "evicted": lists(found.evicted),
    }
    for name, code in zip(_HELD, held_codes, strict=True):
        columns[name] = lists(found.slots[:, code])
    document = json.dumps({"schema": SCHEMA, **asdict(found.facts)}, sort_keys=True)
    return pa.table(columns).replace_schema_metadata({_KEY: document.encode()})


def _from_arrow(table: pa.Table, facts: PoolFacts) -> BlockMap:
    grid = facts.grid
    count, cells = table.num_rows, grid.num_cells
    cell_lists = table["cell"].combine_chunks()
    row = np.repeat(np.arange(count), cell_lists.value_lengths().to_numpy())
    cell = cell_lists.flatten().to_numpy()

    def dense(name: str, fill: int = 0) -> NDArray[np.int32]:
        values = np.full((count, cells), fill, dtype=np.int32)
        values[row, cell] = table[name].combine_chunks().flatten().to_numpy()
        return values

    slots = np.zeros((count, len(PRIMITIVES), cells), dtype=np.int32)
    for name in _HELD:
        slots[:, PRIMITIVES.index(name)] = dense(name)
    fill_blank(slots, table["blank"].to_pylist(), grid)
    return BlockMap(
        facts,
        table["time_ps"].to_numpy(),
        table["running"].to_numpy(),
        table["waiting"].to_numpy(),
        slots,
        dense("owner", -1),
        dense("owners"),
        dense("evicted"),
    )
