"""The effect of chosen retention on memory: bytes held by layout, holes, peaks, and mass kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kvsim.policies.retention import make_retention, scores_of
from kvsim.policies.retention.mass import mean_mass_kept
from kvsim.sim.documents.kv_memory import Compaction, PeakBytes, Retention, Scores

if TYPE_CHECKING:
    from kvsim.policies.allocators.relocations import Relocations
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.pool.shape import PoolShape

SCORE_BYTES: Final = 4
"""One score, in single precision."""
STATES: Final = ("prompt", "recomputing", "decoding")


class RetentionAccount:
    """Integrals in slot-ps, and peaks in blocks of one sequence, by its phase."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.covered_ps = 0
        self.held = 0
        self.holes = 0
        self.by_head = 0
        self.num_computed_tokens = 0
        self.most_by_head = 0
        self.peak_blocks = dict.fromkeys(STATES, 0)
        self.decode_contexts: Counter[int] = Counter()

    def interval(self, ps: int, held: int, holes: int, by_head: int, computed: int) -> None:
        """Record slots held by tables, their holes, tokens kept by each head, computed tokens."""
        self.covered_ps += ps
        self.held += held * ps
        self.holes += holes * ps
        self.by_head += by_head * ps
        self.num_computed_tokens += computed * ps
        self.most_by_head = max(self.most_by_head, by_head)

    def holds(self, sequence: Sequence, num_blocks: int) -> None:
        """Record that a running sequence held ``num_blocks`` from the last event to this one."""
        state = "decoding"
        if sequence.num_computed_tokens - sequence.in_flight < sequence.num_tokens - 1:
            state = "recomputing" if sequence.num_preemptions else "prompt"
        self.peak_blocks[state] = max(self.peak_blocks[state], num_blocks)

    def mass_kept(self) -> float | None:
        """Return the mean share of attention mass kept; ``None`` without scores or a decode."""
        config = self.config
        scores = scores_of(config)
        if scores is None:
            return None
        retention = make_retention(config, config.kv_groups[0])
        return mean_mass_kept(retention, scores, self.decode_contexts)

    def summary(self, pool: PoolShape, packed: Relocations | None, copy_s: float) -> Retention:
        """Return the figures as docs/retention.md defines them."""
        config, slot_bytes = self.config, pool.block_bytes / pool.block_size

        def mean_bytes(slot_ps: int) -> float:
            return slot_ps * slot_bytes / self.covered_ps if self.covered_ps else 0.0

        compaction = scores = None
        if packed is not None:
            compaction = Compaction(
                freed_blocks=packed.num_packed,
                copied_bytes=packed.packed_tokens * slot_bytes,
                copy_s=copy_s,
            )
        if config.retention.kind == "heavy-hitters":
            size = SCORE_BYTES * pool.scores_per_token
            mean_tokens = self.by_head / self.covered_ps if self.covered_ps else 0.0
            scores = Scores(mean_bytes=mean_tokens * size, peak_bytes=self.most_by_head * size)
        return Retention(
            kind=config.retention.kind,
            budget=config.kept_sizes[0],
            full_mean_bytes=mean_bytes(self.num_computed_tokens),
            shared_mean_bytes=mean_bytes(self.held),
            per_head_mean_bytes=mean_bytes(self.by_head),
            holes_mean_bytes=mean_bytes(self.holes),
            holes_percent_of_held=100 * self.holes / self.held if self.held else None,
            peak_bytes_of_one=PeakBytes(
                **{state: blocks * pool.block_bytes for state, blocks in self.peak_blocks.items()}
            ),
            compaction=compaction,
            scores=scores,
            attention_mass_kept=self.mass_kept(),
        )
