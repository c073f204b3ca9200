"""Where the leaper's time goes: shares of a profile, by part of the engine.

    python benchmarks/profile_parts.py [--requests N] [--case NAME ...]

Shares are of ``cProfile``'s own-time, builtins counted with who calls them. A profile charges every
call, so small functions look dearer than they are: trust the order, not the digits.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.cases import PRESETS, cases
from kvsim.sim.run.drive import Engine, run

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "accounting": (
        "time_windows.py", "queue_clock.py", "memory_integrals.py", "step_parts.py",
        "recorder.py", "gap_bins.py", "gap_histogram.py", "gap_windows.py",
        "leap.py:weighted_blocks", "leap.py:weighted_steps",
        "leap_memory.py", "leap_state.py:_call_ps", "leap_members.py:_give_up",
    ),
    "SimPy and the driver": ("core.py", "events.py", "driver.py"),
    "admission": (
        "leap_calls.py:_admit_waiting", "leap_calls.py:_refusal", "leap_calls.py:_admit",
        "leap_calls.py:_serve", "leap_calls.py:_continue_partial", "leap_members.py:_member",
        "segment_cache.py:find", "segment_cache.py:hold", "requests.py", "prefix.py",
    ),
    "publishing of shared outputs": (
        "leap_members.py:_watch", "leap_members.py:_unwatch", "leap_members.py:_contest",
        "leap_members.py:_start_growing", "leap_members.py:_stop_growing",
        "leap_members.py:_publish_contested", "leap_members.py:_next_publication",
        "segment_cache.py:publish", "segment_cache.py:_publish_new",
        "segment_cache.py:_publish_copy", "piece_queue.py:_num_referenced",
    ),
    "giving cached blocks up, evicting": ("segment_cache.py", "piece_queue.py", "block_counts.py"),
}  # fmt: skip
"""Files, or functions of a file, of each part; all else (planning and ending leaps) is the rest."""
REST: Final = "planning and ending leaps"


def shares(name: str, preset: str, num_requests: int) -> dict[str, float]:
    """Percent of the profile in each part."""
    case = next(case for case in cases() if case.name == name)
    trace = case.trace(num_requests)
    if trace is None:
        raise SystemExit(f"the trace of {name} is not here")
    config = PRESETS[preset].with_values(case.options)
    max_tokens = trace.max_tokens
    if max_tokens is None:
        max_tokens = config.max_model_len - trace.prompt_tokens
    profile = cProfile.Profile(builtins=False)
    profile.runcall(run, trace, Engine(config, case.cost), max_tokens=max_tokens)
    part_of = {place: part for part, places in PARTS.items() for place in places}
    seconds = dict.fromkeys([*PARTS, REST], 0.0)
    for (path, _, function), (_, _, own_s, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        file = Path(path).name
        seconds[part_of.get(f"{file}:{function}") or part_of.get(file, REST)] += own_s
    return {part: 100 * own_s / sum(seconds.values()) for part, own_s in seconds.items()}


def main() -> int:
    """Print a table of shares."""
    options = argparse.ArgumentParser(description="Shares of a profile, by part of the engine.")
    options.add_argument("--requests", type=int, default=8000)
    options.add_argument("--case", action="append")
    options.add_argument("--preset", default="vllm-0.32-sync", choices=sorted(PRESETS))
    given = options.parse_args()
    for name in given.case or ["light", "chat-over"]:
        print(name)
        for part, percent in shares(name, given.preset, given.requests).items():
            print(f"  {part:<36}{percent:5.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
