"""Made-up traces: arrivals, lengths, shared system prompts, conversations and agents, all seeded.

Sessions start by one law of arrivals, perhaps with a daily rhythm; what they say is drawn in
``conversations.py``. Arrivals, lengths, conversations and users each draw from their own generator.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.reading.batch import Ragged
from kvsim.traces.synth.conversations import Conversations, Lengths, Turn
from kvsim.traces.trace.trace import MorePredecessors, PrefixIds, Trace, TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.drawn.arrivals import ArrivalRule
    from kvsim.traces.synth.length_laws import LengthLaw

_S: Final = 1_000_000_000
_GRID: Final = 4_096


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A rate that swings around its mean: ``1 - amplitude cos(2 pi t / period)`` of it."""

    amplitude: float
    period_s: float = 86_400.0

    def __post_init__(self) -> None:
        if not (0 <= self.amplitude <= 1 and 0 < self.period_s < 1e9):
            raise TraceError(
                f"a daily rhythm has amplitude {self.amplitude:g} and period {self.period_s:g} s; "
                "allowed are 0 to 1, and above 0"
            )

    def warp(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move times of a steady process to where this rate puts them (order stays)."""
        if not len(times_ns):
            return times_ns
        steady_s = times_ns / _S
        clock_s = np.linspace(0, steady_s[-1] + self.period_s, self._num_points(steady_s[-1]))
        turn = 2 * np.pi / self.period_s
        expected_s = clock_s - self.amplitude / turn * np.sin(turn * clock_s)
        warped: NDArray[np.int64] = np.rint(np.interp(steady_s, expected_s, clock_s) * _S).astype(
            np.int64
        )
        return warped

    def _num_points(self, span_s: float) -> int:
        return min(int((span_s / self.period_s + 1) * _GRID) + 1, 1 << 24)


@dataclass(frozen=True, slots=True)
class Workload:
    """What to make up.

    Attributes
    ----------
    num_requests
        The earliest ones are kept.
    arrivals
        Law of session starts, rate included.
    prompt, output
        Laws of a turn's new text and of its answer.
    rank_correlation
        Of the two.
    system_tokens
        Lengths of the system prompts, which sessions share; each is as likely.
    mean_turns
        Of a conversation; the number is geometric.
    think_s, tool_s
        Median and sigma of the log-normal times before a next turn, and before a sub-agent's.
    sub_agents, mean_agent_turns
        How many start after each turn but the last, and their mean number of turns.
    answer_s_per_token
        Pace at which answers are assumed to come, for arrival times in an open loop.
    max_context
        A conversation goes on only while fewer tokens have been said.
    block_tokens
        Tokens that an id stands for, where prompts share anything.
    num_users, user_skew
        How many users there are (0: none are named); user ``k`` of 0, 1, ... starts a session with
        a probability in proportion to ``1 / (k + 1) ** user_skew``.
    """

    num_requests: int
    arrivals: ArrivalRule
    prompt: LengthLaw
    output: LengthLaw
    rank_correlation: float = 0.0
    rhythm: Rhythm | None = None
    system_tokens: tuple[int, ...] = ()
    mean_turns: float = 1.0
    think_s: tuple[float, float] = (24.0, 0.55)
    sub_agents: int = 0
    mean_agent_turns: float = 3.0
    tool_s: tuple[float, float] = (2.0, 0.8)
    answer_s_per_token: float = 0.02
    max_context: int = 131_072
    block_tokens: int = 16
    num_users: int = 0
    user_skew: float = 0.0

    def __post_init__(self) -> None:
        checks: dict[str, tuple[float, float, float]] = {
            "num_requests": (self.num_requests, 1, 10**9),
            "mean_turns": (self.mean_turns, 1, 10**6),
            "mean_agent_turns": (self.mean_agent_turns, 1, 10**6),
            "sub_agents": (self.sub_agents, 0, 1_000),
            "block_tokens": (self.block_tokens, 1, 2**20),
            "num_users": (self.num_users, 0, 10**6),
            "user_skew": (self.user_skew, 0, 100),
            "max_context": (self.max_context, 2, 2**30),
            "shortest system prompt": (min(self.system_tokens, default=1), 1, 2**24),
        }
        for name, (value, least, most) in checks.items():
            if not least <= value <= most:
                raise TraceError(f"{name} is {value:g}; allowed are {least:g} to {most:g}")

    @property
    def shares(self) -> bool:
        """Whether any two prompts begin alike."""
        return bool(self.system_tokens) or self.mean_turns > 1 or self.sub_agents > 0


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A trace, and the new text of each of its turns, which is what the law of prompts draws."""

    trace: Trace
    text_tokens: NDArray[np.int64]


def make_up(workload: Workload, seed: int, name: str = "made-up") -> MadeUp:
    """Draw a trace; the same seed gives the same trace. O(n log n)."""
    sources = np.random.default_rng(seed).spawn(4)
    starts = workload.arrivals.times_ns(workload.num_requests, sources[0])
    if workload.rhythm is not None:
        starts = workload.rhythm.warp(starts)
    starts -= starts[0]
    lengths = Lengths(workload, sources[1])
    if not workload.shares:
        text, output = lengths.draw(workload.num_requests)
        trace = Trace(name, starts, text, output)
        sessions = np.arange(workload.num_requests)
    else:
        drawn = Conversations(workload, lengths, sources[2])
        turns = _earliest(drawn, starts, workload.num_requests)
        text = np.array([turn.text_tokens for turn in turns], dtype=np.int64)
        trace = _to_trace(turns, workload, name)
        sessions = np.array([turn.session for turn in turns])
    if workload.num_users:
        trace.user = _users(workload, sources[3], sessions)
    return MadeUp(trace, text)


def _users(
    workload: Workload, generator: np.random.Generator, sessions: NDArray[np.int64]
) -> list[str]:
    """Name the user of each request, given the number of its session."""
    weights = np.arange(1.0, workload.num_users + 1) ** -workload.user_skew
    shares = weights / weights.sum()
    owners = generator.choice(workload.num_users, workload.num_requests, p=shares)
    return [f"u{owner}" for owner in owners[sessions].tolist()]


def _earliest(sessions: Conversations, starts: NDArray[np.int64], num_requests: int) -> list[Turn]:
    """Draw sessions until no later one can have a request among the earliest."""
    turns: list[Turn] = []
    arrivals: list[int] = []
    for number, start_ns in enumerate(starts.tolist()):
        if len(arrivals) >= num_requests and arrivals[num_requests - 1] <= start_ns:
            break
        drawn = sessions.session(number, start_ns)
        turns += drawn
        for turn in drawn:
            insort(arrivals, turn.arrival_ns)
    turns.sort(key=lambda turn: (turn.arrival_ns, turn.session, turn.turn))
    return turns[:num_requests]


def _to_trace(turns: list[Turn], workload: Workload, name: str) -> Trace:
    row = {id(turn): index for index, turn in enumerate(turns)}

    def column(values: list[int]) -> NDArray[np.int64]:
        return np.array(values, dtype=np.int64)

    return Trace(
        name=name,
        arrival_ns=column([turn.arrival_ns for turn in turns]),
        prompt_tokens=column([turn.prompt_tokens for turn in turns]),
        output_tokens=column([turn.output_tokens for turn in turns]),
        session=[f"s{turn.session}" for turn in turns],
        turn=column([turn.turn for turn in turns]),
        after_request=column([-1 if t.after is None else row[id(t.after)] for t in turns]),
        also_after=_also_after(turns, row),
        delay_ns=column([turn.delay_ns for turn in turns]),
        prefix=PrefixIds(
            block_size=workload.block_tokens,
            offsets=np.cumsum([0, *(len(turn.ids) for turn in turns)]).astype(np.int64),
            ids=column([name for turn in turns for name in turn.ids]),
            covers_output=True,
        ),
    )


def _also_after(turns: list[Turn], row: dict[int, int]) -> MorePredecessors | None:
    others = [[row[id(other)] for other in turn.also_after] for turn in turns]
    lists = Ragged.of_lists(others)
    return MorePredecessors(lists.offsets(), lists.flat) if len(lists.flat) else None
