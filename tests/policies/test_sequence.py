"""What policies may know: keys only of known tokens, private ones beyond the public ids."""

from __future__ import annotations

import dataclasses

import pytest

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence


def make_sequence(prompt_tokens: int = 10, public: tuple[str, ...] = ("a", "b")) -> Sequence:
    return Sequence(
        7,
        name="r7",
        arrival_ps=0,
        prompt_tokens=prompt_tokens,
        max_tokens=5,
        priority=0,
        public_keys=public,
    )


def test_public_keys_first_then_private_ones() -> None:
    sequence = make_sequence(prompt_tokens=12)
    assert [sequence.block_key(block, 4) for block in range(3)] == ["a", "b", (7, 2)]


def test_keys_of_unknown_tokens_are_hidden() -> None:
    sequence = make_sequence(prompt_tokens=7)
    assert sequence.block_key(0, 4) == "a"
    with pytest.raises(AssertionError, match="hidden beyond the known tokens"):
        sequence.block_key(1, 4)
    sequence.known += 1
    assert sequence.block_key(1, 4) == "b"


def test_the_output_length_is_nowhere() -> None:
    assert not [name for name in Sequence.__slots__ if "output" in name]


def test_a_sequence_shows_its_counters() -> None:
    assert repr(make_sequence()) == "<r7 known=10 computed=0 owed=0>"


def test_rules_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SchedulerConfig().block_size = 32  # type: ignore[misc]
