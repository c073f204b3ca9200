"""Speed of the engines in CPU seconds: one command, one table.

    python benchmarks/run.py [--quick] [--case NAME ...] [--out results.json]
                             [--from results.json ...] [--markdown FILE]

A figure is CPU time of one process (``time.process_time``) around ``kvsim.sim.run.drive.run`` with
recording on; making or reading the trace is outside. ``ratio`` is stepper / leaper on the same
first requests of the same trace in the same run, and both must leave equal finish times. ``x base``
is the CPU time of a policy over that of its baseline, same requests, same engine. Machines and
neighbours differ by tens of percent: trust ratios.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # last: nothing installed is hidden by a folder of ours

from benchmarks.cases import PRESETS, SHARED, cases  # noqa: E402
from benchmarks.page import cells, data, page, table  # noqa: E402
from benchmarks.workloads import head  # noqa: E402
from kvsim.sim.run.drive import Engine, run  # noqa: E402
from kvsim.sim.run.options import RunOptions  # noqa: E402

if TYPE_CHECKING:
    from benchmarks.cases import Case
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.run.drive import EngineRun
    from kvsim.traces import Trace


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
    over_baseline: float | None
    peak_mb: float | None


class Timed(NamedTuple):
    """One run and its CPU time."""

    cpu_s: float
    result: EngineRun


def timed(trace: Trace, case: Case, config: SchedulerConfig, *, step: bool) -> Timed:
    """One run; clients set no limit, so ``max_tokens`` is the room left."""
    max_tokens = trace.max_tokens
    if max_tokens is None:
        max_tokens = config.max_model_len - trace.prompt_tokens
    before_s = time.process_time()
    engine = Engine(config, case.cost, case.link)
    result = run(trace, engine, max_tokens=max_tokens, options=RunOptions(step=step))
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


def baseline_s(trace: Trace, case: Case, config: SchedulerConfig, *, step: bool) -> float | None:
    """CPU seconds of a case's baseline, if it has one."""
    if case.baseline is None:
        return None
    config = config.with_values(case.baseline)
    return timed(trace, case, config, step=step).cpu_s


def measure(case: Case, preset: str, *, quick: bool) -> Row | None:
    """Run one case; ``None`` where its trace is not here."""
    config = PRESETS[preset].with_values(case.options)
    trace = case.trace(case.num_requests // 10 if quick else case.num_requests)
    if trace is None:
        return None
    cpu_s, result = timed(trace, case, config, step=False)
    base_s = baseline_s(trace, case, config, step=result.engine == "stepper")
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
        over_baseline=base_s and cpu_s / base_s,
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


def read_rows(path: Path) -> list[Row]:
    """Figures of an earlier run."""
    return [Row(**row) for row in json.loads(path.read_text("utf-8"))["rows"]]


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
        "load": f"{os.getloadavg()[2]:.0f}" if hasattr(os, "getloadavg") else "unknown",
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
    options.add_argument(
        "--from", dest="measured", type=Path, action="append", default=[],
        help="take figures that --out wrote before instead of measuring them again",
    )  # fmt: skip
    options.add_argument(
        "--markdown", type=Path, help="write a page, and all rows beside it as CSV"
    )
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
    known = {(row.case, row.preset): row for path in options.measured for row in read_rows(path)}
    rows: list[Row] = []
    for case in chosen:
        for preset in presets:
            if (case.name, preset) in known:
                rows.append(known[case.name, preset])
                continue
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
        lines, about = [*map(cells, rows)], {row.case: row.about for row in rows}
        options.markdown.write_text(page(lines, where), "utf-8")
        options.markdown.with_suffix(".csv").write_text(data(lines, about), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
