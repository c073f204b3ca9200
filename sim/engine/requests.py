"""The engine's view of a trace: arrivals in ps, true lengths, and requests that can never run.

Only the engine knows the true lengths. It calls :meth:`Requests.num_outputs` when results are
applied. Policies never see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kvsim.policies.sequence import Sequence
from kvsim.traces.adjust.patience import LONGEST_NS
from kvsim.traces.common.quantities import PS_PER_NS
from kvsim.traces.trace.prefix import PrefixPaths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.traces.trace.trace import Trace


Tokens = TypeVar("Tokens", int, "NDArray[np.int64]")


def _ints(column: NDArray[np.int64]) -> memoryview[int]:
    """View a column so that indexing gives Python ints, without a copy."""
    if not len(column):  # an empty view cannot be cast
        return memoryview(b"").cast("q")
    return np.ascontiguousarray(column, dtype=np.int64).data.cast("B").cast("q")


def _flags(column: NDArray[np.bool_]) -> memoryview[bool]:
    if not len(column):
        return memoryview(b"").cast("?")
    return np.ascontiguousarray(column).data.cast("B").cast("?")


def _groups(trace: Trace, config: SchedulerConfig) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of sequences of each request, and 1 for beams; each of shape (n,)."""
    one = np.ones(len(trace), dtype=np.int64)
    if config.allocator.samples != "group":
        return one, 0 * one
    beams = one if trace.beam_width is None else trace.beam_width
    samples = one if trace.num_samples is None else trace.num_samples
    return np.maximum(samples, beams), (beams > 1).astype(np.int64)


class Requests:
    """Columns of one run as Python ints, made once; see the module docstring.

    Parameters
    ----------
    trace : Trace
    config : SchedulerConfig
    max_tokens : int64, shape (n,)
        Most tokens that each request may generate, as known to the engine.
    """

    def __init__(
        self, trace: Trace, config: SchedulerConfig, max_tokens: NDArray[np.int64]
    ) -> None:
        self.trace = trace
        self.config = config
        prompts = np.ascontiguousarray(trace.prompt_tokens, dtype=np.int64)
        room = config.max_model_len - prompts
        outputs = np.minimum(np.minimum(trace.output_tokens, max_tokens), room)
        foreseen = outputs >= np.minimum(max_tokens, room)
        self.arrival_ps = _ints(trace.arrival_ns * PS_PER_NS)
        self.timeout_ps: memoryview[int] | None = None
        if trace.timeout_ns is not None:
            patience_ns = trace.timeout_ns
            ever = (patience_ns >= 0) & (patience_ns <= LONGEST_NS)  # else beyond the clock's end
            self.timeout_ps = _ints(np.where(ever, patience_ns * PS_PER_NS, -1))
        self.prompt_tokens = _ints(prompts)
        self.max_tokens = _ints(max_tokens)
        self.foreseen = _flags(foreseen)
        priority = np.zeros(1, np.int64) if trace.priority is None else trace.priority
        self._priority = _ints(priority)
        self.width, self._beams = _groups(trace, config)
        self.has_groups = bool((self.width > 1).any())
        self._num_outputs = _ints(outputs)
        prefix = trace.prefix if config.enable_prefix_caching else None
        self._ids_cover_output = prefix is not None and prefix.covers_output
        self._anonymous = None if prefix is None else prefix.anonymous_answer
        self.paths = PrefixPaths(prefix, len(trace), config.block_size)
        self._usable_blocks = config.usable_blocks
        self.refused = _flags(self._never_fits(prompts, outputs, foreseen))

    def __len__(self) -> int:
        return len(self.arrival_ps)

    def num_outputs(self, index: int) -> int:
        """Return the tokens that the request will have generated when it ends."""
        return self._num_outputs[index]

    def num_slots(self, index: int) -> int:
        """Return the tokens of KV that the request will have computed when it ends.

        The last token's KV is never computed, with one exception: when an unforeseen end is
        applied, the next step is already scheduled.
        """
        tokens = self.prompt_tokens[index] + self._num_outputs[index] - 1
        return tokens + (self.config.async_scheduling and not self.foreseen[index])

    def _never_fits(
        self, prompts: NDArray[np.int64], outputs: NDArray[np.int64], foreseen: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return the requests that can never run.

        The front end refuses a prompt at or above the model length (vLLM 0.32.0). A request would
        wait or be preempted endlessly if its longest state needs more blocks than the pool has.
        Where admission needs room for the longest end, that end is the longest state. (The need of
        a group that drops tokens depends on other requests. The stepper refuses such requests when
        they get stuck.)
        """
        config = self.config
        tokens = prompts + outputs - 1
        if config.async_scheduling:
            tokens = tokens + ~foreseen  # one token is computed past a stop token
        if config.promises_longest_end:
            tokens = np.minimum(prompts + np.asarray(self.max_tokens), config.max_model_len)
        never = (prompts >= config.max_model_len) | (self.width > config.max_num_seqs)
        never |= self._most_blocks(prompts, tokens, self.width, self._beams) > self._usable_blocks
        if not config.enable_chunked_prefill:
            never |= prompts > config.max_num_batched_tokens
        return never

    def _blocks(self, tokens: Tokens) -> Tokens:
        """Return the blocks that the groups that keep everything need for ``tokens`` tokens."""
        config = self.config
        whole = (group.sliding_window is None for group in config.kv_groups)
        num_full = sum(whole) if config.keeps_everything else 0
        return num_full * -(-tokens // config.block_size)

    def _most_blocks(self, prompts: Tokens, tokens: Tokens, width: Tokens, beams: Tokens) -> Tokens:
        """Return the blocks of a request's longest state.

        Samples share full blocks of the prompt. Beams share at best all blocks but the last. Beams
        have not differed yet when they sample their first tokens.
        """
        size = self.config.block_size
        last = -(-tokens // size)
        parted = beams + (1 - beams) * (last - prompts // size)
        return self._blocks(tokens) + (width - 1) * parted * (tokens > prompts)

    def refusal(self, index: int) -> str | None:
        """Return why a request can never run; ``None`` if it can."""
        if not self.refused[index]:
            return None
        prompt, config = self.prompt_tokens[index], self.config
        if prompt >= config.max_model_len:
            return f"prompt of {prompt:,} tokens >= max_model_len {config.max_model_len:,}"
        if not config.enable_chunked_prefill and prompt > config.max_num_batched_tokens:
            return (
                f"prompt of {prompt:,} tokens > budget {config.max_num_batched_tokens:,}, unchunked"
            )
        if (width := int(self.width[index])) > config.max_num_seqs:
            return f"asks for {width:,} sequences, max_num_seqs is {config.max_num_seqs:,}"
        if config.promises_longest_end:
            tokens = min(prompt + self.max_tokens[index], config.max_model_len)
            needs = f"may need {self._blocks(tokens):,} blocks if its output is as long as allowed"
        else:
            tokens = prompt + self._num_outputs[index] - 1
            tokens += config.async_scheduling and not self.foreseen[index]
            beams = int(self._beams[index])
            needs = f"needs {self._most_blocks(prompt, tokens, width, beams):,} blocks"
        return f"{needs}, the pool has {self._usable_blocks:,}"

    def num_covered(self, index: int) -> int:
        """Return the number of leading full blocks of the request that have a public key."""
        tokens = self.prompt_tokens[index]
        if self._ids_cover_output and not (self._anonymous is not None and self._anonymous[index]):
            tokens += self._num_outputs[index]
        return self.paths.num_covered(index, tokens)

    def priority(self, index: int) -> int:
        """Return the priority of a request: smaller is served first."""
        return self._priority[index if len(self._priority) > 1 else 0]

    def sequence(self, index: int) -> Sequence:
        """Return a new object with the policies' view of a request."""
        paths, block_size = self.paths, self.config.block_size
        num_covered = self.num_covered(index)
        public = [
            (-1 - segment, min(paths.end[segment], num_covered) * block_size)
            for segment in paths.path(index)
            if paths.start[segment] < num_covered
        ]
        return Sequence(
            index,
            self.trace.request_id(index),
            self.arrival_ps[index],
            self.prompt_tokens[index],
            self.max_tokens[index],
            self.priority(index),
            public,
            self.trace.asker(index),
            int(self.width[index]),
            beams=bool(self._beams[index]),
        )
