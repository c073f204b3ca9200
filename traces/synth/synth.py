"""The generator of the bundled trace: a chat service with system prompts and conversations.

Sessions start as a Poisson process whose rate rises for a rush; each picks one of a few shared
system prompts and goes on for a geometric number of turns. A turn's prompt is everything said
before and a new text; ids name 16 tokens of prompt and answer, so a next turn repeats them::

    turn 1   | system (shared ids) | user 1 | answer 1 |
    turn 2   | system (shared ids) | user 1 | answer 1 | user 2 | answer 2 |
                                                  the block cut by a turn's end keeps its id

``python -m kvsim.traces.synth.synth`` writes the bundled file anew (same bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.bundled import bundled_path
from kvsim.traces.trace.trace import LENGTH, STOP, PrefixIds, Trace
from kvsim.traces.write import write_trace

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE_SEED: Final = 2026
"""Seed of the bundled trace."""
_ID_TOKENS: Final = 16
_US: Final = 1_000
_S: Final = 1_000_000_000
_FEWEST_TOKENS: Final = 4
_MOST_TOKENS: Final = 4_000


@dataclass(frozen=True, slots=True)
class ChatService:
    """What :func:`synthesize_chat` draws from; the defaults are those of the bundled trace.

    Attributes
    ----------
    num_requests
        The earliest ones are kept.
    session_rate_per_s, rush_start_s, rush_end_s, rush_factor
        Sessions that start per second, ``rush_factor`` times as many during the rush.
    system_tokens, system_weights
        Lengths of the shared system prompts and how often each is used.
    more_turns
        Probability that a conversation goes on after a turn (up to ``max_turns``).
    user_tokens, answer_tokens
        Median and sigma of the log-normal lengths.
    allowed_tokens, allowed_weights
        ``max_tokens`` that clients send; -1 = they send none.
    answer_s_per_token, think_s
        Time until the next turn: that of writing the answer, and log-normal reading and typing
        (median, sigma).
    """

    num_requests: int = 2_000
    session_rate_per_s: float = 0.75
    rush_start_s: float = 240.0
    rush_end_s: float = 285.0
    rush_factor: float = 8.0
    system_tokens: tuple[int, ...] = (160, 384, 704, 1_280)
    system_weights: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    more_turns: float = 0.72
    max_turns: int = 12
    user_tokens: tuple[float, float] = (55.0, 1.1)
    answer_tokens: tuple[float, float] = (150.0, 0.85)
    allowed_tokens: tuple[int, ...] = (-1, 512, 2_048)
    allowed_weights: tuple[float, ...] = (0.3, 0.3, 0.4)
    answer_s_per_token: float = 0.02
    think_s: tuple[float, float] = (24.0, 0.55)


@dataclass(frozen=True, slots=True)
class _Turn:
    arrival_ns: int
    session: int
    turn: int
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    delay_ns: int
    ids: tuple[int, ...]


def synthesize_chat(
    generator: np.random.Generator, service: ChatService | None = None, name: str = "chat"
) -> Trace:
    """Draw a trace; the same state of ``generator`` gives the same trace."""
    draw = _Draw(generator, ChatService() if service is None else service)
    num_requests = draw.service.num_requests
    turns: list[_Turn] = []
    start_s, sessions = draw.next_start_s(0.0), 0
    while len(turns) < num_requests or start_s * _S < turns[num_requests - 1].arrival_ns:
        turns += draw.conversation(sessions, start_s)
        turns.sort(key=lambda turn: (turn.arrival_ns, turn.session))
        start_s, sessions = draw.next_start_s(start_s), sessions + 1
    return _trace(turns[:num_requests], name)


class _Draw:
    """Draws session starts and conversations, and hands out ids, each one once."""

    def __init__(self, generator: np.random.Generator, service: ChatService) -> None:
        self.service = service
        self._generator = generator
        self._next_id = 0
        # the tail of a system prompt shares its block with what follows: no shared id
        self._system_ids = [self._new_ids(tokens // _ID_TOKENS) for tokens in service.system_tokens]

    def next_start_s(self, now_s: float) -> float:
        """Thin a Poisson process of the highest rate."""
        service, random = self.service, self._generator
        most = service.session_rate_per_s * max(1.0, service.rush_factor)
        while True:
            now_s += float(random.exponential(1.0 / most))
            rush = service.rush_start_s <= now_s < service.rush_end_s
            rate = service.session_rate_per_s * (service.rush_factor if rush else 1.0)
            if random.random() * most < rate:
                return now_s

    def conversation(self, session: int, start_s: float) -> list[_Turn]:
        """Draw all turns of one session."""
        service, random = self.service, self._generator
        which = int(random.choice(len(self._system_ids), p=service.system_weights))
        allowed = int(random.choice(service.allowed_tokens, p=service.allowed_weights))
        ids = list(self._system_ids[which])
        known = service.system_tokens[which]
        arrival_ns, delay_ns = _round_ns(start_s), 0
        turns: list[_Turn] = []
        while True:
            prompt = known + self._length(service.user_tokens)
            answer = self._length(service.answer_tokens)
            if allowed >= 0:
                answer = min(answer, allowed)
            known = prompt + answer
            ids += self._new_ids(-(-known // _ID_TOKENS) - len(ids))
            turns.append(
                _Turn(
                    arrival_ns, session, len(turns), prompt, answer, allowed, delay_ns, tuple(ids)
                )
            )
            if len(turns) == service.max_turns or random.random() >= service.more_turns:
                return turns
            delay_ns = _round_ns(self._log_normal(service.think_s))
            arrival_ns += delay_ns + _round_ns(answer * service.answer_s_per_token)

    def _new_ids(self, count: int) -> range:
        self._next_id += count
        return range(self._next_id - count, self._next_id)

    def _length(self, shape: tuple[float, float]) -> int:
        return min(max(round(self._log_normal(shape)), _FEWEST_TOKENS), _MOST_TOKENS)

    def _log_normal(self, shape: tuple[float, float]) -> float:
        median, sigma = shape
        return float(self._generator.lognormal(np.log(median), sigma))


def _round_ns(seconds: float) -> int:
    return round(seconds * _S / _US) * _US


def _trace(turns: list[_Turn], name: str) -> Trace:
    index = {(turn.session, turn.turn): row for row, turn in enumerate(turns)}
    sessions = {turn.session: "" for turn in turns}
    sessions = {number: f"s{order:04d}" for order, number in enumerate(sessions)}
    lengths = [len(turn.ids) for turn in turns]
    ids = np.array([name for turn in turns for name in turn.ids], dtype=np.int64)

    def column(field: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([getattr(turn, field) for turn in turns], dtype=np.int64)

    max_tokens, output_tokens = column("max_tokens"), column("output_tokens")
    return Trace(
        name=name,
        arrival_ns=column("arrival_ns") - turns[0].arrival_ns,
        prompt_tokens=column("prompt_tokens"),
        output_tokens=output_tokens,
        max_tokens=max_tokens,
        ends_by=np.where(output_tokens == max_tokens, LENGTH, STOP).astype(np.uint8),
        session=[sessions[turn.session] for turn in turns],
        turn=column("turn"),
        after_request=np.array([index.get((t.session, t.turn - 1), -1) for t in turns]),
        delay_ns=column("delay_ns"),
        prefix=PrefixIds(
            block_size=_ID_TOKENS,
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            ids=ids,
            covers_output=True,
        ),
    )


def write_sample(path: Path) -> None:
    """Write the bundled trace."""
    write_trace(synthesize_chat(np.random.default_rng(SAMPLE_SEED), name="chat-2k"), path)


if __name__ == "__main__":
    write_sample(bundled_path("chat-2k"))
