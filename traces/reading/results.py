"""What results of load tools have in common: requests with start, end, token counts, failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.reading import nested
from kvsim.traces.reading.batch import is_missing
from kvsim.traces.reading.cells import decimal_times_ns, texts, whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake

FAILED: Final = "failed"
"""Column that says why the tool calls a request failed, or nothing."""
ID: Final = "request id"


@dataclass(frozen=True, slots=True)
class Names:
    """How a tool calls the columns; ``start`` None = it does not say when requests began."""

    prompt: str
    output: str
    start: str | None
    end: str | None = None
    scale: int = 9

    @property
    def keys(self) -> tuple[str, ...]:
        """All columns that rows may have."""
        optional = [name for name in (self.start, self.end) if name is not None]
        return (self.prompt, self.output, *optional, FAILED, ID)


def columns_of(batch: Batch, intake: Intake, names: Names) -> dict[str, NDArray[Any]]:
    """Check a batch of results and return its columns; failed rows are noted."""
    needed = [name for name in (names.prompt, names.output, names.start) if name is not None]
    nested.require(batch, needed)
    for row, why in enumerate(batch.columns.get(FAILED, ())):
        if why:
            batch.fail(row, f"the file calls it failed ({why})", f"the request failed ({why})")
    columns: dict[str, NDArray[Any]] = {
        "prompt_tokens": whole_numbers(batch, names.prompt),
        "output_tokens": intake.output_tokens(batch, names.output),
    }
    if names.start is not None:
        columns["arrival_ns"] = decimal_times_ns(batch, names.start, scale=names.scale)
    if names.end is not None and names.end in batch.columns:
        cells = batch.columns[names.end]
        said = np.array([not is_missing(cell) for cell in cells], dtype=np.bool_)
        filled = [cell if given else 0 for cell, given in zip(cells, said, strict=True)]
        batch.columns = {**batch.columns, names.end: filled}
        end_ns = decimal_times_ns(batch, names.end, scale=names.scale)
        columns["end_ns"] = np.where(said, end_ns, -1)
    if ID in batch.columns:
        columns["ids"] = texts(batch, ID)
    return columns
