"""The way to host memory and back: copies x alpha + bytes / beta.

A block's KV lies in one piece for each layer, K apart from V (vLLM v0): a block is
``layers x 2`` copies then (``layers`` where K and V are one latent), or a single one where the
engine lays blocks out in one piece. A copy has a fixed price ``alpha``, whatever its size, so that
small pieces never see the link's rate ``beta``.

Neither is measured for any card here. ``beta`` is the card's datasheet rate in one direction;
``alpha`` is 6 us, in the middle of the 5-7 us that were measured for submitting one
``cudaMemcpyAsync`` (DualPath, arXiv 2602.21548, section 5.2). Ranks copy side by side, each over
its own link. Both directions of one step share the link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.sim.pool.layout import BlockLayout
from kvsim.traces.common.counted import counted

if TYPE_CHECKING:
    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.pool.plan import Pool
    from kvsim.sim.scenario.scenario import Scenario

PS_PER_S: Final = 10**12
ASSUMED_ALPHA_PS: Final = 6 * 10**6


@dataclass(frozen=True, slots=True)
class HostLink:
    """Price of swapping on one rank; ``overlaps``: copies run beside the step, not before it."""

    alpha_ps: int
    bytes_per_s: int
    block_bytes: int
    copies_per_block: int
    overlaps: bool = False

    def __str__(self) -> str:
        """Words for outputs."""
        copies = counted(self.copies_per_block, "copy", "copies")
        return (
            f"{copies} a block at {self.alpha_ps / 10**6:g} us, {self.bytes_per_s / 10**9:g} GB/s"
        )

    def copy_ps(self, num_blocks: int) -> int:
        """Picoseconds for so many blocks in one direction, rounded up."""
        num_bytes = num_blocks * self.block_bytes
        moving_ps = -(-num_bytes * PS_PER_S // self.bytes_per_s)
        return num_blocks * self.copies_per_block * self.alpha_ps + moving_ps

    def step_ps(self, duration_ps: int, copying_ps: int) -> int:
        """Duration of a step of ``duration_ps`` with the copies that it needs."""
        if self.overlaps:
            return max(duration_ps, copying_ps)
        return duration_ps + copying_ps


def host_link(scenario: Scenario, hardware: HardwareSpec, pool: Pool) -> HostLink:
    """Price of swapping blocks of ``pool``.

    Raises
    ------
    ValueError
        Where neither the card nor the scenario has a rate.
    """
    cost, preemption = scenario.cost, scenario.preemption
    rate = cost.swap_bytes_per_s or round(hardware.host_link_bytes_per_s)
    if not rate:
        raise ValueError(
            f"preemption.mode = {preemption.mode!r}: {hardware.name} has no link to a host, give "
            "its bytes a second as cost.swap_bandwidth"
        )
    return HostLink(
        alpha_ps=ASSUMED_ALPHA_PS if cost.swap_alpha_ps is None else cost.swap_alpha_ps,
        bytes_per_s=rate,
        block_bytes=pool.block_bytes,
        copies_per_block=_copies(pool) if preemption.swap_layout == "per-layer" else 1,
        overlaps=preemption.swap_overlap,
    )


def swap_notes(scenario: Scenario, link: HostLink, num_host_blocks: int) -> tuple[str, ...]:
    """Sentences on what swapping rests on."""
    assumed = [
        words
        for words, given in (
            (f"alpha = {link.alpha_ps / 10**6:g} us a copy", scenario.cost.swap_alpha_ps),
            (
                f"beta = {link.bytes_per_s / 10**9:g} GB/s (datasheet)",
                scenario.cost.swap_bytes_per_s,
            ),
        )
        if given is None
    ]
    copies = counted(link.copies_per_block, "copy", "copies")
    notes = [
        f"swap space holds {counted(num_host_blocks, 'block')}; a block is {copies}, shared "
        "ones too"
    ]
    if assumed:
        notes.append(f"swapping costs are assumed, not measured: {', '.join(assumed)}")
    notes.append(
        "who is swapped when follows vLLM 0.8.5's engine v0, read and not compared with its logs"
    )
    return tuple(notes)


def _copies(pool: Pool) -> int:
    """Pieces of memory that one block is of: K and V of each layer of its table."""
    layout = pool.layout
    assert isinstance(layout, BlockLayout), "the engine that is simulated is vLLM"
    latent = any(table.layers.kind == "mla" for table in layout.growing)
    return layout.tables.layers_per_group * (1 if latent else 2)
