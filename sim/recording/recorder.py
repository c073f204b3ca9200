"""What a run leaves behind: per-request columns, exact memory integrals, token gaps.

Engines call the methods below at their events and know nothing of tables, plots or files; the
metrics read the attributes afterwards. Everything is an integer (picoseconds, token slots, and
slot-picoseconds for integrals), so that two engines with one meaning leave equal recorders.

The recorder is one class in layers, one file each: sums per time window (``time_windows.py``), why
requests wait (``waiting_clock.py``), memory over time (``memory_integrals.py``), the parts of step
times (``step_parts.py``), and here the events of requests and their counts.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from kvsim.sim.recording.gaps import GapHistogram
from kvsim.sim.recording.step_parts import StepParts
from kvsim.sim.recording.waiting_clock import MAX_FLIPS

if TYPE_CHECKING:
    from kvsim.policies.allocators.relocations import Relocations
    from kvsim.sim.recording.retention_account import RetentionAccount

UNFINISHED: Final = 0
FINISHED: Final = 1
REFUSED: Final = 2
ABORTED: Final = 3  # the client gave up
NOT_SENT: Final = 4  # its session had ended before
NEVER_PS: Final = (1 << 63) - 1  # arrival of what was never sent

REFUSALS_KEPT: Final = 20

PREEMPTIONS: Final = "preemptions"
"""Requests preempted by the calls made in a window."""

SWAPPED_OUT: Final = "swapped out"
SWAPPED_IN: Final = "swapped in"
"""Blocks that the calls made in a window copied to the host and back."""

COPYING: Final = "copying"
"""Time in ps in which blocks were copied to the host or back."""


class Recorder(StepParts):
    """Observer of one engine; see the module docstring.

    ``span_ps``, the time from the first arrival to the last, sets the first width of a window;
    ``max_flips``: see :class:`~kvsim.sim.recording.waiting_clock.QueueClock`.

    Attributes
    ----------
    status, first_scheduled_ps, first_token_ps, finish_ps, output_tokens, hit_tokens,
    preemptions, lost_tokens, resume_hit_tokens, stall_ps, predicted_tokens : array, one entry a
    request
        ``hit_tokens``: prompt tokens found in the cache at the first admission; ``lost_tokens``:
        computed tokens lost by preemptions; ``stall_ps``: sum of the token gaps with a preemption;
        ``predicted_tokens``: the output length predicted at the first admission, -1 without a
        predictor. Times are -1 until they happen.
    further_tokens : array, one entry a request
        Tokens of a request's other samples, beside ``output_tokens``.
    copied_on_write_blocks, copy_on_write_ps : int
        Blocks that sequences of one group shared until one wrote to them, and the time of copies.
    num_prompts : array or None
        How many first admissions the prompt of a request had; ``None``: one.
    windows : dict of str to list of int
        The columns of the lower layers, and ``PREEMPTIONS``, ``SWAPPED_OUT``, ``SWAPPED_IN``,
        ``COPYING``.
    gaps : GapHistogram
        Inter-token gaps, one sample a token after a request's first; by time window, too.
    num_stalls, longest_stall_ps, num_steps_outside, num_evicted_blocks : int
    num_swaps, num_host_full : int
        Victims that were swapped out, and those for which the host had no room.
    peak_host_blocks : int
        Most blocks that host memory held.
    num_judged, num_right : dict of str to int
        Choices of ``auto`` for victims that returned, by choice, and how many were right.
    relocations : Relocations or None
        Counts of renewed and slid runs and of packed blocks; ``None`` where none can exist.
    copy_ps : int
        Time in which KV was copied for them.
    retention : RetentionAccount or None
        What was dropped and kept; ``None`` where groups keep what the model attends to.
    refusals : dict of int to str
        Why requests were refused, for the first ``REFUSALS_KEPT`` of the trace.
    num_ended : int
        Requests that finished, were refused or aborted.
    """

    def __init__(
        self, num_requests: int, span_ps: int = 0, *, max_flips: int | None = MAX_FLIPS
    ) -> None:
        super().__init__(span_ps, max_flips)
        for name in (PREEMPTIONS, SWAPPED_OUT, SWAPPED_IN, COPYING):
            self._column(name)

        def column(fill: int) -> array[int]:
            return array("q", [fill]) * num_requests

        def counts() -> array[int]:
            return array("i", [0]) * num_requests

        self.arrival_ps: memoryview[int] | None = None  # set by the driver
        self.status = array("b", [UNFINISHED]) * num_requests
        self.first_scheduled_ps = column(-1)
        self.first_token_ps = column(-1)
        self.finish_ps = column(-1)
        self.output_tokens = counts()
        self.hit_tokens = counts()
        self.preemptions = counts()
        self.lost_tokens = column(0)
        self.resume_hit_tokens = column(0)
        self.stall_ps = column(0)
        self.predicted_tokens = column(-1)
        self.further_tokens = counts()
        self.copied_on_write_blocks = self.copy_on_write_ps = 0
        self.num_prompts: array[int] | None = None  # set where samples are requests
        self.gaps = GapHistogram(self.width_ps)
        self.num_stalls = 0
        self.longest_stall_ps = 0
        self.num_evicted_blocks = 0
        self.num_swaps = self.num_host_full = 0
        self.peak_host_blocks = 0
        self.num_judged = {"swap": 0, "recompute": 0}
        self.num_right = {"swap": 0, "recompute": 0}
        self.relocations: Relocations | None = None
        self.copy_ps = 0
        self.retention: RetentionAccount | None = None
        self.refusals: dict[int, str] = {}
        self.num_ended = 0
        self.num_steps_outside = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with a copy of the view, because a view cannot be pickled."""
        seen = self.arrival_ps
        return self.__dict__ | {"arrival_ps": None if seen is None else array("q", seen.tobytes())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrival_ps = state["arrival_ps"]
        view = None if arrival_ps is None else memoryview(arrival_ps)
        self.__dict__.update(state | {"arrival_ps": view})

    def refused(self, index: int, reason: str) -> None:
        """Record a request that can never run, and why."""
        self.num_ended += 1
        self._preempted.discard(index)
        self.status[index] = REFUSED
        self.refusals[index] = reason
        if len(self.refusals) > REFUSALS_KEPT:
            del self.refusals[max(self.refusals)]

    def admitted(self, index: int, now_ps: int, hit_tokens: int, *, resumed: bool) -> None:
        """Record that a request enters the running list with a hit."""
        if resumed:
            self._preempted.discard(index)
            self.resume_hit_tokens[index] += hit_tokens
        else:
            self.first_scheduled_ps[index] = now_ps
            self.hit_tokens[index] = hit_tokens

    def predicted(self, index: int, output_tokens: int) -> None:
        """Record the predicted output length at the first admission of a request."""
        self.predicted_tokens[index] = output_tokens

    def preempted(self, index: int, now_ps: int, lost_tokens: int) -> None:
        """Record a preemption and its lost computed tokens (0 if the request is swapped)."""
        self._count(PREEMPTIONS, now_ps, 1)
        self._preempted.add(index)
        self.preemptions[index] += 1
        self.lost_tokens[index] += lost_tokens

    def swapped_out(self, index: int, now_ps: int, num_blocks: int) -> None:
        """Record a preemption that copies the blocks to the host."""
        self.preempted(index, now_ps, 0)
        self.num_swaps += 1
        self._count(SWAPPED_OUT, now_ps, num_blocks)

    def swapped_in(self, index: int, now_ps: int, num_blocks: int) -> None:
        """Record that a request runs again and its blocks return from the host."""
        self._preempted.discard(index)
        self._count(SWAPPED_IN, now_ps, num_blocks)

    def copying(self, start_ps: int, end_ps: int) -> None:
        """Record that blocks are copied to or from the host over ``[start_ps, end_ps)``."""
        self._spread(COPYING, start_ps, end_ps, 1)

    @property
    def num_preemptions(self) -> int:
        """Number of preemptions, including swapped requests."""
        return sum(self.windows[PREEMPTIONS])

    @property
    def swapped_out_blocks(self) -> int:
        """Number of blocks copied to the host."""
        return sum(self.windows[SWAPPED_OUT])

    @property
    def swapped_in_blocks(self) -> int:
        """Number of blocks copied back from the host."""
        return sum(self.windows[SWAPPED_IN])

    @property
    def copying_ps(self) -> int:
        """Time in which blocks were copied to the host or back."""
        return sum(self.windows[COPYING])

    def judged(self, *, swapped: bool, right: bool) -> None:
        """Record whether a choice between swapping and recomputing was right."""
        choice = "swap" if swapped else "recompute"
        self.num_judged[choice] += 1
        self.num_right[choice] += right

    def stall(self, index: int, end_ps: int, gap_ps: int, num_gaps: int = 1) -> None:
        """Record a gap up to ``end_ps`` with a preemption in it, of each sequence of a request."""
        if end_ps > self._room_ps:  # the call comes before its step, so windows are made here
            self._make_room(end_ps - 1)
        self.num_stalls += 1
        self.longest_stall_ps = max(self.longest_stall_ps, gap_ps)
        self.stall_ps[index] += gap_ps
        self.gaps.add(end_ps, gap_ps, num_gaps)

    def aborted(self, index: int, now_ps: int) -> None:
        """Record that the client gave a request up."""
        self.num_ended += 1
        self._preempted.discard(index)
        self.status[index] = ABORTED
        self.finish_ps[index] = now_ps

    def finished(self, index: int, now_ps: int, output_tokens: int) -> None:
        """Record that a request got its last token."""
        self.num_ended += 1
        self._preempted.discard(index)
        self.status[index] = FINISHED
        self.finish_ps[index] = now_ps
        self.output_tokens[index] = output_tokens
