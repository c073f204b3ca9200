"""What policies may know: keys only of known tokens, private ones beyond the public ids."""

from __future__ import annotations

import dataclasses

import pytest

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence


def make_sequence(prompt_tokens: int = 10) -> Sequence:
    """Two public stretches, of 4 and 8 tokens."""
    return Sequence(
        7,
        name="r7",
        arrival_ps=0,
        prompt_tokens=prompt_tokens,
        max_tokens=5,
        priority=0,
        public_keys=((-1, 4), (-2, 12)),
    )


def test_public_keys_first_then_private_ones() -> None:
    sequence = make_sequence(prompt_tokens=16)
    keys = [sequence.block_key(block, 4) for block in range(4)]
    assert keys == [(-1, 0), (-2, 1), (-2, 2), (7, 3)]
    run = sequence.run(15)
    assert (run.names, run.ends, len(run)) == ((-1, -2, 7), (4, 12, 15), 15)


def test_keys_of_unknown_tokens_are_hidden() -> None:
    sequence = make_sequence(prompt_tokens=7)
    assert sequence.block_key(0, 4) == (-1, 0)
    with pytest.raises(AssertionError, match="hidden beyond the known tokens"):
        sequence.block_key(1, 4)
    with pytest.raises(AssertionError, match="hidden beyond the known ones"):
        sequence.run(8)
    sequence.num_tokens += 1
    assert sequence.block_key(1, 4) == (-2, 1)
    assert len(sequence.run(8)) == 8


@pytest.mark.parametrize(("num_tokens", "ends"), [(0, (0,)), (4, (4,)), (5, (4, 5)), (10, (4, 10))])
def test_a_run_tells_nothing_of_what_follows(num_tokens: int, ends: tuple[int, ...]) -> None:
    run = make_sequence().run(num_tokens)
    assert run.ends == ends
    assert run.names == (-1, -2)[: len(ends)]


def test_the_output_length_is_nowhere() -> None:
    assert not [
        name
        for name in Sequence.__slots__
        if "output" in name and name != "num_output_placeholders"
    ]


def test_a_sequence_shows_its_counters() -> None:
    assert repr(make_sequence()) == "<r7 num_tokens=10 num_computed_tokens=0>"


def test_rules_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SchedulerConfig().block_size = 32  # type: ignore[misc]
