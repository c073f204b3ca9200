"""The link to host memory that a scenario asks for, and the notes that say what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.host_link import ASSUMED_ALPHA_PS, HostLink
from kvsim.sim.pool.layout import BlockLayout
from kvsim.traces.common.text import counted

if TYPE_CHECKING:
    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.pool.plan import Pool
    from kvsim.sim.scenario.scenario import Scenario


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
