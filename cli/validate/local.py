"""``kvsim validate local PROFILE``: the simulator against the real decoder on this device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.options.completion import FILES
from kvsim.cli.text.colour import harmless

if TYPE_CHECKING:
    import argparse

    from kvsim.calibrate.validate.local_validation import LocalResult, StepErrors


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "local",
        help="run a short trace on the real decoder here, and in the simulator",
        description="Run a short trace (chunked prefill, paged KV, a small pool with "
        "preemptions) on a real decoder with random weights on this device, under "
        "kvsim's own scheduler. Simulate the same trace with a profile of kvsim "
        "calibrate, and print the errors.",
    )
    profile = parser.add_argument("profile", metavar="PROFILE", help="profile of this device")
    profile.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "mps", "cpu"))
    parser.add_argument("--model", help="config.json of the profile's model, if it is not bundled")
    parser.add_argument("--requests", type=int, default=12, metavar="N", help="default 12")
    parser.add_argument("--seed", type=int, default=0, help="seed of the trace (default 0)")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run both and print."""
    from kvsim.calibrate.measure.anchor import Anchor, anchor_rule, anchor_workload
    from kvsim.calibrate.measure.device import facts_of, find_device
    from kvsim.calibrate.measure.heap import keep_heap
    from kvsim.calibrate.measure.timing import timer_of
    from kvsim.calibrate.profile_use import cost_of_profile, model_of_profile
    from kvsim.calibrate.validate.decoder_shape import decoder_shape, make_decoder
    from kvsim.calibrate.validate.local_validation import LocalTrace, validate_local
    from kvsim.cli.options.trace_options import check_seed
    from kvsim.sim.cost.profile_file import load_profile

    check_seed(arguments.seed)
    if arguments.requests < 2:
        raise ValueError(f"--requests is {arguments.requests}; it must be at least 2")
    path = Path(arguments.profile)
    profile = load_profile(path)
    cost = cost_of_profile(path, arguments.model)
    device = find_device(arguments.device)
    keep_heap()
    product = facts_of(device).product
    measured_on = profile.measurement.get("setup", {}).get("device", {}).get("product")
    if measured_on != product:
        print(f"note: the profile is of {measured_on or profile.hardware}, this is {product}",
              file=sys.stderr)  # fmt: skip
    local = LocalTrace(num_requests=arguments.requests, seed=arguments.seed)
    blocks = local.config(local.trace()).num_gpu_blocks
    decoder = make_decoder(
        decoder_shape(model_of_profile(profile, path, arguments.model)),
        device=device,
        dtype=profile.weight_dtype,
        num_blocks=blocks,
        block_size=local.block_size,
    )
    work = anchor_workload(device, decoder.caches[0].dtype)
    anchor = Anchor(work, timer_of(device), anchor_rule(device))
    result = validate_local(local, decoder, cost, anchor, vocab_size=profile.model.vocab_size)
    if not result.real.num_preemptions:
        print("note: nobody was preempted on the device; with more --requests the pool is tight",
              file=sys.stderr)  # fmt: skip
    print(harmless("\n".join(result_lines(result, cost.name))))
    return 0


def result_lines(result: LocalResult, cost: str) -> list[str]:
    """Real beside simulated, with signed errors."""
    from kvsim.cli.text.table import table, wrapped
    from kvsim.traces.common.text import counted, seconds

    real, ours = result.real, result.simulated
    rows = [("", "real", "simulated", "error")]
    for name, theirs_s, ours_s in (
        ("mean step", real.step_s, ours.step_s),
        ("mean TPOT", real.tpot_s, ours.tpot_s),
        ("mean TTFT", real.ttft_s, ours.ttft_s),
        ("mean E2E", real.e2e_s, ours.e2e_s),
    ):
        rows.append(
            (name, seconds(theirs_s), seconds(ours_s), f"{100 * (ours_s / theirs_s - 1):+.1f} %")
        )
    rows.append(("steps", str(real.num_steps), str(ours.num_steps), ""))
    rows.append(("preemptions", str(real.num_preemptions), str(ours.num_preemptions), ""))
    every, steady = result.step_errors(), result.step_errors(steady_only=True)
    assert every is not None, "a run has steps"
    return [
        *wrapped("cost", cost),
        *table(rows),
        *wrapped(
            "each real step",
            f"against the profile's time of that very step: {_errors(every)}; {result.num_outside} "
            f"of {ours.num_steps} simulated steps outside the measured range",
        ),
        *wrapped(
            "steady steps",
            f"{sum(result.steady)} of {real.num_steps}: the anchor was as fast as ever beside them"
            f"; {counted(result.num_again, 'run was', 'runs were')} repeated"
            f"{f'; over these steps {_errors(steady)}' if steady else ''}",
        ),
    ]


def _errors(errors: StepErrors) -> str:
    return f"mean {100 * errors.mean:+.1f} %, median of absolute errors {100 * errors.median:.1f} %"
