"""``kvsim calibrate``: measure the kernels of a step on this device and write a profile."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from kvsim.cli.options.completion import MODELS
from kvsim.cli.text.colour import harmless

if TYPE_CHECKING:
    import argparse

    from kvsim.calibrate.calibration import Calibration, Wish

DEFAULT_OUT: Final = "profile.json"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what is measured, and how."""
    add_device_options(parser)
    group = parser.add_argument_group("what is measured")
    group.add_argument("--tp", type=int, default=1, metavar="N", help="measure one rank of N")
    group.add_argument(
        "--block-size", type=int, default=16, metavar="N", help="tokens in a KV block (default 16)"
    )
    group.add_argument("--max-batch", type=int, default=256, metavar="N", help="default 256")
    group.add_argument(
        "--max-context",
        type=int,
        metavar="N",
        help="default 32768, or the limit of model and memory",
    )
    group.add_argument(
        "--max-step-tokens", type=int, metavar="N", help="default 8192 on CUDA, else 2048"
    )
    group = parser.add_argument_group("how")
    group.add_argument(
        "--quick",
        action="store_true",
        help="5 repeats, at most 2 s for each point (otherwise 20 repeats)",
    )
    group.add_argument(
        "--max-drift",
        type=float,
        metavar="PERCENT",
        help="largest clock drift of a repeat that counts (default 10, CPUs 25)",
    )
    group.add_argument("--seed", type=int, default=0, help="seed of the held-out points")
    group.add_argument(
        "--out", default=DEFAULT_OUT, metavar="FILE", help=f"profile (default {DEFAULT_OUT})"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="print what would be measured and how long it takes"
    )
    parser.set_defaults(handler=run)


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Declare device, model and dtype; all commands that measure have them."""
    group = parser.add_argument_group("device and model")
    group.add_argument(
        "--device", default="auto", choices=("auto", "cuda", "mps", "cpu"), help="default: auto"
    )
    model = group.add_argument(
        "--model", help="bundled name or config.json (default llama-3.1-8b, off CUDA qwen2.5-0.5b)"
    )
    model.complete = MODELS  # type: ignore[attr-defined]  # read by shtab
    group.add_argument("--dtype", help="bf16, fp16 or fp32 (default bf16, on a CPU fp32)")


def run(arguments: argparse.Namespace) -> int:
    """Measure, fit, write and print; with ``--dry-run`` only say how long that takes."""
    from kvsim.calibrate.calibration import plan_calibration, raw_path
    from kvsim.cli.calibrate.table import plan_lines, profile_lines
    from kvsim.cli.text.progress import Progress
    from kvsim.sim.cost.profile_file import dump_profile
    from kvsim.traces.common.files import check_file, write_file

    out = Path(arguments.out)
    check_file(out)
    check_file(raw_path(out))
    if out.exists() and not arguments.dry_run:
        raise ValueError(f"{out} exists: remove it, or give another --out")
    calibration = plan_calibration(wish_of(arguments))
    if arguments.dry_run:
        print(harmless("\n".join(plan_lines(calibration, calibration.rates()))))
        return 0
    if raw_path(out).exists():
        print(f"note: goes on with the points in {raw_path(out)}", file=sys.stderr)
    try:
        with Progress("s of work") as progress:
            profile, terms = calibration.run(out, progress)
    except KeyboardInterrupt:
        if raw_path(out).exists():
            print(f"note: the same command goes on from {raw_path(out)}", file=sys.stderr)
        raise
    write_file([dump_profile(profile)], out)
    raw_path(out).unlink()
    print(harmless("\n".join(profile_lines(profile, terms, calibration.shape))))
    print(harmless("\n".join(_use_lines(out, calibration, arguments.model))))
    return 0


def wish_of(arguments: argparse.Namespace) -> Wish:
    """What the options ask for."""
    from kvsim.calibrate.calibration import Wish
    from kvsim.cli.options.trace_options import check_seed

    percent = arguments.max_drift
    if percent is not None and not 0 < percent / 100 < math.inf:
        raise ValueError(f"--max-drift is {percent:g} %; it must be above 0 and finite")
    return Wish(
        device=arguments.device,
        model=arguments.model,
        dtype=arguments.dtype,
        tp=arguments.tp,
        quick=arguments.quick,
        block_size=arguments.block_size,
        max_batch=arguments.max_batch,
        max_context=arguments.max_context,
        max_step_tokens=arguments.max_step_tokens,
        max_drift=None if percent is None else percent / 100,
        seed=check_seed(arguments.seed),
    )


def _use_lines(out: Path, calibration: Calibration, model: str | None) -> list[str]:
    """How to simulate what was measured; ``model``: as it was given."""
    file, model = quote(str(out)), quote(model or calibration.model.name)
    words = f"kvsim simulate TRACE --hardware {file} --model {model}"
    if calibration.dtype == "fp32":
        words += " --set model.weight_dtype=fp32 --kv-dtype fp32"
    return ["", f"profile: {out}", f"use it:  {words}"]
