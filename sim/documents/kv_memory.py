"""What the KV memory held: pool, states, copies and retention, as parts of the summary."""

from __future__ import annotations

from kvsim.traces.common.part import Part, key


class States(Part):
    """KV memory by state; shares sum to the whole."""

    token: float = key()
    reserved: float = key()
    internal: float = key()
    external: float = key()
    cached: float = key()
    free: float = key()


class PaperStates(Part):
    """The same as the PagedAttention paper (SOSP 2023) counts it."""

    token: float = key()
    reserved: float = key()
    internal: float = key()
    external: float = key()


class Primitives(Part):
    """KV memory by its ten primitives; shares sum to the whole."""

    token: float = key()
    duplicate: float = key()
    future: float = key()
    never: float = key()
    padding: float = key()
    hole: float = key()
    blocked: float = key()
    cached: float = key()
    free: float = key()
    unusable: float = key()


class Sharing(Part):
    """What owners save because some of their blocks have several."""

    factor: float | None = key("1", "logical by physical bytes of owned blocks")
    savings_percent: float | None = key("%", "of the blocks that owners hold")


class MemoryHeld(Part):
    """What the pool held over a stretch of time."""

    seconds: float = key("s", "time that the shares below are over")
    states_percent: States = key("%", "KV memory by state; sums to 100")
    sosp23_percent: PaperStates = key("%", "the same as the PagedAttention paper counts it")
    primitives_percent: Primitives = key("%", "the same by primitives")
    primitives_mean_bytes: Primitives = key("B", "mean over time")
    sharing: Sharing = key()


class Memory(Part):
    """The pool and what it held."""

    pool_bytes: int = key("B", "KV memory on each rank")
    block_bytes: int = key("B", "a block of it, on each rank")
    num_gpu_blocks: int = key("1", "blocks (or slots)")
    block_size: int = key("1", "tokens a block")
    all_time: MemoryHeld = key()
    while_waiting: MemoryHeld = key()


class Host(Part):
    """Host memory that swapped blocks took."""

    swapped_out_bytes: int = key("B", "copied to host memory")
    swapped_in_bytes: int = key("B", "copied back from it")
    mean_bytes: float = key("B", "held there, mean over time")
    peak_bytes: int = key("B", "most held there at a time")
    copying_s: float = key("s", "time of the copies")
    times_full: int = key("1", "victims that the host had no room for")


class Relocations(Part):
    """What became of outgrown reservations, and runs slid together."""

    grown_in_place: int = key("1", "outgrown reservations that grew where they were")
    moved: int = key("1", "outgrown reservations that moved")
    preempted: int = key("1", "outgrown reservations that preempted somebody")
    slid: int = key("1", "runs slid together")
    moved_bytes: int = key("B", "copied to move")
    slid_bytes: int = key("B", "copied to slide")
    copy_s: float = key("s", "time that steps lasted longer for it")


class CopyOnWrite(Part):
    """Blocks of sequence groups that one sequence wrote to."""

    blocks: int = key("1", "blocks of sequence groups copied because one sequence wrote to them")
    bytes: int = key("B")
    copy_s: float = key("s")


class PeakBytes(Part):
    """Most that one sequence held, by what it was doing."""

    prompt: int = key()
    recomputing: int = key()
    decoding: int = key()


class Compaction(Part):
    """Kept tokens packed into fewer blocks."""

    freed_blocks: int = key("1")
    copied_bytes: float = key("B")
    copy_s: float = key("s")


class Scores(Part):
    """Attention scores beside the kept tokens."""

    mean_bytes: float = key("B", "attention scores, outside the pool")
    peak_bytes: int = key("B", "most of them at a time")


class Retention(Part):
    """What chosen retention dropped and kept."""

    kind: str = key()
    budget: int = key("1", "tokens kept of a sequence")
    full_mean_bytes: float = key("B", "all computed tokens")
    shared_mean_bytes: float = key("B", "what block tables hold")
    per_head_mean_bytes: float = key("B", "tables of each head's own")
    holes_mean_bytes: float = key("B", "holes among what is held")
    holes_percent_of_held: float | None = key("%")
    peak_bytes_of_one: PeakBytes = key("B", "most that one sequence held")
    compaction: Compaction | None = key("", '`null` but for `retention.compaction = "eager"`')
    scores: Scores | None = key("", "`null` but for `heavy-hitters`")
    attention_mass_kept: float | None = key("1", "share; `null` without a file of scores")
