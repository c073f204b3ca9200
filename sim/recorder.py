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
from collections import deque
from typing import TYPE_CHECKING, Final

from kvsim.sim.gap_histogram import GapHistogram

if TYPE_CHECKING:
    from kvsim.policies.allocators.relocations import Relocations
    from kvsim.sim.retention_account import RetentionAccount

MAX_WINDOWS: Final = 1024
FIRST_WIDTH_PS: Final = 2**33  # about 8.6 ms; doubled as the run grows

MAX_FLIPS: Final = 4096  # a last block is younger than block_size + 2 scheduling calls

UNFINISHED: Final = 0
FINISHED: Final = 1
REFUSED: Final = 2
ABORTED: Final = 3  # the client gave up
NOT_SENT: Final = 4  # its session had ended before
NEVER_PS: Final = (1 << 63) - 1  # arrival of what was never sent

REFUSALS_KEPT: Final = 20

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

CONTIGUOUS: Final = ("padding", "hole")
"""Further integrals, in slot-ps.

padding    owned slots that the allocator's round-up added, or whose token was dropped
hole       the part of ``blank`` at times when it was enough in sum for the queue's head, but no
           run was large enough
"""

SHARED: Final = "shared"
"""Integral of the slots that owners would take more if none of their blocks had two, in slot-ps."""

HOST: Final = "host"
"""Integral of the blocks in host memory, in block-ps; they are no part of the pool."""

CAUSES: Final = ("step", "seats", "budget", "blocks", "admission rule")
"""Why a request waits: for the step in progress to end, or for what refused the queue's head.

An integral each: waiting requests x ps; those on the host wait, too.
"""

PREEMPTIONS: Final = "preemptions"
"""Requests put out by the calls made in a window."""

SWAPPED_OUT: Final = "swapped out"
SWAPPED_IN: Final = "swapped in"
"""Blocks that the calls made in a window moved to the host and back."""

COPYING: Final = "copying"
"""Time in ps in which blocks were copied to the host or back."""


class Recorder:
    """Observer of one engine; see the module docstring.

    ``span_ps``, the time from the first arrival to the last, sets the first width of a window;
    ``max_flips`` is how often requests may start or stop to wait while a request holds its last
    block (``None``: without limit, as where memory is held for a request's whole life).

    Attributes
    ----------
    status, first_scheduled_ps, first_token_ps, finish_ps, output_tokens, hit_tokens,
    preemptions, lost_tokens, resume_hit_tokens, stall_ps, predicted_tokens : array, one entry a
    request
        ``hit_tokens``: prompt tokens found in the cache at the first admission; ``lost_tokens``:
        computed tokens thrown away by preemptions; ``stall_ps``: sum of the token gaps that held
        a preemption; ``predicted_tokens``: the length of the answer that was predicted at the
        first admission, -1 where nobody predicts. Times are -1 until they happen.
    further_tokens : array, one entry a request
        Tokens of a request's other samples, beside ``output_tokens``.
    copied_on_write_blocks, copy_on_write_ps : int
        Blocks that sequences of one group shared until one wrote to them, and the time of copies.
    num_prompts : array or None
        How often a request's prompt was let in for the first time; ``None``: once.
    windows : dict of str to list of int
        Per window: ``MEMORY``, ``CONTIGUOUS``, ``SHARED``, ``HOST`` and ``CAUSES`` integrals,
        ``PREEMPTIONS``, ``SWAPPED_OUT``, ``SWAPPED_IN`` and ``COPYING``.
    while_waiting : dict of str to int
        The same integrals, but for ``HOST``, over the time in which requests waited.
    gaps : GapHistogram
        Inter-token gaps, one sample a token after a request's first.
    num_stalls, longest_stall_ps, num_steps, num_evicted_blocks : int
    num_swaps, num_host_full : int
        Victims that went to the host, and those it had no room for.
    peak_host_blocks : int
        Most blocks that host memory held.
    num_judged, num_right : dict of str to int
        Choices of ``auto`` whose victim came back, by what was chosen, and how many were right.
    relocations : Relocations or None
        What became of outgrown and slid runs and packed blocks; ``None`` where none can be.
    copy_ps : int
        Time in which KV was copied for them.
    retention : RetentionAccount or None
        What was dropped and kept; ``None`` where groups keep what the model attends to.
    peak_running : int
        Most sequences that ran at a time, however short it was (but not of no length).
    refusals : dict of int to str
        Why requests were refused, for the first ``REFUSALS_KEPT`` of the trace.
    num_ended : int
        Requests that finished, were refused or given up.
    end_ps : int
        Engine time of the last event.
    """

    def __init__(
        self, num_requests: int, span_ps: int = 0, *, max_flips: int | None = MAX_FLIPS
    ) -> None:
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
        self.width_ps = FIRST_WIDTH_PS
        while self.width_ps * (MAX_WINDOWS // 2) < span_ps:
            self.width_ps *= 2
        self.windows: dict[str, list[int]] = {
            name: [0] for names in (MEMORY, CONTIGUOUS, CAUSES) for name in names
        }
        for name in (SHARED, HOST, PREEMPTIONS, SWAPPED_OUT, SWAPPED_IN, COPYING):
            self.windows[name] = [0]
        self._blank, self._cached, self._empty, self._duplicate, _, self._running, self._covered = (
            self.windows[name] for name in MEMORY
        )
        self.while_waiting = dict.fromkeys((*MEMORY, *CONTIGUOUS, SHARED), 0)
        self.gaps = GapHistogram()
        self.num_stalls = 0
        self.longest_stall_ps = 0
        self.num_steps = 0
        self.num_evicted_blocks = 0
        self.num_swaps = self.num_host_full = 0
        self.peak_host_blocks = 0
        self.num_judged = {"swap": 0, "recompute": 0}
        self.num_right = {"swap": 0, "recompute": 0}
        self.relocations: Relocations | None = None
        self.copy_ps = 0
        self.retention: RetentionAccount | None = None
        self.peak_running = 0
        self.refusals: dict[int, str] = {}
        self.num_ended = 0
        self.end_ps = 0
        self.num_steps_outside = 0
        self.requests_waiting = False
        self._flips: deque[tuple[int, int]] = deque([(0, 0)], maxlen=max_flips)
        self._room_ps = self.width_ps
        self._num_waiting = 0
        self._waiting_since_ps = 0
        self._cause = CAUSES[0]

    # ---- the queue -------------------------------------------------------------------------

    def queue(self, now_ps: int, num_waiting: int, cause: str | None = None) -> None:
        """Note the queue's length from now on; ``cause`` replaces the reason to wait."""
        if self._num_waiting and now_ps > self._waiting_since_ps:
            self._spread(self._cause, self._waiting_since_ps, now_ps, self._num_waiting)
        self._num_waiting, self._waiting_since_ps = num_waiting, now_ps
        if cause is not None:
            self._cause = cause

    @property
    def waited_ps(self) -> dict[str, int]:
        """Request-ps spent waiting, by cause."""
        return {cause: sum(self.windows[cause]) for cause in CAUSES}

    def set_waiting(self, now_ps: int, requests_waiting: bool) -> None:
        """Start or end a stretch in which requests wait after a scheduling call."""
        if requests_waiting != self.requests_waiting:
            self._flips.append((now_ps, self._waited_before(now_ps)))
            self.requests_waiting = requests_waiting

    def _waited_before(self, time_ps: int) -> int:
        """Time in which requests waited, from 0 to ``time_ps``."""
        waiting = self.requests_waiting
        for flip_ps, waited_ps in reversed(self._flips):
            if flip_ps <= time_ps:
                return waited_ps + (time_ps - flip_ps if waiting else 0)
            waiting = not waiting
        msg = "a residency's last block is older than the stretches kept"
        raise AssertionError(msg)

    # ---- memory ----------------------------------------------------------------------------

    def interval(
        self,
        start_ps: int,
        end_ps: int,
        blank: int,
        cached: int,
        empty: int,
        duplicate: int,
        running: int,
    ) -> None:
        """Memory in slots (``running`` in sequences), constant over ``[start_ps, end_ps)``."""
        ps = end_ps - start_ps
        if ps <= 0:
            return
        self.end_ps = end_ps
        if running > self.peak_running:  # noqa: PLR1730 - max() takes three times as long
            self.peak_running = running
        if end_ps > self._room_ps:
            self._make_room(end_ps - 1)
        if self.requests_waiting:
            waiting = self.while_waiting
            waiting["blank"] += blank * ps
            waiting["cached"] += cached * ps
            waiting["empty"] += empty * ps
            waiting["duplicate"] += duplicate * ps
            waiting["running"] += running * ps
            waiting["window"] += ps
        width_ps = self.width_ps
        while start_ps < end_ps:
            window = start_ps // width_ps
            upto_ps = (window + 1) * width_ps
            upto_ps = min(upto_ps, end_ps)
            ps = upto_ps - start_ps
            self._blank[window] += blank * ps
            self._cached[window] += cached * ps
            self._empty[window] += empty * ps
            self._duplicate[window] += duplicate * ps
            self._running[window] += running * ps
            self._covered[window] += ps
            start_ps = upto_ps

    def contiguous(self, start_ps: int, end_ps: int, padding: int, hole: int) -> None:
        """Padding and holes between runs, in slots, constant over ``[start_ps, end_ps)``."""
        for name, slots in (("padding", padding), ("hole", hole)):
            if slots and end_ps > start_ps:
                self._spread(name, start_ps, end_ps, slots)
                if self.requests_waiting:
                    self.while_waiting[name] += slots * (end_ps - start_ps)

    def shared(self, start_ps: int, end_ps: int, slots: int) -> None:
        """Slots that sharing saves, constant over ``[start_ps, end_ps)``."""
        if slots and end_ps > start_ps:
            self._spread(SHARED, start_ps, end_ps, slots)
            if self.requests_waiting:
                self.while_waiting[SHARED] += slots * (end_ps - start_ps)

    def host(self, start_ps: int, end_ps: int, num_blocks: int) -> None:
        """Blocks in host memory, constant over ``[start_ps, end_ps)``."""
        if num_blocks and end_ps > start_ps:
            self._spread(HOST, start_ps, end_ps, num_blocks)

    def sums(
        self,
        end_ps: int,
        ps: int,
        blank_ps: int,
        cached_ps: int,
        empty_ps: int,
        duplicate: int,
        running: int,
    ) -> None:
        """Add integrals over ``ps`` up to ``end_ps``, all inside one window."""
        self.end_ps = end_ps
        if running > self.peak_running and ps:
            self.peak_running = running
        if self.requests_waiting:
            waiting = self.while_waiting
            waiting["blank"] += blank_ps
            waiting["cached"] += cached_ps
            waiting["empty"] += empty_ps
            waiting["duplicate"] += duplicate * ps
            waiting["running"] += running * ps
            waiting["window"] += ps
        window = (end_ps - 1) // self.width_ps
        self._blank[window] += blank_ps
        self._cached[window] += cached_ps
        self._empty[window] += empty_ps
        self._duplicate[window] += duplicate * ps
        self._running[window] += running * ps
        self._covered[window] += ps

    def crosses(self, start_ps: int, end_ps: int) -> bool:
        """Whether ``[start_ps, end_ps)`` reaches over the edge of a window."""
        if end_ps > self._room_ps:
            self._make_room(end_ps - 1)
        width_ps = self.width_ps
        return start_ps // width_ps != (end_ps - 1) // width_ps and end_ps > start_ps

    def window_end(self, time_ps: int) -> int:
        """Where the window of ``time_ps`` ends."""
        return (time_ps // self.width_ps + 1) * self.width_ps

    def never(self, start_ps: int, end_ps: int, slots: int) -> None:
        """``slots`` of a block taken at ``start_ps`` stayed empty until it was given up."""
        if slots and end_ps > start_ps:
            self._spread("never", start_ps, end_ps, slots)
            if not self.requests_waiting and self._flips[-1][0] <= start_ps:
                return
            waited_ps = self._waited_before(end_ps) - self._waited_before(start_ps)
            self.while_waiting["never"] += slots * waited_ps

    def _spread(self, name: str, start_ps: int, end_ps: int, amount: int) -> None:
        if end_ps > self._room_ps:
            self._make_room(end_ps - 1)
        values, width_ps = self.windows[name], self.width_ps
        while start_ps < end_ps:
            window = start_ps // width_ps
            upto_ps = min(end_ps, (window + 1) * width_ps)
            values[window] += amount * (upto_ps - start_ps)
            start_ps = upto_ps

    def _count(self, name: str, at_ps: int, amount: int) -> None:
        if at_ps >= self._room_ps:
            self._make_room(at_ps)
        self.windows[name][at_ps // self.width_ps] += amount

    def _make_room(self, last_ps: int) -> None:
        """Add windows up to the one of ``last_ps``, or double their width."""
        while last_ps // self.width_ps >= len(self._blank):
            if len(self._blank) < MAX_WINDOWS:
                missing = min(last_ps // self.width_ps + 1, MAX_WINDOWS) - len(self._blank)
                for values in self.windows.values():
                    values.extend([0] * missing)
            else:
                self.width_ps *= 2
                for values in self.windows.values():
                    values[:] = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
                    values.extend([0] * (MAX_WINDOWS - len(values)))
        self._room_ps = len(self._blank) * self.width_ps

    # ---- requests --------------------------------------------------------------------------

    def refused(self, index: int, reason: str) -> None:
        """A request that can never run, and why."""
        self.num_ended += 1
        self.status[index] = REFUSED
        self.refusals[index] = reason
        if len(self.refusals) > REFUSALS_KEPT:
            del self.refusals[max(self.refusals)]

    def admitted(self, index: int, now_ps: int, hit_tokens: int, *, resumed: bool) -> None:
        """A request enters the running list with a hit."""
        if resumed:
            self.resume_hit_tokens[index] += hit_tokens
        else:
            self.first_scheduled_ps[index] = now_ps
            self.hit_tokens[index] = hit_tokens

    def predicted(self, index: int, output_tokens: int) -> None:
        """What was predicted of an answer when its request entered for the first time."""
        self.predicted_tokens[index] = output_tokens

    def preempted(self, index: int, now_ps: int, lost_tokens: int) -> None:
        """A request is put out and loses its computed tokens (0 where it is swapped)."""
        self._count(PREEMPTIONS, now_ps, 1)
        self.preemptions[index] += 1
        self.lost_tokens[index] += lost_tokens

    def swapped_out(self, index: int, now_ps: int, num_blocks: int) -> None:
        """A request is put out, and its blocks go to the host."""
        self.preempted(index, now_ps, 0)
        self.num_swaps += 1
        self._count(SWAPPED_OUT, now_ps, num_blocks)

    def swapped_in(self, now_ps: int, num_blocks: int) -> None:
        """Blocks of a request come back from the host."""
        self._count(SWAPPED_IN, now_ps, num_blocks)

    def copying(self, start_ps: int, end_ps: int) -> None:
        """Blocks are copied to the host or back over ``[start_ps, end_ps)``."""
        self._spread(COPYING, start_ps, end_ps, 1)

    @property
    def num_preemptions(self) -> int:
        """Requests put out; those that were swapped, too."""
        return sum(self.windows[PREEMPTIONS])

    @property
    def swapped_out_blocks(self) -> int:
        """Blocks moved to the host."""
        return sum(self.windows[SWAPPED_OUT])

    @property
    def swapped_in_blocks(self) -> int:
        """Blocks moved back from the host."""
        return sum(self.windows[SWAPPED_IN])

    @property
    def copying_ps(self) -> int:
        """Time in which blocks were copied to the host or back."""
        return sum(self.windows[COPYING])

    def judged(self, *, swapped: bool, right: bool) -> None:
        """A choice between swapping and recomputing, looked at afterwards."""
        choice = "swap" if swapped else "recompute"
        self.num_judged[choice] += 1
        self.num_right[choice] += right

    def stall(self, index: int, gap_ps: int, num_gaps: int = 1) -> None:
        """The gap between two tokens with a preemption in it, of each sequence of a request."""
        self.num_stalls += 1
        self.longest_stall_ps = max(self.longest_stall_ps, gap_ps)
        self.stall_ps[index] += gap_ps
        self.gaps.add(gap_ps, num_gaps)

    def aborted(self, index: int, now_ps: int) -> None:
        """The client gave a request up."""
        self.num_ended += 1
        self.status[index] = ABORTED
        self.finish_ps[index] = now_ps

    def finished(self, index: int, now_ps: int, output_tokens: int) -> None:
        """A request's last token is there."""
        self.num_ended += 1
        self.status[index] = FINISHED
        self.finish_ps[index] = now_ps
        self.output_tokens[index] = output_tokens
