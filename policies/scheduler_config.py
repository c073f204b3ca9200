"""Options of the engine's scheduler and KV manager: the policies' tables and the final sizes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from kvsim.policies.options import (
    Allocator,
    Batching,
    Eviction,
    Predictor,
    Preemption,
    Queue,
    Retention,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers that share one block table: full attention, or a sliding window of tokens."""

    sliding_window: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The rules of one engine (vLLM 0.32.0, unless an option says otherwise).

    The tables are those of the scenario, unchanged. The other fields also depend on model and
    hardware; where the scenario leaves a value open, it is decided here. ``num_gpu_blocks`` counts
    the null block.

    With ``allocator.prefix = "radix"`` a block is a page of SGLang's radix tree. There is no null
    block, and ``eviction.policy`` decides which node of the tree is evicted first.

    With ``allocator.kind = "contiguous"`` the pool is counted in slots: ``block_size`` is 1. There
    is no null block. ``reservation`` and ``placement`` decide how much a sequence takes and where.
    """

    allocator: Allocator = field(default_factory=Allocator)
    batching: Batching = field(default_factory=Batching)
    eviction: Eviction = field(default_factory=Eviction)
    preemption: Preemption = field(default_factory=Preemption)
    queue: Queue = field(default_factory=Queue)
    predictor: Predictor = field(default_factory=Predictor)
    retention: Retention = field(default_factory=Retention)

    block_size: int = 16
    num_gpu_blocks: int = 1024
    num_host_blocks: int = 0
    """Room in host memory for swapped blocks."""
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    max_model_len: int = 4096
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    async_scheduling: bool = False
    kv_groups: tuple[KVGroup, ...] = (KVGroup(),)
    """In the order in which they take blocks and give them up."""
    num_kv_heads: int = 1
    """The model's, on a rank."""
    beam_turnover: float = 0.05
    """Share of the tokens after which the beams of a group are drawn anew."""

    def with_values(self, values: Mapping[str, object]) -> SchedulerConfig:
        """Return a copy with values such as ``{"queue.policy": "sjf"}`` replaced, unchecked."""
        changed: dict[str, Any] = {}
        for path, value in values.items():
            name, dot, option = path.partition(".")
            if dot:
                table = changed.get(name, getattr(self, name))
                changed[name] = replace(table, **{option: value})
            else:
                changed[name] = value
        return replace(self, **changed)

    def tables(self) -> dict[str, object]:
        """Return the policies' tables by name."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if is_dataclass(value)}

    @property
    def num_null_blocks(self) -> int:
        """Blocks that hold nothing: 1 null block as in vLLM, 0 without its block tables."""
        return int(self.allocator.kind != "contiguous" and self.allocator.index == "hash")

    @property
    def promises_longest_end(self) -> bool:
        """Whether admission needs room for the longest output that the client allows."""
        return self.batching.policy in {"no-evict", "token-budget"}

    @property
    def keeps_everything(self) -> bool:
        """Whether each KV group keeps what the model attends to."""
        return self.retention.kind == "model"

    @property
    def kept_sizes(self) -> list[int]:
        """Most tokens that attention reads, for each KV group that does not keep everything."""
        if not self.keeps_everything:
            return [self.retention.budget_and_recent()[0]]
        windows = (group.sliding_window for group in self.kv_groups)
        return [window for window in windows if window is not None]

    @property
    def retention_heads(self) -> int:
        """Number of heads that choose what they keep; scores of a file are given by layer."""
        return 1 if self.retention.scores is not None else self.retention.heads or self.num_kv_heads

    @property
    def usable_blocks(self) -> int:
        """Number of blocks that can be allocated."""
        return self.num_gpu_blocks - self.num_null_blocks
