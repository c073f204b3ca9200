"""Reservations and the runs that hold them."""

from __future__ import annotations

import pytest

from kvsim.policies.allocators import ContiguousAllocator, PagedAllocator, make_allocator
from kvsim.policies.allocators.base import Usage
from kvsim.policies.allocators.placement import PLACEMENTS, make_placement
from kvsim.policies.allocators.reservation import RESERVATIONS, Reservation
from kvsim.policies.context import PolicyContext
from kvsim.policies.registry import build
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

MODEL_LEN = 100


class Outputs:
    """True lengths; who must not know them is given none."""

    def __init__(self, *outputs: int) -> None:
        self.outputs = outputs

    def num_outputs(self, index: int) -> int:
        return self.outputs[index]

    def num_slots(self, index: int) -> int:
        return 10 + self.outputs[index] - 1


def make_sequence(index: int, prompt: int = 10) -> Sequence:
    return Sequence(index, f"r{index}", index, prompt, 50, 0, ())


def make_reservation(name: str, *outputs: int) -> Reservation:
    context = PolicyContext(SchedulerConfig(max_model_len=MODEL_LEN), truth=Outputs(*outputs))
    return build(RESERVATIONS.find(name), context)


def make(
    *outputs: int, pool: int, reservation: str = "oracle", placement: str = "buddy"
) -> ContiguousAllocator:
    return ContiguousAllocator(
        make_reservation(reservation, *outputs),
        make_placement(placement, pool),
        MODEL_LEN,
    )


def admit(allocator: ContiguousAllocator, sequence: Sequence) -> None:
    hit = allocator.find_hit(sequence)
    assert allocator.refusal(sequence, hit, sequence.num_tokens, idle=False) is None
    assert allocator.takes_memory(sequence, sequence.num_tokens)
    allocator.admit(sequence, hit, sequence.num_tokens)
    sequence.num_computed_tokens = sequence.num_tokens
    assert not allocator.takes_memory(sequence, sequence.num_tokens + 1)


@pytest.mark.parametrize(
    ("name", "output", "tokens", "uses_oracle"),
    [
        ("max", 1, MODEL_LEN, False),
        ("pow2", 1, 10 + 1, True),
        ("pow2", 4, 10 + 4, True),
        ("pow2", 5, 10 + 8, True),
        ("pow2", 65, MODEL_LEN, True),
        ("oracle", 1, 10, True),
        ("oracle", 5, 14, True),
    ],
)
def test_reservations(name: str, output: int, tokens: int, uses_oracle: bool) -> None:
    reservation = make_reservation(name, output)
    assert reservation.name == name
    assert reservation.tokens(make_sequence(0)) == tokens
    assert reservation.uses_oracle is uses_oracle
    assert reservation.covers_all


def test_max_never_asks_for_the_truth() -> None:
    assert make_reservation("max").tokens(make_sequence(7)) == MODEL_LEN


def test_an_unknown_reservation_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="'half' is unknown; choices: max, pow2, oracle"):
        make_reservation("half")


@pytest.mark.parametrize("placement", sorted(PLACEMENTS))
@pytest.mark.parametrize("reservation", ["max", "pow2", "oracle"])
def test_a_life_in_memory(reservation: str, placement: str) -> None:
    allocator = make(6, pool=256, reservation=reservation, placement=placement)
    sequence = make_sequence(0)
    admit(allocator, sequence)
    reserved = {"max": 100, "pow2": 18, "oracle": 15}[reservation]
    rounded = {"max": 128, "pow2": 32, "oracle": 16}[reservation]
    held = rounded if placement == "buddy" else reserved
    for computed in range(10, 16):
        sequence.num_computed_tokens = computed
        usage = allocator.usage([sequence])
        assert usage == Usage(256 - held, 0, reserved - computed, 0, held - reserved)
        allocator.check_invariants()
        if computed < 15:
            assert allocator.grow(sequence, 1)
    assert allocator.num_empty(sequence, 15) == reserved - 15
    assert (allocator.num_held(sequence), allocator.owners()) == (held, {0})
    assert allocator.address_of(sequence) == 0
    allocator.release(sequence)
    assert allocator.num_empty(sequence, 15) == reserved - 15, "asked again after a preemption"
    assert allocator.usage([]) == Usage(256, 0, 0, 0, 0)
    assert allocator.owners() == set()


def test_whole_reservations_are_placed_or_nothing_is() -> None:
    allocator = make(7, 7, 7, pool=48)  # 16 slots each: arenas of 32 and 16
    sequences = [make_sequence(index) for index in range(4)]
    for sequence in sequences[:3]:
        admit(allocator, sequence)
    with pytest.raises(AssertionError, match="was admitted, but no hole holds it"):
        allocator.admit(sequences[0], allocator.find_hit(sequences[0]), 10)
    assert sorted(map(allocator.address_of, sequences[:3])) == [0, 16, 32]


def test_a_hole_is_enough_in_sum_and_in_no_run() -> None:
    allocator = make(6, 6, 6, 20, 90, pool=64, placement="buddy")
    runs = [make_sequence(index) for index in range(3)]
    for sequence in runs:
        admit(allocator, sequence)
    allocator.release(runs[1])  # 16 slots free there and 16 at the end
    wide, wider = make_sequence(3), make_sequence(4)
    assert allocator.placement.num_free == 32
    assert allocator.refusal(wide, allocator.find_hit(wide), 10, idle=False) == "blocks"
    assert allocator.fragmented(wide)
    assert not allocator.fragmented(wider), "not enough in sum either"
    assert not allocator.fragmented(runs[1]), "it fits"


def test_a_sequence_cannot_outgrow_its_reservation() -> None:
    allocator = make(6, pool=64)
    sequence = make_sequence(0)
    admit(allocator, sequence)
    sequence.num_computed_tokens = 15
    with pytest.raises(AssertionError, match="outgrows its reservation"):
        allocator.grow(sequence, 1)


def test_invariants_are_looked_at() -> None:
    allocator = make(6, 6, pool=64)
    sequences = [make_sequence(index) for index in range(2)]
    for sequence in sequences:
        admit(allocator, sequence)
    sequences[0].reserved += 1
    with pytest.raises(AssertionError, match="padding count is off"):
        allocator.check_invariants()
    sequences[0].reserved -= 1
    allocator._addresses[1] = allocator._addresses[0]
    with pytest.raises(AssertionError, match="is not at its address"):
        allocator.check_invariants()


def test_allocators_by_name() -> None:
    config = engine_config(allocator__kind="contiguous", block_size=1, num_gpu_blocks=64)
    allocator = make_allocator(PolicyContext(config, truth=Outputs()))
    assert isinstance(allocator, ContiguousAllocator)
    assert allocator.placement.num_free == config.usable_blocks == 64, "there is no null block"
    assert not allocator.uses_oracle
    paged = make_allocator(PolicyContext(SchedulerConfig(), truth=Outputs()))
    assert isinstance(paged, PagedAllocator)
    assert not paged.uses_oracle
    assert not paged.fragmented(make_sequence(0))
    assert SchedulerConfig().usable_blocks == 1023
    with pytest.raises(ValueError, match="'slab' is unknown; choices: paged, contiguous"):
        make_allocator(PolicyContext(engine_config(allocator__kind="slab")))
