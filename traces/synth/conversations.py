"""Conversations and agents: what sessions of a made-up trace say.

A session picks a system prompt; each turn's prompt is everything said before and a new text.
Agents fan out between turns, each a conversation of its own under the same system prompt::

    turn 0 --+-> sub-agent a: a0 -> a1 --------+
             +-> sub-agent b: b0 -> b1 -> b2 --+-> turn 1 follows both
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvsim.traces.synth.presets import copula_correlation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvsim.traces.synth.workload import Workload

_S: Final = 1_000_000_000
_BATCH: Final = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One request; ``after`` is the one it follows, ``turn`` its number in its session.

    It waits for the answers to ``also_after``, too, which end before that of ``after``.
    """

    arrival_ns: int
    end_ns: int
    session: int
    turn: int
    text_tokens: int
    prompt_tokens: int
    output_tokens: int
    after: Turn | None
    delay_ns: int
    ids: tuple[int, ...]
    also_after: tuple[Turn, ...] = ()


class Lengths:
    """Draws texts and answers together: uniform numbers made from two correlated normal ones."""

    def __init__(self, workload: Workload, generator: np.random.Generator) -> None:
        self._workload = workload
        self._generator = generator
        self._waiting: list[tuple[int, int]] = []

    def draw(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw ``count`` texts and answers."""
        from scipy.special import ndtr  # noqa: PLC0415

        workload = self._workload
        together = copula_correlation(workload.rank_correlation)
        normal = self._generator.standard_normal((2, count))
        normal[1] = together * normal[0] + math.sqrt(1 - together**2) * normal[1]
        uniform = ndtr(normal)
        return workload.prompt.lengths(uniform[0]), workload.output.lengths(uniform[1])

    def next(self) -> tuple[int, int]:
        """Draw one text and its answer."""
        if not self._waiting:
            text, output = self.draw(_BATCH)
            self._waiting = list(zip(text.tolist(), output.tolist(), strict=True))
            self._waiting.reverse()
        return self._waiting.pop()


@dataclass(slots=True)
class _Thread:
    """One conversation: the tokens said, and the ids of their blocks."""

    session: int
    said_tokens: int
    ids: list[int]
    out: list[Turn]


@dataclass(slots=True)
class Conversations:
    """Draws sessions, and hands out ids, each one once."""

    workload: Workload
    lengths: Lengths
    generator: np.random.Generator
    _next_id: int = 0
    _system: list[tuple[int, list[int]]] = field(init=False)

    def __post_init__(self) -> None:
        # the tail of a system prompt shares its block with what follows: no shared id
        size = self.workload.block_tokens
        tokens = self.workload.system_tokens
        self._system = [(count, self._new_ids(count // size)) for count in tokens] or [(0, [])]

    def session(self, number: int, start_ns: int) -> list[Turn]:
        """Draw all requests of one session, in an order in which each follows an earlier one."""
        workload, out = self.workload, list[Turn]()
        said, ids = self._system[int(self.generator.integers(len(self._system)))]
        thread = _Thread(number, said, list(ids), out)
        turn = self._say(thread, start_ns, None, 0)
        for _ in range(self._count(workload.mean_turns) - 1):
            after, delay_ns = turn, self._wait_ns(workload.think_s)
            agents = [
                self._agent(_Thread(number, said, list(ids), out), turn)
                for _ in range(workload.sub_agents)
            ]
            if agents:
                after, delay_ns = max(agents, key=lambda last: last.end_ns), 0
            if thread.said_tokens >= workload.max_context:
                break
            others = tuple(last for last in agents if last is not after)
            turn = self._say(thread, after.end_ns + delay_ns, after, delay_ns, others)
        return out

    def _agent(self, thread: _Thread, parent: Turn) -> Turn:
        """Draw a sub-agent that starts when its parent's answer ends; return its last request."""
        turn = self._say(thread, parent.end_ns, parent, 0)
        for _ in range(self._count(self.workload.mean_agent_turns) - 1):
            if thread.said_tokens >= self.workload.max_context:
                break
            delay_ns = self._wait_ns(self.workload.tool_s)
            turn = self._say(thread, turn.end_ns + delay_ns, turn, delay_ns)
        return turn

    def _say(
        self,
        thread: _Thread,
        arrival_ns: int,
        after: Turn | None,
        delay_ns: int,
        also_after: tuple[Turn, ...] = (),
    ) -> Turn:
        text, output = self.lengths.next()
        prompt = thread.said_tokens + text
        thread.said_tokens = prompt + output
        blocks = -(-thread.said_tokens // self.workload.block_tokens)
        thread.ids += self._new_ids(blocks - len(thread.ids))
        answer_ns = max(1, round(output * self.workload.answer_s_per_token * _S))
        turn = Turn(
            arrival_ns=arrival_ns,
            end_ns=arrival_ns + answer_ns,
            session=thread.session,
            turn=len(thread.out),
            text_tokens=text,
            prompt_tokens=prompt,
            output_tokens=output,
            after=after,
            delay_ns=delay_ns,
            ids=tuple(thread.ids),
            also_after=also_after,
        )
        thread.out.append(turn)
        return turn

    def _new_ids(self, count: int) -> list[int]:
        self._next_id += count
        return list(range(self._next_id - count, self._next_id))

    def _count(self, mean: float) -> int:
        return int(self.generator.geometric(1 / mean)) if mean > 1 else 1

    def _wait_ns(self, shape: tuple[float, float]) -> int:
        median_s, sigma = shape
        return round(float(self.generator.lognormal(math.log(median_s), sigma)) * _S)
