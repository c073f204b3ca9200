"""KV memory of a run: pool, states, copies and retention, as parts of the summary."""

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
    """KV memory by the states of the PagedAttention paper (SOSP 2023)."""

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
    """Memory that requests save by sharing blocks."""

    factor: float | None = key("1", "logical / physical bytes of held blocks")
    savings_percent: float | None = key("%", "saved share of the logical bytes of held blocks")


class MemoryHeld(Part):
    """Contents of the pool over a part of the run."""

    seconds: float = key("s", "length of this part")
    states_percent: States = key("%", "KV memory by state; sums to 100")
    sosp23_percent: PaperStates = key("%", "the same, in the states of the PagedAttention paper")
    primitives_percent: Primitives = key("%", "the same by primitives")
    primitives_mean_bytes: Primitives = key("B", "mean over time")
    sharing: Sharing = key()


class Memory(Part):
    """The pool and its contents."""

    pool_bytes: int = key("B", "KV memory on each rank")
    block_bytes: int = key("B", "bytes of a block, on each rank")
    num_gpu_blocks: int = key("1", "blocks (or slots)")
    block_size: int = key("1", "tokens in a block")
    all_time: MemoryHeld = key()
    while_waiting: MemoryHeld = key()


class Host(Part):
    """Host memory of swapped blocks."""

    swapped_out_bytes: int = key("B", "copied to host memory")
    swapped_in_bytes: int = key("B", "copied back from host memory")
    mean_bytes: float = key("B", "held in host memory, mean over time")
    peak_bytes: int = key("B", "held in host memory, maximum")
    copying_s: float = key("s", "time of the copies")
    times_full: int = key("1", "number of victims without room in host memory")


class Relocations(Part):
    """Outgrown reservations, and reservations that were slid together."""

    grown_in_place: int = key("1", "outgrown reservations that grew in place")
    moved: int = key("1", "outgrown reservations that moved")
    preempted: int = key("1", "outgrown reservations that preempted a request")
    slid: int = key("1", "reservations that were slid")
    moved_bytes: int = key("B", "copied to move")
    slid_bytes: int = key("B", "copied to slide")
    copy_s: float = key("s", "time that the copies added to steps")


class CopyOnWrite(Part):
    """Copied blocks of sequence groups."""

    blocks: int = key("1", "blocks of sequence groups copied because one sequence wrote to them")
    bytes: int = key("B")
    copy_s: float = key("s")


class PeakBytes(Part):
    """Largest memory of one sequence, by its phase."""

    prompt: int = key()
    recomputing: int = key()
    decoding: int = key()


class Compaction(Part):
    """Kept tokens packed into fewer blocks."""

    freed_blocks: int = key("1")
    copied_bytes: float = key("B")
    copy_s: float = key("s")


class Scores(Part):
    """Attention scores of the kept tokens."""

    mean_bytes: float = key("B", "attention scores, outside the pool")
    peak_bytes: int = key("B", "maximum")


class Retention(Part):
    """Effects of the retention policy."""

    kind: str = key()
    budget: int = key("1", "tokens kept in each sequence")
    full_mean_bytes: float = key("B", "memory of all computed tokens")
    shared_mean_bytes: float = key("B", "memory of the block tables")
    per_head_mean_bytes: float = key("B", "memory with a table for each head")
    holes_mean_bytes: float = key("B", "holes in the held memory")
    holes_percent_of_held: float | None = key("%")
    peak_bytes_of_one: PeakBytes = key("B", "largest memory of one sequence")
    compaction: Compaction | None = key("", '`null` unless `retention.compaction = "eager"`')
    scores: Scores | None = key("", "`null` unless `heavy-hitters`")
    attention_mass_kept: float | None = key("1", "share; `null` without a file of scores")
