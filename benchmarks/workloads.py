"""Seeded traces for the benchmarks: independent log-normal requests, and chats of many turns.

The same arguments give the same trace, whatever the machine.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces import PrefixIds, Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

NS_PER_S = 10**9


def lognormal_tokens(
    rng: np.random.Generator, mean: float, sigma: float, num: int, max_tokens: int
) -> NDArray[np.int64]:
    """Lengths of at least 1 and at most ``max_tokens``; ``mean`` is that of the uncut law."""
    lengths = np.rint(rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, num))
    return np.clip(lengths.astype(np.int64), 1, max_tokens)


def poisson_ns(rng: np.random.Generator, rate_per_s: float, num: int) -> NDArray[np.int64]:
    """Arrival times whose first is 0."""
    times_s = np.cumsum(rng.exponential(1 / rate_per_s, num))
    return ((times_s - float(times_s[0])) * NS_PER_S).round().astype(np.int64)


def independent(
    num_requests: int,
    rate_per_s: float,
    *,
    seed: int,
    prompt_mean: float = 512,
    output_mean: float = 256,
    sigma: float = 0.8,
    max_tokens: int = 8191,
) -> Trace:
    """Poisson arrivals, log-normal lengths, nothing shared."""
    rng = np.random.default_rng(seed)
    return Trace(
        name="independent",
        arrival_ns=poisson_ns(rng, rate_per_s, num_requests),
        prompt_tokens=lognormal_tokens(rng, prompt_mean, sigma, num_requests, max_tokens),
        output_tokens=lognormal_tokens(rng, output_mean, sigma, num_requests, max_tokens),
    )


def multi_turn(
    num_requests: int,
    rate_per_s: float,
    *,
    seed: int,
    block_size: int = 16,
    num_system_prompts: int = 32,
    system_blocks: int = 25,
    max_turns: int = 11,
    user_mean: float = 64,
    output_mean: float = 256,
    think_mean_s: float = 60,
) -> Trace:
    """Chats of 1 to ``max_turns`` turns under shared system prompts; each prompt has all before it.

    Ids cover the outputs, so that a turn can hit the output of the turn before it::

        turn 1   |-- system --|- user -|- output -|
        turn 2   |-- system --|- user -|- output -|- user -|- output -|

    With the defaults a prompt has about 95 blocks in 5 segments (system prompt, earlier turns).
    """
    rng = np.random.default_rng(seed)
    beyond = int(rate_per_s * think_mean_s * max_turns)  # chats go on behind the last request
    num_turns = rng.integers(1, max_turns + 1, num_requests + beyond)
    num_sessions = int(np.searchsorted(np.cumsum(num_turns), num_requests + beyond)) + 1
    num_turns = num_turns[:num_sessions]
    total = int(num_turns.sum())
    first = np.cumsum(num_turns) - num_turns
    session = np.repeat(np.arange(num_sessions), num_turns)
    turn = np.arange(total) - first[session]

    user = lognormal_tokens(rng, user_mean, 0.8, total, 1024)
    output = lognormal_tokens(rng, output_mean, 0.8, total, 2048)
    said = np.cumsum(user + output)  # in all sessions before and up to this turn
    before_session = (said - user - output)[first][session]
    prompt = system_blocks * block_size + said - before_session - output

    start_ns = poisson_ns(rng, rate_per_s * num_sessions / total, num_sessions)
    waits_ns = np.where(turn == 0, 0, rng.exponential(think_mean_s, total) * NS_PER_S)
    waited = np.cumsum(np.rint(waits_ns).astype(np.int64))
    arrival = start_ns[session] + waited - waited[first][session]

    num_ids = -(-(prompt + output) // block_size)
    longest = np.maximum.reduceat(num_ids, first)  # the last turn of each session
    own_base = num_system_prompts * system_blocks + np.cumsum(longest) - longest
    system = rng.integers(0, num_system_prompts, num_sessions)

    order = np.argsort(arrival, kind="stable")[:num_requests]
    position = session[order]
    ids = _chat_ids(
        num_ids[order], system[position] * system_blocks, system_blocks, own_base[position]
    )
    return Trace(
        name="multi-turn",
        arrival_ns=arrival[order] - arrival[order[0]],
        prompt_tokens=prompt[order],
        output_tokens=output[order],
        session=[f"s{number}" for number in session[order]],
        turn=turn[order],
        prefix=PrefixIds(block_size, *ids, covers_output=True),
    )


def _chat_ids(
    num_ids: NDArray[np.int64],
    shared: NDArray[np.int64],
    num_shared: int,
    own: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offsets and ids of requests: ``num_shared`` ids from ``shared`` on, then from ``own`` on."""
    offsets = np.concatenate(([0], np.cumsum(num_ids)))
    ids = np.empty(int(offsets[-1]), np.int64)
    for place, at in enumerate(offsets[:-1].tolist()):
        middle, end = at + num_shared, int(offsets[place + 1])
        ids[at:middle] = np.arange(shared[place], shared[place] + num_shared)
        ids[middle:end] = np.arange(own[place], own[place] + end - middle)
    return offsets, ids


def head(trace: Trace, num_requests: int) -> Trace:
    """First requests of a trace, as a trace."""
    num = min(num_requests, len(trace))
    prefix = trace.prefix
    if prefix is not None:
        offsets = prefix.offsets[: num + 1]
        prefix = PrefixIds(
            prefix.block_size,
            offsets,
            prefix.ids[: offsets[-1]],
            covers_output=prefix.covers_output,
            scope=prefix.scope,
        )
    return Trace(
        name=trace.name,
        arrival_ns=trace.arrival_ns[:num],
        prompt_tokens=trace.prompt_tokens[:num],
        output_tokens=trace.output_tokens[:num],
        max_tokens=None if trace.max_tokens is None else trace.max_tokens[:num],
        ends_by=None if trace.ends_by is None else trace.ends_by[:num],
        prefix=prefix,
    )
