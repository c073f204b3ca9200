"""The parts of a plan of the KV pool, for every engine's rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kvsim.sim.models import ModelSpec
    from kvsim.sim.pool.memory_terms import MemoryTerm


class Layout(Protocol):
    """How one engine cuts KV memory: blocks, pages of tokens, or whole slots."""

    @property
    def block_size(self) -> int:
        """Tokens in a block."""
        ...

    @property
    def block_bytes(self) -> int:
        """Bytes of a block on one rank."""
        ...

    @property
    def longest(self) -> int | None:
        """Most tokens of one request; ``None`` = only the pool limits it."""
        ...

    def blocks_for(self, length: int, step_tokens: int = 1) -> int:
        """Blocks that a sequence of ``length`` tokens may hold."""
        ...

    def charged_blocks(self, length: int, step_tokens: int = 1) -> int:
        """Blocks that the engine's log counts for such a sequence."""
        ...


@dataclass(frozen=True, slots=True)
class RankShare:
    """One pipeline rank (each of its tensor-parallel copies holds the same)."""

    index: int
    first_layer: int
    last_layer: int
    model: ModelSpec
    terms: tuple[MemoryTerm, ...]
    kv_bytes: int
    block_bytes: int
    num_blocks: int | None
    """Blocks that fit; ``None`` where no layer of the rank stores anything."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The blocks of one rank, the binding one: the fewest blocks that any rank has.

    ``num_blocks`` counts the null block where there is one (``null_blocks``), as the engine's log
    does. The terms add up to what the engine may use unless the pool was given.
    """

    terms: tuple[MemoryTerm, ...]
    kv_bytes: int
    num_blocks: int
    layout: Layout
    given: bool = False
    """``num_blocks`` or the KV memory was given, so the size of the card was not used."""
    engine: str = "vllm"
    null_blocks: int = 1
    shares: tuple[RankShare, ...] = ()
    binding: int = 0
    """Index of the binding rank in ``shares``."""
    notes: tuple[str, ...] = ()

    @property
    def block_size(self) -> int:
        """Tokens in a block (hybrids raise it so that a state fits)."""
        return self.layout.block_size

    @property
    def block_bytes(self) -> int:
        """Bytes of a block on the binding rank, all layers of its group."""
        return self.shares[self.binding].block_bytes if self.shares else self.layout.block_bytes

    @property
    def remainder_bytes(self) -> int:
        """KV bytes that no block uses."""
        return self.kv_bytes - self.num_blocks * self.block_bytes

    @property
    def pool_tokens(self) -> int:
        """Blocks times block size: the tokens of one full-attention group, null block included."""
        return self.num_blocks * self.block_size

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can hold."""
        return self.num_blocks - self.null_blocks

    def max_concurrency(self, length: int, step_tokens: int = 1) -> float:
        """Count requests of ``length`` tokens at once, as the engine's log prints it.

        This is a lower bound, not a limit, because blocks are allocated as a request grows.
        ``step_tokens`` are the tokens in flight, which windows keep in addition to their own.
        """
        if self._too_long(length):
            return 0.0
        return self.num_blocks / self.layout.charged_blocks(length, step_tokens)

    def requests_of(self, length: int, step_tokens: int = 1) -> int:
        """Whole requests of ``length`` tokens that the usable blocks hold at once."""
        if self._too_long(length):
            return 0
        return self.usable_blocks // self.layout.blocks_for(length, step_tokens)

    def longest_request(self, limit: int, step_tokens: int = 1) -> int:
        """Tokens of the longest lone request, at most ``limit``; the null block is not usable."""
        low, high = 0, limit if self.layout.longest is None else min(limit, self.layout.longest)
        while low < high:
            middle = (low + high + 1) // 2
            if self.layout.blocks_for(middle, step_tokens) <= self.usable_blocks:
                low = middle
            else:
                high = middle - 1
        return low

    def binding_rank(self) -> str:
        """Name the rank that sets the number of blocks."""
        if len(self.shares) < 2:
            return "all ranks alike"
        share = self.shares[self.binding]
        return (
            f"pipeline rank {share.index} of {len(self.shares)}"
            f" (layers {share.first_layer}-{share.last_layer})"
        )

    def _too_long(self, length: int) -> bool:
        return self.layout.longest is not None and length > self.layout.longest


@dataclass(frozen=True, slots=True)
class Split:
    """The result of an engine's rule, before the check that it is enough."""

    layout: Layout
    shares: tuple[RankShare, ...]
    null_blocks: int
    fixed_blocks: int | None = None
    """Blocks that are allocated even if fewer would fit (requested slots)."""
    notes: tuple[str, ...] = ()

    @property
    def binding(self) -> RankShare:
        """Rank with the fewest blocks; of equal ones the first."""
        storing = [share for share in self.shares if share.num_blocks is not None]
        return min(storing, key=lambda share: share.num_blocks or 0)


class PoolTooSmallError(ValueError):
    """No memory, or too little, is left for KV; has the rank where this is so."""

    def __init__(self, message: str, share: RankShare) -> None:
        super().__init__(message)
        self.share = share
