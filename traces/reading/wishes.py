"""What the user asked for beside the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from kvsim.traces.reading.drawn import ArrivalRule, OutputRule


@dataclass(frozen=True, slots=True)
class Wishes:
    """Options of one read.

    Attributes
    ----------
    keep_unusable
        Read for statistics only. Requests without an answer stay in with ``output_tokens`` 0 and
        stand in ``receipt.unusable``; failed ones are left out and counted in ``receipt.failed``;
        what the file does not say (times, lengths of answers, starts of sessions) stays 0, and
        ``receipt.has_times`` and ``has_outputs`` say so. Such a trace is not to be simulated.
    need_times
        False for closed loops of users (``simulate(..., num_users=N)``), who take one session
        after the other: times say their order only, and stay 0 where the file says none.
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
