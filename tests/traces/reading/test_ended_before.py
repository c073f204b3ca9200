"""Which calls a request waited for, against a search over all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces.reading.sessions.ended_before import Call, ended_before


def waited_for(calls: list[Call], start: int) -> set[int]:
    """All that had ended, less those that another of them had waited for in turn."""
    ended = [c for c in calls if c.end is not None and c.end <= start and c.start < start]
    return {
        call.index
        for call in ended
        if not any(call.end <= other.start and call.start < other.start for other in ended)
    }


SPANS = st.lists(st.tuples(st.integers(0, 12), st.none() | st.integers(0, 6)), max_size=9)


@given(SPANS, st.integers(0, 20))
def test_it_is_what_nobody_else_had_waited_for(
    spans: list[tuple[int, int | None]], start: int
) -> None:
    calls = [
        Call(index, begin, None if took is None else begin + took)
        for index, (begin, took) in enumerate(spans)
    ]
    found = ended_before(calls, start)
    assert {call.index for call in found} == waited_for(calls, start)
    assert [call.end for call in found] == sorted((c.end for c in found), reverse=True)
