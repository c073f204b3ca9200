"""What is measured: traces, engines and what was asked of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.policy_cases import policy_cases
from benchmarks.workloads import head, independent, multi_turn
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost.step_cost import LinearCost

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.cost.host_link import HostLink
    from kvsim.traces import Trace

SHARED: Final = Path(__file__).resolve().parents[2] / "shared"
GOLDEN: Final = SHARED / "golden" / "vllm-real"

PRESETS: Final = {
    "vllm-0.32-sync": SchedulerConfig(),
    "vllm-0.32": SchedulerConfig(async_scheduling=True),
}
"""Rules of the presets of these names; pool, budget and lengths are each case's own."""

Options = dict[str, int | bool | str]
"""Values for ``SchedulerConfig.with_values``."""

PLAIN: Final[Options] = {
    "num_gpu_blocks": 19_000,
    "max_model_len": 16_384,
    "enable_prefix_caching": False,
}
CACHED: Final[Options] = {"enable_prefix_caching": True}
TIGHT: Final[Options] = {"num_gpu_blocks": 6_000}

COST: Final = LinearCost(
    base_ps=5_500_000_000,  # 5.5 ms
    per_prefill_token_ps=20_000_000,
    per_decode_seq_ps=20_000_000,
    per_context_token_ps=50_000,
)


@dataclass(frozen=True)
class Case:
    """One row: a trace, an engine and what we ask of it.

    ``trace(n)`` gives at most ``n`` requests; ``None`` where its file is not here. ``step_on`` is
    how many leading requests the stepper runs, 0 = none. ``options`` are values of
    ``SchedulerConfig``. ``goal`` is the figure that was asked for, in words.
    """

    name: str
    about: str
    trace: Callable[[int], Trace | None]
    num_requests: int
    options: Options
    cost: LinearCost = COST
    step_on: int = 0
    goal: str = ""
    peak_memory: bool = False
    baseline: Options | None = None
    """Options to put in place of its own, for a second run on the same requests and engine."""
    link: HostLink | None = None


def logs_options(name: str) -> tuple[Options, LinearCost]:
    """Engine options and linear cost that a recorded log of ``../shared`` was made with."""
    path = GOLDEN / f"{name}.options.json"
    if not path.exists():
        return {}, COST
    options = json.loads(path.read_text("utf-8"))
    cost = options.pop("cost")
    ns = {key: cost[key] * 1000 for key in cost}
    return options, LinearCost(
        base_ps=ns["base"],
        per_prefill_token_ps=ns["per_prefill_token"],
        per_decode_seq_ps=ns["per_decode_seq"],
        per_context_token_ps=ns["per_context_token"],
    )


def from_file(pattern: str) -> Callable[[int], Trace | None]:
    """Reads the one file of ``../shared/traces`` that fits ``pattern``."""

    def trace(num_requests: int) -> Trace | None:
        from kvsim.traces import read_trace  # noqa: PLC0415 - not needed by most cases

        paths = sorted((SHARED / "traces").glob(pattern))
        return head(read_trace(paths[0]), num_requests) if paths else None

    return trace


def lognormal(
    rate_per_s: float, output_mean: float = 256, max_tokens: int = 8191
) -> Callable[[int], Trace]:
    """Independent requests, prompts of mean 512."""
    return lambda num: independent(
        num, rate_per_s, seed=1, output_mean=output_mean, max_tokens=max_tokens
    )


def long_outputs(rate_per_s: float) -> Callable[[int], Trace]:
    """Independent requests with eight times as long outputs."""
    return lognormal(rate_per_s, output_mean=2048, max_tokens=32_767)


def chats(rate_per_s: float, think_mean_s: float) -> Callable[[int], Trace]:
    """Multi-turn chats with shared system prompts."""
    return lambda num: multi_turn(num, rate_per_s, seed=1, think_mean_s=think_mean_s)


def reserved_cases(base: Case) -> list[Case]:
    """Contiguous reservations on the traces of ``light``, ``over`` and ``tight``."""
    kinds = [(reservation, "buddy") for reservation in ("max", "pow2", "oracle")]
    kinds += [("oracle", "first-fit"), ("oracle", "best-fit")]
    return [
        replace(
            base,
            name=f"{load}-{reservation}-{placement}",
            about=f"{load} with {slots:,} slots, {reservation} reservations, {placement}",
            trace=lognormal(rate_per_s),
            options=base.options
            | {
                "allocator.kind": "contiguous",
                "allocator.reservation": reservation,
                "allocator.placement": placement,
                "batching.policy": "iteration-level",
                "block_size": 1,
                "num_gpu_blocks": slots,
            },
            num_requests=20_000,
            step_on=500,
            goal="12,000 req/s",
        )
        for load, rate_per_s, slots in (
            ("light", 4, 304_000),
            ("over", 40, 304_000),
            ("tight", 40, 96_000),
        )
        for reservation, placement in kinds
    ]


def radix_cases(hashed: list[Case]) -> list[Case]:
    """The same with a radix tree of pages of one token, in pools of the same tokens."""
    return [
        replace(
            case,
            name=f"{case.name}-radix",
            about=f"{case.name} with a radix tree",
            options=case.options
            | {
                "allocator.prefix": "radix",
                "block_size": 1,
                "num_gpu_blocks": 16 * int(case.options["num_gpu_blocks"]),
            },
            step_on=500,
            goal="12,000 req/s",
        )
        for case in hashed
    ]


def plain_cases() -> list[Case]:
    """Independent requests without a prefix cache; the first is ``light``."""
    law, roomy = "log-normal 512 + 256 tokens", "19,000 blocks"
    light = Case(
        "light",
        f"{law}, 4/s, {roomy}",
        lognormal(4),
        100_000,
        PLAIN,
        step_on=3000,
        goal="ratio 8, 30,000 req/s (aim 50,000)",
    )
    long = replace(
        light,
        num_requests=20_000,
        options=PLAIN | {"max_model_len": 65_536},
        step_on=0,
        goal="us/req <= 1.2 x light",
    )
    rows: list[tuple[Case, str, str, Callable[[int], Trace], Options]] = [
        (light, "over", f"{law}, 40/s, {roomy}", lognormal(40), {}),
        (light, "tight", f"{law}, 40/s, 6,000 blocks", lognormal(40), TIGHT),
        (long, "long", f"log-normal 512 + 2,048 tokens, 4/s, {roomy}", long_outputs(4), {}),
        (
            long,
            "long-even",
            "the same at 0.5/s: as many tokens a second as light",
            long_outputs(0.5),
            {},
        ),
    ]
    return [light] + [
        replace(like, name=name, about=about, trace=trace, options=like.options | options)
        for like, name, about, trace, options in rows
    ]


def chat_cases(light: Case) -> list[Case]:
    """Chats on an engine with a prefix cache."""
    rows: list[tuple[str, int, int, str, Options]] = [
        ("chat-light", 4, 60, "19,000", {}),
        ("chat-over", 40, 5, "19,000", {}),
        ("chat-tight", 40, 5, "6,000", TIGHT),
    ]
    return [
        replace(
            light,
            name=name,
            about=f"chats, 95 prompt blocks, {rate_per_s}/s, {blocks} blocks",
            trace=chats(rate_per_s, think_mean_s),
            num_requests=30_000,
            options=PLAIN | CACHED | options,
            step_on=1500,
            goal="ratio 8, 15,000 req/s (aim 20,000)",
        )
        for name, rate_per_s, think_mean_s, blocks, options in rows
    ]


def recorded_cases() -> list[Case]:
    """Public traces, under the options of the logs recorded of them."""
    rows = [
        (
            "mooncake",
            "Mooncake conversation, first 45 min, 24,000 blocks",
            "mooncake-fast25/*.jsonl.gz",
            8_940,
            "mooncake_0_200",
            200,
            "4 s (aim 2)",
        ),
        (
            "azure",
            "Azure conversation 2023, 2,000 blocks",
            "azure-llm-2023/*.csv",
            19_366,
            "azure_0_600",
            600,
            "2 s",
        ),
    ]
    found = []
    for name, about, pattern, num_requests, log, step_on, goal in rows:
        options, cost = logs_options(log)
        case = Case(name, about, from_file(pattern), num_requests, options | CACHED, cost)
        found.append(replace(case, step_on=step_on, goal=goal))
    return found


def cases() -> list[Case]:
    """All rows, in the order of the table."""
    plain = plain_cases()
    light, _, tight = plain[:3]
    hashed = chat_cases(light)
    million = replace(
        light,
        name="million",
        about="as light, 1 M requests, own process",
        num_requests=1_000_000,
        step_on=0,
        goal="peak <= 300 MB",
        peak_memory=True,
    )
    return [
        *plain,
        *hashed,
        *radix_cases(hashed),
        *reserved_cases(light),
        *policy_cases(hashed[-1], tight),
        *recorded_cases(),
        million,
    ]
