"""Speed of the engines in CPU seconds: one command, one table.

    python benchmarks/run.py [--quick] [--case NAME ...] [--out results.json] [--markdown FILE]

A figure is CPU time of one process (``time.process_time``) around ``kvsim.sim.driver.run`` with
recording on; making or reading the trace is outside. ``ratio`` is stepper / leaper on the same
first requests of the same trace in the same run, and both must leave equal finish times. Machines
and neighbours differ by tens of percent: trust ratios.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # last: nothing installed is hidden by a folder of ours

from benchmarks.page import page, table  # noqa: E402
from benchmarks.workloads import head, independent, multi_turn  # noqa: E402
from kvsim.policies.scheduler_config import SchedulerConfig  # noqa: E402
from kvsim.sim.cost import LinearCost  # noqa: E402
from kvsim.sim.driver import run  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.driver import EngineRun
    from kvsim.traces import Trace

SHARED: Final = ROOT.parent / "shared"
GOLDEN: Final = SHARED / "golden" / "vllm-real"

PRESETS: Final = {
    "vllm-0.32-sync": SchedulerConfig(),
    "vllm-0.32": SchedulerConfig(async_scheduling=True),
}
"""Rules of the presets of these names; pool, budget and lengths are each case's own."""

Options = dict[str, int | bool | str]
"""``SchedulerConfig`` fields by name."""

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
    how many leading requests the stepper runs, 0 = none. ``options`` are ``SchedulerConfig``
    fields. ``goal`` is the figure that was asked for, in words.
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


@dataclass(frozen=True)
class Row:
    """What was measured for one case and preset."""

    case: str
    preset: str
    about: str
    goal: str
    requests: int
    engine: str
    cpu_s: float
    us_per_request: float
    requests_per_s: float
    steps_per_request: float
    hit_rate: float
    preemptions_per_request: float
    step_us_per_request: float | None
    ratio: float | None
    peak_mb: float | None


class Timed(NamedTuple):
    """One run and its CPU time."""

    cpu_s: float
    result: EngineRun


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
                "allocator": "contiguous",
                "reservation": reservation,
                "placement": placement,
                "batching": "iteration-level",
                "block_size": 1,
                "num_gpu_blocks": slots,
            },
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
                "prefix": "radix",
                "block_size": 1,
                "num_gpu_blocks": 16 * int(case.options["num_gpu_blocks"]),
            },
            step_on=500,
            goal="12,000 req/s",
        )
        for case in hashed
    ]


def cases() -> list[Case]:
    """All rows, in the order of the table."""
    plain: Options = {
        "num_gpu_blocks": 19_000,
        "max_model_len": 16_384,
        "enable_prefix_caching": False,
    }
    cached = plain | {"enable_prefix_caching": True}
    tight: Options = {"num_gpu_blocks": 6_000}
    azure_options, azure_cost = logs_options("azure_0_600")
    moon_options, moon_cost = logs_options("mooncake_0_200")
    law = "log-normal 512 + 256 tokens"
    chat = "chats, 95 prompt blocks"
    base = Case(
        "light",
        f"{law}, 4/s, 19,000 blocks",
        lognormal(4),
        100_000,
        plain,
        step_on=3000,
        goal="ratio 8, 30,000 req/s (aim 50,000)",
    )
    with_cache = replace(base, num_requests=30_000, options=cached, step_on=1500)
    hashed = [
        replace(
            with_cache,
            name="chat-light",
            about=f"{chat}, 4/s, 19,000 blocks",
            trace=chats(4, 60),
            goal="ratio 8, 15,000 req/s (aim 20,000)",
        ),
        replace(
            with_cache,
            name="chat-over",
            about=f"{chat}, 40/s, 19,000 blocks",
            trace=chats(40, 5),
            goal="ratio 8, 15,000 req/s (aim 20,000)",
        ),
        replace(
            with_cache,
            name="chat-tight",
            about=f"{chat}, 40/s, 6,000 blocks",
            trace=chats(40, 5),
            options=cached | tight,
            goal="ratio 8, 15,000 req/s (aim 20,000)",
        ),
    ]
    return [
        base,
        replace(base, name="over", about=f"{law}, 40/s, 19,000 blocks", trace=lognormal(40)),
        replace(
            base,
            name="tight",
            about=f"{law}, 40/s, 6,000 blocks",
            trace=lognormal(40),
            options=plain | tight,
        ),
        replace(
            base,
            name="long",
            about="log-normal 512 + 2,048 tokens, 4/s, 19,000 blocks",
            trace=lognormal(4, output_mean=2048, max_tokens=32_767),
            num_requests=20_000,
            options=plain | {"max_model_len": 65_536},
            step_on=0,
            goal="us/req <= 1.2 x light",
        ),
        replace(
            base,
            name="long-even",
            about="the same at 0.5/s: as many tokens a second as light",
            trace=lognormal(0.5, output_mean=2048, max_tokens=32_767),
            num_requests=20_000,
            options=plain | {"max_model_len": 65_536},
            step_on=0,
            goal="us/req <= 1.2 x light",
        ),
        *hashed,
        *radix_cases(hashed),
        *reserved_cases(base),
        Case(
            "mooncake",
            "Mooncake conversation, first 45 min, 24,000 blocks",
            from_file("mooncake-fast25/*.jsonl.gz"),
            8_940,
            moon_options | {"enable_prefix_caching": True},
            moon_cost,
            step_on=200,
            goal="4 s (aim 2)",
        ),
        Case(
            "azure",
            "Azure conversation 2023, 2,000 blocks",
            from_file("azure-llm-2023/*.csv"),
            19_366,
            azure_options | {"enable_prefix_caching": True},
            azure_cost,
            step_on=600,
            goal="2 s",
        ),
        replace(
            base,
            name="million",
            about="as light, 1 M requests, own process",
            num_requests=1_000_000,
            step_on=0,
            goal="peak <= 300 MB",
            peak_memory=True,
        ),
    ]


def timed(trace: Trace, case: Case, config: SchedulerConfig, *, step: bool) -> Timed:
    """One run; clients told the engine no limit, so ``max_tokens`` is the room left."""
    max_tokens = trace.max_tokens
    if max_tokens is None:
        max_tokens = config.max_model_len - trace.prompt_tokens
    before_s = time.process_time()
    result = run(trace, config, case.cost, max_tokens=max_tokens, step=step)
    return Timed(time.process_time() - before_s, result)


def against_stepper(
    trace: Trace, case: Case, config: SchedulerConfig, num: int
) -> tuple[float, float]:
    """CPU seconds of (stepper, leaper), best of three, on the first ``num`` requests."""
    part = head(trace, num)
    leaps = [timed(part, case, config, step=False) for _ in range(3)]
    steps = timed(part, case, config, step=True)
    if steps.result.recorder.finish_ps != leaps[0].result.recorder.finish_ps:
        raise AssertionError(f"{case.name}: the engines disagree")
    return steps.cpu_s, min(leap.cpu_s for leap in leaps)


def measure(case: Case, preset: str, *, quick: bool) -> Row | None:
    """Run one case; ``None`` where its trace is not here."""
    config = replace(PRESETS[preset], **case.options)  # type: ignore[arg-type]
    trace = case.trace(case.num_requests // 10 if quick else case.num_requests)
    if trace is None:
        return None
    cpu_s, result = timed(trace, case, config, step=False)
    step_us = ratio = None
    if case.step_on:
        num = max(case.step_on // 5, 100) if quick else case.step_on
        num = min(num, len(trace))
        step_s, leap_s = against_stepper(trace, case, config, num)
        step_us = step_s / num * 1e6
        ratio = step_s / leap_s if result.engine != "stepper" else None
    seen = result.recorder
    return Row(
        case=case.name,
        preset=preset,
        about=case.about,
        goal=case.goal,
        requests=len(trace),
        engine=result.engine,
        cpu_s=cpu_s,
        us_per_request=cpu_s / len(trace) * 1e6,
        requests_per_s=len(trace) / cpu_s,
        steps_per_request=seen.num_steps / len(trace),
        hit_rate=float(np.sum(seen.hit_tokens) / np.sum(trace.prompt_tokens)),
        preemptions_per_request=seen.num_preemptions / len(trace),
        step_us_per_request=step_us,
        ratio=ratio,
        peak_mb=peak_mb() if case.peak_memory else None,
    )


def peak_mb() -> float | None:
    """Largest resident size of this process so far in MB; ``None`` where unknown.

    ``VmHWM`` starts anew with a program; ``ru_maxrss`` also holds what the parent had.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def in_own_process(case: Case, preset: str, *, quick: bool) -> Row | None:
    """Measure in a new process, whose peak memory is then its own."""
    command = [sys.executable, __file__, "--child", "--case", case.name, "--preset", preset]
    command += ["--quick"] * quick
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    return Row(**found) if found else None


def machine() -> dict[str, str]:
    """Where and when this was measured."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def parser() -> argparse.ArgumentParser:
    """Options of this script."""
    options = argparse.ArgumentParser(description="Speed of the engines in CPU seconds.")
    options.add_argument("--quick", action="store_true", help="a tenth of the requests")
    options.add_argument("--case", action="append", choices=[case.name for case in cases()])
    options.add_argument("--preset", action="append", choices=sorted(PRESETS))
    options.add_argument("--out", type=Path, help="write the figures as JSON")
    options.add_argument("--markdown", type=Path, help="write them as a page")
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return options


def main() -> int:
    """Measure what is asked for, print the table."""
    options = parser().parse_args()
    presets = options.preset or ["vllm-0.32-sync"]
    chosen = [case for case in cases() if not options.case or case.name in options.case]
    if options.child:
        row = measure(chosen[0], presets[0], quick=options.quick)
        print(json.dumps(row and asdict(row)))
        return 0
    rows: list[Row] = []
    for case in chosen:
        for preset in presets:
            print(f"{case.name} ({preset}): {case.about}", file=sys.stderr, flush=True)
            measured = in_own_process if case.peak_memory else measure
            row = measured(case, preset, quick=options.quick)
            if row is None:
                print(f"  left out: its trace is not in {SHARED}", file=sys.stderr)
            else:
                rows.append(row)
    print(table(rows))
    where = machine()
    if options.out:
        document = {"machine": where, "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if options.markdown:
        options.markdown.write_text(page(rows, where), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
