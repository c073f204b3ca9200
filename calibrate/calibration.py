"""One calibration: what is measured, how long that takes, and the profile it becomes."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kvsim.calibrate.measure.anchor import anchor_rule
from kvsim.calibrate.measure.bench import KernelBench
from kvsim.calibrate.measure.buffers import ROTATE_BEYOND, Buffers
from kvsim.calibrate.measure.device import (
    DTYPES,
    clock_state,
    default_dtype,
    facts_of,
    find_device,
)
from kvsim.calibrate.measure.estimate import probe, seconds_in_all, seconds_of
from kvsim.calibrate.measure.flex_probe import flex_missing
from kvsim.calibrate.measure.heap import keep_heap
from kvsim.calibrate.measure.points import Limits, copies, flex, grid, hold_outs, layouts
from kvsim.calibrate.measure.raw_points import RawPoints, point_of
from kvsim.calibrate.measure.session import Rules, run_session
from kvsim.calibrate.measure.timing import TimingRule, timer_of
from kvsim.calibrate.measured_profile import measured_profile
from kvsim.calibrate.validate.decoder_shape import decoder_shape
from kvsim.sim.hardware import bundled_hardware, load_hardware
from kvsim.sim.models import load_model
from kvsim.traces.common.arguments import MOST, check_flags, check_number, check_text, check_whole
from kvsim.traces.common.quantities import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import torch

    from kvsim.calibrate.fit.measured_terms import Terms
    from kvsim.calibrate.measure.bench import Bench
    from kvsim.calibrate.measure.device import DeviceFacts
    from kvsim.calibrate.measure.estimate import Rates
    from kvsim.calibrate.measure.points import Point
    from kvsim.calibrate.measure.timing import Timer
    from kvsim.kernels.shape import DecoderShape
    from kvsim.sim.cost.profile import Profile
    from kvsim.sim.models import ModelSpec

QUICK: Final = TimingRule(repeats=5, budget_s=2.0, min_repeats=3, wait_s=1.0)
"""Three at least: the median of two has half of a slow stretch inside one of them."""
FULL: Final = TimingRule(repeats=20, budget_s=0.0, min_repeats=20, wait_s=4.0)
DEFAULT_MODELS: Final = {"cuda": "llama-3.1-8b", "mps": "qwen2.5-0.5b", "cpu": "qwen2.5-0.5b"}
DEFAULT_STEP_TOKENS: Final = {"cuda": 8192, "mps": 2048, "cpu": 2048}
ELEMENT_BYTES: Final = {"bf16": 2, "fp16": 2, "fp32": 4}
_MOST_CONTEXT: Final = 32768
_MOST_TOTAL_CONTEXT: Final = 262144
_KV_SHARE: Final = 8
"""A call's KV takes at most this part of the memory: buffers rotate beside it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for; ``None`` = as fits the device."""

    device: str = "auto"
    model: str | None = None
    dtype: str | None = None
    tp: int = 1
    quick: bool = False
    block_size: int = 16
    max_batch: int = 256
    max_context: int | None = None
    max_step_tokens: int | None = None
    max_drift: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """All that is settled before the first measurement; made by :func:`plan_calibration`."""

    model: ModelSpec
    shape: DecoderShape
    """One rank of the model."""
    device: torch.device
    facts: DeviceFacts
    dtype: str
    points: tuple[Point, ...]
    setup: dict[str, Any]
    bench: Bench
    timer: Timer
    rules: Rules

    @property
    def hardware(self) -> str:
        """Bundled card that calls itself like the device, else a name made of the device's."""
        for name in bundled_hardware():
            if load_hardware(name).product == self.facts.product:
                return name
        return re.sub(r"[^a-z0-9]+", "-", self.facts.product.lower()).strip("-")

    def rates(self) -> Rates:
        """Probe the device; a few seconds."""
        return probe(self.bench, self.timer, self.shape, ELEMENT_BYTES[self.dtype])

    def seconds(self, rates: Rates) -> float:
        """Expected seconds of the whole session."""
        return seconds_in_all(self.points, rates, *self._loads())

    def seconds_of(self, point: Point, rates: Rates) -> float:
        """Expected seconds of one point."""
        return seconds_of(point, rates, *self._loads())

    def run(self, out: Path, on_seconds: Callable[[int, int], object]) -> tuple[Profile, Terms]:
        """Measure what the raw points beside ``out`` lack, fit, and return the profile.

        ``on_seconds``: called with expected seconds of work done and in all, first with 0; what an
        earlier session did is in neither. Raises ``ValueError``
        where the clock drifts or the raw points are of another calibration.
        """
        raw = RawPoints.opened(raw_path(out), self.setup)
        rates = self.rates()
        missing = [point for point in self.points if point not in raw]
        all_s = max(int(sum(self.seconds_of(point, rates) for point in missing)), 1)
        done_s = 0.0
        on_seconds(0, all_s)

        def on_point(point: Point) -> None:
            nonlocal done_s
            done_s += self.seconds_of(point, rates)
            on_seconds(int(done_s), all_s)

        run_session(
            self.points,
            self.bench,
            self.timer,
            self.rules,
            raw,
            on_point=on_point,
            clock_state=lambda: clock_state(self.device),
        )
        return self.fitted(raw.to_json(), time.strftime("%Y-%m-%d"))

    def fitted(self, raw: dict[str, Any], date: str) -> tuple[Profile, Terms]:
        """Profile of a whole session's raw points."""
        hardware = self.hardware
        card = {} if hardware in bundled_hardware() else self._card(hardware, raw, date)
        name = f"{hardware}-{self.model.name}"
        return measured_profile(raw, self.model, name=name, hardware=hardware, card=card, date=date)

    def _loads(self) -> tuple[TimingRule, DecoderShape, int, int]:
        rotate_bytes = ROTATE_BEYOND * self.facts.cache_bytes
        return self.rules.timing, self.shape, ELEMENT_BYTES[self.dtype], rotate_bytes

    def _card(self, name: str, raw: dict[str, Any], date: str) -> dict[str, Any]:
        """Row of a card file with the rates that were reached here."""
        block_bytes = self.shape.kv_bytes_per_token(ELEMENT_BYTES[self.dtype])
        block_bytes *= self.setup["block_size"]
        bandwidth = flops = 0.0
        for row in raw["points"]:
            point, timing = point_of(row)
            if point.block == "copy" and point.loads["contiguous"]:
                moved = 2 * point.loads["blocks"] * block_bytes
                bandwidth = max(bandwidth, moved / timing.median_us * 1e6)
            if point.block == "layer":
                work = 2 * point.loads["tokens"] * self.shape.layer_weights
                flops = max(flops, work / timing.median_us * 1e6)
        return {
            "name": name,
            "product": self.facts.product,
            "kind": self.facts.kind,
            "total_mib": self.facts.total_bytes >> 20,
            "bandwidth_gb_per_s": round(bandwidth / 1e9, 2),
            "peak_tflop_per_s": {self.dtype: round(flops / 1e12, 4)},
            "source": f"kvsim calibrate {date}: fastest copy and fastest layer that were measured",
        }


def plan_calibration(wish: Wish) -> Calibration:
    """Settle device, model, dtype, points and rules.

    Raises ``ValueError`` for a device that is not there, a model that is not measured, a dtype
    that is none.
    """
    _check(wish)
    device = find_device(wish.device)
    keep_heap()
    facts = facts_of(device)
    model = load_model(DEFAULT_MODELS[device.type] if wish.model is None else wish.model)
    shape = decoder_shape(model, wish.tp)
    dtype = default_dtype(device) if wish.dtype is None else wish.dtype
    if dtype not in DTYPES:
        raise ValueError(f"--dtype {dtype!r} is not measured; choices: {', '.join(DTYPES)}")
    if wish.block_size < 1:
        raise ValueError(f"--block-size is {wish.block_size}; it must be at least 1")
    token_bytes = shape.kv_bytes_per_token(ELEMENT_BYTES[dtype])
    fits = facts.total_bytes // _KV_SHARE // token_bytes
    context, tokens = wish.max_context, wish.max_step_tokens
    limits = Limits(
        max_batch=wish.max_batch,
        max_context=min(_MOST_CONTEXT if context is None else context, model.max_position, fits),
        max_step_tokens=DEFAULT_STEP_TOKENS[device.type] if tokens is None else tokens,
        max_total_context=min(_MOST_TOTAL_CONTEXT, fits),
    )
    timer = timer_of(device)
    buffers = Buffers(
        shape,
        device=device,
        dtype=dtype,
        block_size=wish.block_size,
        cache_bytes=facts.cache_bytes,
        seed=wish.seed,
    )
    bench = KernelBench(buffers)
    kernels = _kernels(device, buffers.dtype, shape.head_dim)
    points = [*grid(limits), *layouts(limits)]
    if device.type == "cuda":
        missing = flex_missing(flex(limits), bench, timer, device)
        kernels["flex"] = f"not measured: {missing}" if missing else "torch flex_attention"
        points += [] if missing else [flex(limits)]
    points += [*copies(host_link=device.type == "cuda"), *hold_outs(limits, wish.seed)]
    timing = QUICK if wish.quick else FULL
    setup = {
        "model": model.name,
        "tp": wish.tp,
        "dtype": dtype,
        "block_size": wish.block_size,
        "repeats": timing.repeats,
        "rotated": f"beyond {ROTATE_BEYOND} x the last-level cache",
        "timer": timer.name,
        "points": len(points),
        "limits": asdict(limits),
        "seed": wish.seed,
        "kernels": kernels,
        "device": facts.to_json(),
    }
    return Calibration(
        model=model,
        shape=shape,
        device=device,
        facts=facts,
        dtype=dtype,
        points=tuple(points),
        setup=setup,
        bench=bench,
        timer=timer,
        rules=Rules(timing, anchor_rule(device, wish.max_drift)),
    )


def _check(wish: Wish) -> None:
    """Refuse wishes of wrong kinds; whether they can be met is told later."""
    check_text("--device", wish.device, "cpu")
    for name, example in (("model", "llama-3.1-8b"), ("dtype", "bf16")):
        if getattr(wish, name) is not None:
            check_text(f"--{name}", getattr(wish, name), example)
    check_flags(quick=wish.quick)
    check_whole("--tp", wish.tp)
    check_whole("--seed", wish.seed, 0, most=LARGEST)
    check_whole("--block-size", wish.block_size, most=MOST)
    check_whole("--max-batch", wish.max_batch, most=MOST)
    for name in ("max_context", "max_step_tokens"):
        if getattr(wish, name) is not None:
            check_whole(f"--{name.replace('_', '-')}", getattr(wish, name), most=MOST)
    if wish.max_drift is not None:
        check_number("--max-drift", wish.max_drift)


def raw_path(out: Path) -> Path:
    """File of raw points beside a profile that is not finished."""
    return out.with_name(out.name + ".points")


def _kernels(device: torch.device, dtype: torch.dtype, head_dim: int) -> dict[str, str]:
    import torch

    from kvsim.kernels.decode_attention import implementation

    return {
        "gemm": f"torch {torch.__version__} linear",
        "prefill": f"torch {torch.__version__} scaled_dot_product_attention, gathered past",
        "decode": f"kvsim {implementation(device, dtype, head_dim)}",
    }
