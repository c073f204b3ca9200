"""The first tokens and the last ones (StreamingLLM); without first ones: windows and FIFO.

The first tokens get attention whatever their content is (*sinks*; Xiao et al., "Efficient Streaming
Language Models with Attention Sinks", ICLR 2024, section 3.2).
"""

from __future__ import annotations


class SinksRecent:
    """Keeps ``sinks`` first tokens and the ``recent`` last ones, including the one being computed.

    ``exact``: the model attends to no more (see ``Retention.window``).
    """

    waits_for_prompt = False
    num_heads = 1

    def __init__(self, sinks: int, recent: int, *, exact: bool = False) -> None:
        assert recent >= 1, "the token that is being computed is kept"
        self.sinks = sinks
        self.recent = recent
        self.size: int | None = sinks + recent
        self.window = self.size if exact else None

    def kept(self, index: int, computed: int) -> tuple[range, ...]:
        """One range until the first token falls out, then two (one without sinks)."""
        since = computed - self.recent + 1
        if since <= self.sinks:
            return (range(computed),)
        ends = (range(self.sinks), range(since, computed))
        return tuple(part for part in ends if part)

    def most_blocks(self, block_size: int, in_flight: int, max_model_len: int) -> int | None:
        """Return the blocks of the sinks and of the last tokens, at any offset (vLLM's cap)."""
        last = min(self.recent - 1 + in_flight, max_model_len)
        return -(-self.sinks // block_size) + -(-last // block_size) + 1

    def forget(self, index: int) -> None:
        """Do nothing: no state is kept."""
