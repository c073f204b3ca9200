"""What the user asked for beside the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from kvsim.traces.reading.drawn.arrivals import ArrivalRule
    from kvsim.traces.reading.drawn.output_lengths import OutputRule


@dataclass(frozen=True, slots=True)
class Wishes:
    """Options of one read.

    Attributes
    ----------
    keep_unusable
        Read for statistics: requests without an answer stay in (0 output tokens), and what the
        file does not say (times, outputs, starts of sessions) stays at 0 instead of stopping.
    need_times
        False where times do not matter, because users take one session after the other: what the
        file does not say of them then stays at 0.
    arrivals, session_starts, outputs
        Laws for what is to be drawn; None = as recorded, and an error where nothing is.
    rngs
        One generator each for arrivals, starts of sessions, outputs, and sampled traces.
    """

    skip_bad_rows: bool = False
    sort: bool = False
    limit: int | None = None
    keep_unusable: bool = False
    need_times: bool = True
    arrivals: ArrivalRule | None = None
    session_starts: ArrivalRule | None = None
    outputs: OutputRule | None = None
    rngs: Sequence[np.random.Generator] = ()

    @property
    def may_lack_times(self) -> bool:
        """Whether arrivals and starts of sessions may stay unsaid."""
        return self.keep_unusable or not self.need_times
