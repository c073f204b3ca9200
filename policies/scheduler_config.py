"""Options of the engine's scheduler and KV manager: the policies' tables, and sizes settled."""

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
    """One engine's rules (vLLM 0.32.0 unless an option says otherwise).

    The tables are those of a scenario, as they stand there. The other fields depend on model and
    hardware, too: what a scenario leaves open is settled here. ``num_gpu_blocks`` counts the null
    block.

    With ``allocator.prefix = "radix"`` a block is a page of SGLang's radix tree, there is no null
    block, and ``eviction.policy`` says which node of the tree goes first.

    With ``allocator.kind = "contiguous"`` the pool is counted in slots: ``block_size`` is 1, there
    is no null block, and ``reservation`` and ``placement`` say what a sequence takes and where.
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
        """Copy with ``{"queue.policy": "sjf", "max_num_seqs": 8}`` replaced; nothing is checked."""
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
        """The policies' tables by name."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if is_dataclass(value)}

    @property
    def num_null_blocks(self) -> int:
        """Blocks of the pool that hold nothing: vLLM's null block, 0 without its block tables."""
        return int(self.allocator.kind != "contiguous" and self.allocator.index == "hash")

    @property
    def promises_longest_end(self) -> bool:
        """Whether a request enters only when memory is there for all that its client allows."""
        return self.batching.policy in {"no-evict", "token-budget"}

    @property
    def keeps_everything(self) -> bool:
        """Whether each KV group keeps what the model attends to."""
        return self.retention.kind == "model"

    @property
    def kept_sizes(self) -> list[int]:
        """Most tokens that attention reads, one entry a KV group that does not keep everything."""
        if not self.keeps_everything:
            return [self.retention.budget_and_recent()[0]]
        windows = (group.sliding_window for group in self.kv_groups)
        return [window for window in windows if window is not None]

    @property
    def retention_heads(self) -> int:
        """Heads that choose what they keep; scores of a file are those of layers."""
        return 1 if self.retention.scores is not None else self.retention.heads or self.num_kv_heads

    @property
    def usable_blocks(self) -> int:
        """Blocks that can be handed out."""
        return self.num_gpu_blocks - self.num_null_blocks
