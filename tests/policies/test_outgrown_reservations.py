"""Predicted reservations: when they are outgrown, and when runs slide for the queue's head."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvsim.policies.allocators import ContiguousAllocator, make_allocator
from kvsim.policies.allocators.base import Usage
from kvsim.policies.allocators.placement import PLACEMENTS
from kvsim.policies.allocators.relocations import Relocations
from kvsim.policies.allocators.reservation import Predicted
from kvsim.policies.context import PolicyContext
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

MODEL_LEN = 60
POWERS = (1, 2, 4, 8, 16, 32, 64, 128)


class Guesses:
    """A predictor of fixed guesses, by index; an answer that goes on is one token longer."""

    name = "guesses"
    uses_oracle = False
    predicts = True

    def __init__(self, *guesses: int) -> None:
        self.guesses = list(guesses)

    def output_tokens(self, sequence: Sequence) -> int:
        return max(self.guesses[sequence.index], sequence.num_tokens - sequence.prompt_tokens + 1)

    def finished(self, sequence: Sequence) -> None:
        pass


def make_context(pool: int, placement: str, guesses: Guesses, **options: object) -> PolicyContext:
    config = engine_config(
        allocator__kind="contiguous",
        allocator__reservation="predicted",
        allocator__placement=placement,
        block_size=1,
        num_gpu_blocks=pool,
        max_model_len=MODEL_LEN,
        **options,
    )
    return PolicyContext(config, predictor=guesses)


def make(pool: int, placement: str, *guesses: int, **options: object) -> ContiguousAllocator:
    allocator = make_allocator(make_context(pool, placement, Guesses(*guesses), **options))
    assert isinstance(allocator, ContiguousAllocator)
    return allocator


def make_sequence(index: int, prompt: int = 10) -> Sequence:
    return Sequence(index, f"r{index}", index, prompt, 50, 0, ())


def admit(allocator: ContiguousAllocator, index: int, prompt: int = 10) -> Sequence:
    sequence = make_sequence(index, prompt)
    assert allocator.refusal(sequence, allocator.find_hit(sequence), prompt, idle=False) is None
    allocator.admit(sequence, allocator.find_hit(sequence), prompt)
    sequence.num_computed_tokens = prompt
    sequence.num_tokens = prompt + 1
    return sequence


def generate(allocator: ContiguousAllocator, sequence: Sequence, tokens: int) -> bool:
    """Compute tokens one by one; whether there was room for all of them."""
    for _ in range(tokens):
        if not allocator.grow(sequence, 1):
            return False
        sequence.num_computed_tokens += 1
        sequence.num_tokens += 1
    return True


@pytest.mark.parametrize(
    ("guess", "margin", "tokens"),
    [(5, 1.0, 15), (5, 1.5, 18), (5, 0.1, 11), (49, 1.0, 59), (60, 1.0, MODEL_LEN)],
)
def test_the_reservation_is_the_prompt_and_the_prediction(
    guess: int, margin: float, tokens: int
) -> None:
    context = make_context(100, "first-fit", Guesses(guess), allocator__reservation_margin=margin)
    reservation = Predicted(context)
    assert reservation.tokens(make_sequence(0)) == tokens
    assert not reservation.covers_all
    assert not reservation.uses_oracle


def test_a_resumed_sequence_is_predicted_again() -> None:
    for margin, tokens in ((1.0, 41), (0.1, 41), (1.5, 57)):
        context = make_context(100, "first-fit", Guesses(5), allocator__reservation_margin=margin)
        resumed = make_sequence(0)
        resumed.num_tokens = 40  # 31 tokens of an answer are foretold now
        assert Predicted(context).tokens(resumed) == tokens, "one token more than it has, at least"


def test_who_predicts_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="'predicted' needs predicted lengths"):
        Predicted(PolicyContext(SchedulerConfig()))


def test_it_grows_in_place_as_far_as_the_hole_allows() -> None:
    allocator = make(40, "first-fit", 5, 1)
    sequence = admit(allocator, 0)
    blocker = admit(allocator, 1)
    assert [allocator.address_of(one) for one in (sequence, blocker)] == [0, 15]
    allocator.release(blocker)
    assert generate(allocator, sequence, 5)
    assert not allocator.takes_memory(sequence, sequence.num_computed_tokens + 1)
    assert allocator.grow(sequence, 1)
    assert allocator.takes_memory(sequence, sequence.num_computed_tokens + 1)
    assert sequence.reserved == 20, "twice the room for the answer"
    assert allocator.relocations == Relocations(num_grown=1)
    assert allocator.usage([sequence]) == Usage(20, 0, 5, 0, 0)
    allocator.check_invariants()


def test_a_renewal_for_a_step_that_is_not_made_was_never_owned() -> None:
    allocator = make(40, "first-fit", 5)
    sequence = admit(allocator, 0)
    assert generate(allocator, sequence, 5)
    assert allocator.grow(sequence, 1)
    assert allocator.num_empty(sequence, 15) == 5
    allocator.release(sequence)  # another one's victim, in the same call
    assert allocator.num_empty(sequence, 15) == 0
    assert allocator.usage([]) == Usage(40, 0, 0, 0, 0)


def test_it_moves_where_its_neighbour_is_in_the_way() -> None:
    allocator = make(48, "first-fit", 5, 1)
    sequence, blocker = admit(allocator, 0), admit(allocator, 1)
    assert generate(allocator, sequence, 6)
    assert (allocator.address_of(sequence), sequence.reserved) == (26, 20)
    assert allocator.relocations == Relocations(num_moved=1, moved_tokens=15)
    assert allocator.address_of(blocker) == 15
    assert allocator.placement.largest_hole() == 15, "its old run is a hole"
    allocator.check_invariants()


def test_somebody_gives_way_where_no_hole_is_large_enough() -> None:
    allocator = make(40, "first-fit", 5, 1)
    sequence, blocker = admit(allocator, 0), admit(allocator, 1)
    assert not generate(allocator, sequence, 6)
    assert allocator.relocations == Relocations(num_lacking=1)
    assert (sequence.num_computed_tokens, sequence.reserved) == (15, 15)
    allocator.check_invariants()
    allocator.release(blocker)
    assert generate(allocator, sequence, 25)
    assert sequence.reserved == 40, "the pool's end cuts the third doubling"
    assert allocator.relocations == Relocations(num_grown=3, num_lacking=1)
    assert not allocator.grow(sequence, 1)


def test_a_buddy_uses_its_round_up_first() -> None:
    allocator = make(64, "buddy", 5, 5)
    sequence, blocker = admit(allocator, 0), admit(allocator, 1)
    assert [allocator.address_of(one) for one in (sequence, blocker)] == [0, 16]
    assert allocator.num_padding == 2
    assert generate(allocator, sequence, 6), "15 of 16 slots were reserved"
    assert (sequence.reserved, allocator.num_padding) == (16, 1)
    assert allocator.relocations == Relocations(num_grown=1)
    assert generate(allocator, sequence, 1), "the next one moves: 10 + 2 x 6 of 32 slots"
    assert (allocator.address_of(sequence), sequence.reserved) == (32, 22)
    assert allocator.relocations == Relocations(num_grown=1, num_moved=1, moved_tokens=16)
    assert allocator.num_padding == 11
    allocator.check_invariants()


def test_the_model_length_bounds_a_renewal() -> None:
    allocator = make(100, "first-fit", 40)
    sequence = admit(allocator, 0)
    assert generate(allocator, sequence, 41)
    assert sequence.reserved == MODEL_LEN


def test_runs_slide_for_a_head_with_room_in_sum() -> None:
    allocator = make(60, "first-fit", 5, 5, 5, 20, 30, allocator__compaction="when-blocked")
    sequences = [admit(allocator, index) for index in range(3)]
    allocator.release(sequences[1])
    head, later = make_sequence(3), make_sequence(4)
    assert allocator.fragmented(head)
    assert allocator.refusal(later, allocator.find_hit(later), 10, idle=False) == "blocks"
    assert allocator.refusal(head, allocator.find_hit(head), 10, idle=False) is None
    allocator.admit(head, allocator.find_hit(head), 10)
    assert [allocator.address_of(one) for one in (sequences[0], sequences[2], head)] == [0, 15, 30]
    assert allocator.relocations == Relocations(num_slid=1, slid_tokens=10)
    allocator.check_invariants()


class Machine(RuleBasedStateMachine):
    """Random lives in one pool against a bitmap and the rules of renewal written down again."""

    @initialize(
        placement=st.sampled_from(sorted(PLACEMENTS)),
        pool=st.integers(10, 150),
        compacts=st.booleans(),
    )
    def start(self, placement: str, pool: int, compacts: bool) -> None:
        self.pool, self.placement = pool, placement
        self.compacts = compacts and placement != "buddy"
        self.guesses = Guesses()
        compaction = "when-blocked" if self.compacts else "none"
        allocator = make_allocator(
            make_context(pool, placement, self.guesses, allocator__compaction=compaction)
        )
        assert isinstance(allocator, ContiguousAllocator)
        self.allocator = allocator
        self.running: list[Sequence] = []
        self.reserved: dict[int, int] = {}
        self.copied = 0

    def rounded(self, slots: int) -> int:
        return next(p for p in POWERS if p >= slots) if self.placement == "buddy" else slots

    def taken(self, besides: Sequence | None = None) -> list[bool]:
        taken = [False] * self.pool
        for sequence in self.running:
            if sequence is not besides:
                start = self.allocator.address_of(sequence)
                for slot in range(start, start + self.held(sequence)):
                    assert not taken[slot], "two runs overlap"
                    taken[slot] = True
        return taken

    def held(self, sequence: Sequence) -> int:
        return self.rounded(self.reserved[sequence.index])

    def fits_at(self, taken: list[bool], start: int, length: int) -> bool:
        aligned = self.placement != "buddy" or start % length == 0
        return aligned and start + length <= self.pool and not any(taken[start : start + length])

    def fits(self, taken: list[bool], slots: int) -> bool:
        length = self.rounded(slots)
        return any(self.fits_at(taken, start, length) for start in range(self.pool))

    @rule(prompt=st.integers(1, 30), guess=st.integers(1, 30))
    def arrive(self, prompt: int, guess: int) -> None:
        allocator, index = self.allocator, len(self.guesses.guesses)
        self.guesses.guesses.append(guess)
        sequence, hit = make_sequence(index, prompt), allocator.find_hit(make_sequence(index))
        wanted, taken = min(prompt + guess, MODEL_LEN), self.taken()
        enough, fits = taken.count(False) >= wanted, self.fits(taken, wanted)
        assert allocator.fragmented(sequence) == (enough and not fits)
        refusal = allocator.refusal(sequence, hit, prompt, idle=not self.running)
        assert (refusal is None) == (enough if self.compacts else fits)
        if refusal is not None:
            return
        before = [allocator.address_of(one) for one in self.running]
        allocator.admit(sequence, hit, prompt)
        after = [allocator.address_of(one) for one in self.running]
        assert fits or before != after
        for old, new, one in zip(before, after, self.running, strict=True):
            assert new == old or (new < old and not fits), "runs slide down, and only then"
            self.copied += one.num_computed_tokens if new < old else 0
        sequence.num_computed_tokens, sequence.num_tokens = prompt, prompt + 1
        self.running.append(sequence)
        self.reserved[index] = wanted

    @rule(data=st.data(), tokens=st.integers(1, 12))
    def generate(self, data: st.DataObject, tokens: int) -> None:
        if self.running:
            sequence = data.draw(st.sampled_from(self.running))
            for _ in range(min(tokens, MODEL_LEN - sequence.num_computed_tokens)):
                self.one_token(sequence)

    def one_token(self, sequence: Sequence) -> None:
        index, needed = sequence.index, sequence.num_computed_tokens + 1
        address = self.allocator.address_of(sequence)
        grows = True
        if needed > self.reserved[index]:
            guess = max(self.guesses.guesses[index], needed + 1 - sequence.prompt_tokens)
            doubled = 2 * (self.reserved[index] - sequence.prompt_tokens)
            renewed = min(sequence.prompt_tokens + max(guess, doubled), MODEL_LEN)
            others = self.taken(besides=sequence)
            rooms = [n for n in range(1, 129) if self.fits_at(others, address, self.rounded(n))]
            if needed in rooms:
                self.reserved[index] = min(renewed, max(rooms))
            elif self.fits(self.taken(), renewed):
                self.copied += sequence.num_computed_tokens
                self.reserved[index] = renewed
            else:
                grows = False
        assert self.allocator.grow(sequence, 1) == grows
        if grows:
            sequence.num_computed_tokens += 1
            sequence.num_tokens += 1

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.running:
            sequence = data.draw(st.sampled_from(self.running))
            self.running.remove(sequence)
            self.allocator.release(sequence)

    @invariant()
    def same_slots(self) -> None:
        self.allocator.check_invariants()
        held = sum(map(self.held, self.running))
        reserved = sum(self.reserved[one.index] for one in self.running)
        computed = sum(one.num_computed_tokens for one in self.running)
        assert self.taken().count(True) == held
        usage = self.allocator.usage(self.running)
        assert usage == Usage(self.pool - held, 0, reserved - computed, 0, held - reserved)
        relocations = self.allocator.relocations
        assert relocations is not None
        assert relocations.copied_tokens == self.copied


TestOutgrownReservations = Machine.TestCase
