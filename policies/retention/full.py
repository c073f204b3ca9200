"""Full attention: everything is kept."""

from __future__ import annotations


class Full:
    """Every token attends to all before it."""

    size: int | None = None
    window: int | None = None
    waits_for_prompt = False
    num_heads = 1

    def kept(self, index: int, computed: int) -> tuple[range, ...]:
        """All positions."""
        return (range(computed),)

    def most_blocks(self, block_size: int, in_flight: int, max_model_len: int) -> int | None:
        """Return None: as many as its tokens fill."""
        return None

    def forget(self, index: int) -> None:
        """Do nothing: no state is kept."""
