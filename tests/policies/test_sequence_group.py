"""Sequence groups: a worked example, and random operations against plain lists of tokens."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kvsim.policies.allocators.grouped import GroupedAllocator
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

SIZE = 4


def make_allocator(num_blocks: int = 41, **rules: float) -> GroupedAllocator:
    return GroupedAllocator(
        engine_config(
            block_size=SIZE,
            num_gpu_blocks=num_blocks,
            enable_prefix_caching=False,
            allocator__samples="group",
            batching__watermark=rules.get("batching__watermark", 0.0),
        )
    )


def make_group(index: int, prompt_tokens: int, width: int, *, beams: bool = False) -> Sequence:
    return Sequence(index, f"r{index}", 0, prompt_tokens, 99, 0, (), "", width, beams=beams)


def tables(allocator: GroupedAllocator, sequence: Sequence) -> list[list[int]]:
    """Block ids of a group, one list for each sequence."""
    group = allocator._sequence_groups[sequence.index]
    return [[block.id for block in table] for table in group.tables]


def enter(allocator: GroupedAllocator, sequence: Sequence) -> None:
    """Compute the prompt and sample the first token of each sequence."""
    allocator.admit(sequence, allocator.find_hit(sequence), sequence.prompt_tokens)
    sequence.num_computed_tokens = sequence.prompt_tokens
    sequence.num_tokens += 1


def decode(allocator: GroupedAllocator, sequence: Sequence) -> bool:
    if not allocator.grow(sequence, 1):
        return False
    sequence.num_computed_tokens += 1
    sequence.num_tokens += 1
    return True


def test_a_prompt_of_ten_in_blocks_of_four_for_three_samples() -> None:
    allocator = make_allocator()
    group = make_group(0, 10, 3)
    enter(allocator, group)
    assert tables(allocator, group) == [[1, 2, 3]]  # block 3 holds tokens 8 and 9
    assert allocator.num_lacking(group, 11) == 2

    assert decode(allocator, group)  # token 10: who is last to write finds block 3 its own
    assert tables(allocator, group) == [[1, 2, 4], [1, 2, 5], [1, 2, 3]]
    assert allocator.num_copied == 2
    assert allocator.num_held(group) == 5  # of 9 entries
    assert allocator.pool.num_shared == 4
    assert allocator.usage([group])[2] == 3  # one slot is empty in each of 3, 4, 5

    assert allocator.num_lacking(group, 12) == 0
    assert decode(allocator, group)  # token 11 fills them
    assert allocator.usage([group])[2] == 0
    assert allocator.num_lacking(group, 13) == 3
    assert decode(allocator, group)
    assert tables(allocator, group) == [[1, 2, 4, 6], [1, 2, 5, 7], [1, 2, 3, 8]]
    assert allocator.num_copied == 2
    allocator.release(group)
    assert allocator.pool.num_free == 40
    assert allocator.pool.num_shared == 0


def test_a_prompt_of_whole_blocks_is_never_copied() -> None:
    allocator = make_allocator()
    group = make_group(0, 8, 2)
    enter(allocator, group)
    assert allocator.num_lacking(group, 9) == 2
    assert decode(allocator, group)
    assert tables(allocator, group) == [[1, 2, 3], [1, 2, 4]]
    assert allocator.num_copied == 0


def test_beams_that_go_on_from_one_share_until_they_write_and_who_is_dropped_is_freed() -> None:
    allocator = make_allocator()
    beams = make_group(0, 6, 3, beams=True)
    enter(allocator, beams)
    decode(allocator, beams)
    assert tables(allocator, beams) == [[1, 3], [1, 4], [1, 2]]
    allocator.date(beams, 70)
    allocator.go_on_from(beams, [1, 1, 1])
    assert tables(allocator, beams) == [[1, 4], [1, 4], [1, 4]]
    assert allocator.pool.num_free == 38
    assert sorted(allocator.take_given_up()) == [(70, 1), (70, 1)]  # each held 3 of 4 tokens
    assert decode(allocator, beams)
    assert len({table[-1] for table in tables(allocator, beams)}) == 3
    assert allocator.num_copied == 4


def test_a_group_grows_as_a_whole_or_not_at_all() -> None:
    allocator = make_allocator(5)  # 4 blocks
    group = make_group(0, 10, 3)
    enter(allocator, group)
    assert not allocator.grow(group, 1)  # it lacks 2 and 1 is free
    assert tables(allocator, group) == [[1, 2, 3]]
    assert allocator.num_copied == 0


def test_a_group_goes_to_the_host_once_and_shares_again_when_it_is_back() -> None:
    allocator = make_allocator(10, batching__watermark=0.2)  # 9 blocks, 2 are kept
    group = make_group(0, 10, 3)
    enter(allocator, group)
    decode(allocator, group)
    assert allocator.num_held(group) == 5
    allocator.swap_out(group)
    assert allocator.pool.num_free == 9
    assert allocator.swap_in_refusal(group, 1, idle=False) is None
    allocator.pool.take(3)
    assert allocator.swap_in_refusal(group, 1, idle=False) == "admission rule"
    assert allocator.swap_in_refusal(group, 1, idle=True) is None
    allocator.swap_in(group, 1)
    first, second, third = tables(allocator, group)
    assert first[:2] == second[:2] == third[:2]
    assert len({first[2], second[2], third[2]}) == 3
    assert allocator.num_held(group) == 5
    allocator.check_invariants()


def test_who_has_one_sequence_is_served_as_by_block_tables_alone() -> None:
    allocator = make_allocator()
    single, group = make_group(0, 5, 1), make_group(1, 5, 2)
    enter(allocator, single)
    enter(allocator, group)
    assert allocator.owners() == {0, 1}
    assert decode(allocator, single)
    assert allocator.num_empty(single, 6) == 2
    assert allocator.num_empty(group, 5) == 0, "told block by block"
    assert allocator.usage([single, group])[2] == 5
    allocator.release(single)
    assert allocator.owners() == {1}


class Groups(RuleBasedStateMachine):
    """What a group's tables lead to must be the tokens of each sequence, whoever wrote what."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = make_allocator(25)
        self.names = count()
        self.tokens = count()
        self.texts: dict[int, tuple[Sequence, list[list[int]]]] = {}
        self.memory: dict[int, list[int]] = {}
        self.out: dict[int, tuple[Sequence, list[list[int]], list[list[list[int]]]]] = {}

    def _chosen(self, data: st.DataObject) -> tuple[Sequence, list[list[int]]]:
        return self.texts[data.draw(st.sampled_from(sorted(self.texts)))]

    @rule(prompt=st.integers(1, 14), width=st.integers(2, 4))
    def arrive(self, prompt: int, width: int) -> None:
        if self.allocator.num_spare < -(-prompt // SIZE):
            return
        group = make_group(next(self.names), prompt, width, beams=True)
        enter(self.allocator, group)
        text = [next(self.tokens) for _ in range(prompt)]
        for place, block in enumerate(tables(self.allocator, group)[0]):
            self.memory[block] = text[place * SIZE : (place + 1) * SIZE]
        self.texts[group.index] = (group, [text])

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        group, texts = self._chosen(data)
        before, spare = tables(self.allocator, group), self.allocator.num_spare
        lacking = self.allocator.num_lacking(group, group.num_computed_tokens + 1)
        if not decode(self.allocator, group):
            assert lacking > spare
            assert tables(self.allocator, group) == before
            return
        assert spare - self.allocator.num_spare == lacking
        self._written(group, texts, before)

    def _written(self, group: Sequence, texts: list[list[int]], before: list[list[int]]) -> None:
        if len(texts) < group.width:
            texts += [list(texts[0]) for _ in range(group.width - 1)]
            before = before * group.width
        after = tables(self.allocator, group)
        for old, new in zip(before, after, strict=True):
            if len(new) > len(old):
                self.memory[new[-1]] = []
            elif new[-1] != old[-1]:
                self.memory[new[-1]] = list(self.memory[old[-1]])
        for table, text in zip(after, texts, strict=True):
            text.append(next(self.tokens))
            self.memory[table[-1]].append(text[-1])

    @precondition(lambda self: any(len(texts) > 1 for _, texts in self.texts.values()))
    @rule(data=st.data())
    def choose(self, data: st.DataObject) -> None:
        parted = sorted(index for index, (_, texts) in self.texts.items() if len(texts) > 1)
        group, texts = self.texts[data.draw(st.sampled_from(parted))]
        beams = st.integers(0, group.width - 1)
        parents = data.draw(st.lists(beams, min_size=group.width, max_size=group.width))
        self.allocator.go_on_from(group, parents)
        texts[:] = [list(texts[parent]) for parent in parents]

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        group, _ = self._chosen(data)
        self.allocator.release(group)
        del self.texts[group.index]

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def put_out(self, data: st.DataObject) -> None:
        group, texts = self._chosen(data)
        held = [
            [list(self.memory[block]) for block in table] for table in tables(self.allocator, group)
        ]
        spare, num_held = self.allocator.num_spare, self.allocator.num_held(group)
        self.allocator.swap_out(group)
        assert self.allocator.num_spare == spare + num_held
        self.out[group.index] = (group, texts, held)
        del self.texts[group.index]

    @precondition(lambda self: self.out)
    @rule(data=st.data(), forget=st.booleans())
    def bring_back(self, data: st.DataObject, forget: bool) -> None:
        group, texts, held = self.out[data.draw(st.sampled_from(sorted(self.out)))]
        if forget:
            self.allocator.forget_swapped(group)
            del self.out[group.index]
            return
        if self.allocator.swap_in_refusal(group, 1, idle=True) is not None:
            return
        self.allocator.swap_in(group, 1)
        del self.out[group.index]
        if len(texts) < group.width:
            texts += [list(texts[0]) for _ in range(group.width - 1)]
            held = held * group.width
        for table, blocks in zip(tables(self.allocator, group), held, strict=True):
            for block, content in zip(table, blocks, strict=False):
                self.memory[block] = list(content)
            for block in table[len(blocks) :]:
                self.memory[block] = []
        for table, text in zip(tables(self.allocator, group), texts, strict=True):
            text.append(next(self.tokens))
            self.memory[table[-1]].append(text[-1])
        group.num_computed_tokens += 1
        group.num_tokens += 1
        self.texts[group.index] = (group, texts)

    @invariant()
    def tables_lead_to_the_texts(self) -> None:
        self.allocator.check_invariants()
        num_owned = num_entries = num_empty = 0
        for group, texts in self.texts.values():
            for table, text in zip(tables(self.allocator, group), texts, strict=True):
                assert [token for block in table for token in self.memory[block]] == text
            columns = {
                (place, tuple(text[: (place + 1) * SIZE]))
                for text in texts
                for place in range(-(-len(text) // SIZE))
            }
            num_owned += len(columns)
            num_entries += sum(-(-len(text) // SIZE) for text in texts)
            num_empty += sum(SIZE * (place + 1) - len(start) for place, start in columns)
        pool = self.allocator.pool
        assert pool.num_free == 24 - num_owned
        assert pool.num_shared == num_entries - num_owned
        members = [group for group, _ in self.texts.values()]
        assert self.allocator.usage(members).empty == num_empty


def test_groups_against_plain_lists() -> None:
    run_state_machine_as_test(Groups, settings=settings(stateful_step_count=40))


def test_the_state_machine_sees_a_copy_that_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "kvsim.policies.allocators.sequence_group.SequenceGroup.num_to_write",
        lambda group, computed: 0 if computed % SIZE else group.width,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Groups, settings=settings(stateful_step_count=40))
