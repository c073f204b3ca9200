"""What the user asked for beside the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from kvsim.traces.arrivals import ArrivalRule
    from kvsim.traces.output_lengths import OutputRule


@dataclass(frozen=True, slots=True)
class Wishes:
    """Options of one read.

    Attributes
    ----------
    keep_unusable
        Read for statistics: requests without an answer stay in (0 output tokens), and what the
        file does not say (times, outputs, starts of sessions) stays at 0 instead of stopping.
    arrivals, session_starts, outputs
        Laws for what is to be drawn; None = as recorded, and an error where nothing is.
    rngs
        One generator each for arrivals, starts of sessions, outputs, and sampled traces.
    """

    skip_bad_rows: bool = False
    sort: bool = False
    limit: int | None = None
    keep_unusable: bool = False
    arrivals: ArrivalRule | None = None
    session_starts: ArrivalRule | None = None
    outputs: OutputRule | None = None
    rngs: Sequence[np.random.Generator] = ()
