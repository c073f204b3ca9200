"""What a run leaves behind: per-request columns, exact memory integrals, token gaps.

Engines call the methods below at their events and know nothing of tables, plots or files; the
metrics read the attributes afterwards. Everything is an integer (picoseconds, token slots, and
slot-picoseconds for integrals), so that two engines with one meaning leave equal recorders.

Memory integrals are kept per time window (window ``w`` covers ``[w * width_ps, (w+1) * width_ps)``;
the width doubles when a run outgrows ``MAX_WINDOWS``) and once more over the time in which
requests waited, that is: after the engine's last scheduling call the queue was not empty.
"""

from __future__ import annotations

from array import array
from typing import Final

from kvsim.sim.gap_histogram import GapHistogram

MAX_WINDOWS: Final = 1024
FIRST_WIDTH_PS: Final = 2**33  # about 8.6 ms; doubled as the run grows

UNFINISHED: Final = 0
FINISHED: Final = 1
REFUSED: Final = 2

MEMORY: Final = ("blank", "cached", "empty", "duplicate", "never", "running", "window")
"""Integrals kept per window, in slot-ps unless said otherwise.

blank      free blocks without a key (``free``, or ``blocked`` while requests wait)
cached     unreferenced blocks with a key
empty      slots of owned blocks that hold no computed token yet (``future`` + ``never``)
duplicate  slots of owned blocks whose key another owned block holds already
never      the part of ``empty`` that stays empty until its owner gives the block up
running    number of running sequences x ps
window     ps covered
"""

CAUSES: Final = ("step", "seats", "budget", "blocks", "admission rule")
"""Why a request waits: for the step in progress to end, or for what refused the queue's head."""


class Recorder:
    """Observer of one engine; see the module docstring.

    Attributes
    ----------
    status, first_scheduled_ps, first_token_ps, finish_ps, output_tokens, hit_tokens,
    preemptions, lost_tokens, resume_hit_tokens, stall_ps : array, one entry a request
        ``hit_tokens``: prompt tokens found in the cache at the first admission; ``lost_tokens``:
        computed tokens thrown away by preemptions; ``stall_ps``: sum of the token gaps that held
        a preemption. Times are -1 until they happen.
    windows : dict of str to list of int
        ``MEMORY`` integrals per window, plus ``waiting`` (requests x ps).
    while_waiting : dict of str to int
        The ``MEMORY`` integrals over the time in which requests waited.
    waited_ps : dict of str to int
        Request-ps spent waiting, by cause.
    gaps : GapHistogram
        Inter-token gaps, one sample a token after a request's first.
    num_stalls, longest_stall_ps, num_steps, num_evicted_blocks, num_preemptions : int
    end_ps : int
        Engine time of the last event.
    """

    def __init__(self, num_requests: int) -> None:
        def column(fill: int) -> array[int]:
            return array("q", [fill]) * num_requests

        self.status = array("b", [UNFINISHED]) * num_requests
        self.first_scheduled_ps = column(-1)
        self.first_token_ps = column(-1)
        self.finish_ps = column(-1)
        self.output_tokens = column(0)
        self.hit_tokens = column(0)
        self.preemptions = column(0)
        self.lost_tokens = column(0)
        self.resume_hit_tokens = column(0)
        self.stall_ps = column(0)
        self.width_ps = FIRST_WIDTH_PS
        self.windows: dict[str, list[int]] = {name: [0] for name in (*MEMORY, "waiting")}
        self.while_waiting = dict.fromkeys(MEMORY, 0)
        self.waited_ps = dict.fromkeys(CAUSES, 0)
        self.gaps = GapHistogram()
        self.num_stalls = 0
        self.longest_stall_ps = 0
        self.num_steps = 0
        self.num_evicted_blocks = 0
        self.num_preemptions = 0
        self.end_ps = 0
