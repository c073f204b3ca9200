"""Runs under chosen retention: equal to windows, published keys, peaks, costs, and refusals."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.cli.text.compare_table import comparison_lines
from kvsim.cli.text.summary_table import summary_lines
from kvsim.policies.retention import RETENTION
from kvsim.policies.scheduler_config import KVGroup
from kvsim.sim.comparison.comparison import compare
from kvsim.sim.comparison.lines import table_lines
from kvsim.sim.conformance.random_scenario import make_cost, make_trace
from kvsim.sim.cost.profile_cost import ProfileCost
from kvsim.sim.cost.retention_cost import reads_kept
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.explain.explain import explain
from kvsim.sim.leaping.leaper import leapable
from kvsim.sim.run.options import RunOptions
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up
from kvsim.traces.trace.trace import PrefixIds, Trace
from tests.engine_config import engine_config
from tests.engine_run import run
from tests.seeds import for_seeds

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.run.drive import EngineRun

SMALL: dict[str, object] = {
    "model.name": "opt-13b",
    "hardware.name": "a100-40gb",
    "engine.kv_memory": "1GiB",
}
FIFO: dict[str, object] = {"retention.kind": "fifo", "retention.budget": 64}
HEAVY: dict[str, object] = {"retention.kind": "heavy-hitters", "retention.budget": 64}
COST = LinearCost(1_000_000, 3_000, 2_000, 10, 500)


def integers(done: EngineRun) -> dict[str, Any]:
    """Every integer that a run leaves behind, but what only chosen retention notes."""
    found = dict(vars(done.recorder))
    gaps = found.pop("gaps")
    found["gaps"] = (gaps.num, gaps.max_ps, gaps.mean_ps() if gaps.num else None)
    del found["retention"]
    return {
        name: list(value) if hasattr(value, "tolist") else value for name, value in found.items()
    }


@for_seeds(40)
def test_a_budget_of_the_last_tokens_is_a_window_in_every_integer(seed: int) -> None:
    """Without a cache: windows publish to the end, dropping does not."""
    rnd = Random(seed)
    budget, kind = rnd.randint(1, 40), rnd.choice(["fifo", "sinks-recent"])
    in_flight_twice = rnd.random() < 0.5
    block_size, model_len = rnd.choice([1, 2, 4, 16]), 128
    config = engine_config(
        block_size=block_size,
        num_gpu_blocks=rnd.randint(60, 400) // block_size + 8,
        max_num_batched_tokens=rnd.choice([8, 16, 64]),
        max_num_seqs=rnd.choice([2, 3, 8]),
        max_model_len=model_len,
        enable_prefix_caching=False,
        async_scheduling=in_flight_twice,
        batching__scheduler_reserve_full_isl=rnd.random() < 0.7,
        kv_groups=(KVGroup(sliding_window=budget),),
    )
    trace, cost = make_trace(rnd, config), make_cost(rnd, overlap=in_flight_twice)
    max_tokens = np.full(len(trace), model_len)
    window = run(trace, config, cost, max_tokens=max_tokens, audit=True)
    chosen = engine_config(
        config,
        kv_groups=(KVGroup(),),
        retention__kind=kind,
        retention__budget=budget,
        retention__sinks=0,
    )
    dropped = run(trace, chosen, cost, max_tokens=max_tokens, audit=True)
    assert integers(dropped) == integers(window)


def test_attention_costs_what_a_window_of_the_budget_costs() -> None:
    setup = set_up(Scenario().with_values(SMALL | FIFO))
    full = set_up(Scenario().with_values(SMALL))
    cost, whole = setup.cost, full.cost
    assert isinstance(cost, ProfileCost)
    assert cost.step((), 4, 4000, [256])[0] == whole.step((), 4, 256)[0]
    assert cost.step((), 4, 4000, [256])[0] < whole.step((), 4, 4000)[0]
    assert cost.step([(512, 0)], 0, 0)[0] <= whole.step([(512, 0)], 0, 0)[0]
    heavy = set_up(Scenario().with_values(SMALL | HEAVY)).cost
    assert heavy.step((), 4, 4000, [256])[0] == whole.step((), 4, 256)[0]
    assert heavy.step([(512, 100)], 0, 0) == whole.step([(512, 100)], 0, 0)


def one(prompt: int, output: int, number: int = 1) -> Trace:
    return Trace(
        "alike",
        np.zeros(number, np.int64),
        np.full(number, prompt),
        np.full(number, output),
    )


def small_run(trace: Trace, **rules: Any) -> EngineRun:
    config = engine_config(
        **{
            "block_size": 4,
            "num_gpu_blocks": 65,
            "max_num_batched_tokens": 64,
            "max_model_len": 256,
            **rules,
        }
    )
    return run(trace, config, COST, max_tokens=np.full(len(trace), 256), audit=True)


def peaks(done: EngineRun) -> dict[str, int]:
    assert done.recorder.retention is not None
    return done.recorder.retention.peak_blocks


def test_a_budget_bounds_what_decoding_holds() -> None:
    done = small_run(
        one(40, 150), retention__kind="sinks-recent", retention__budget=16, retention__sinks=4
    )
    assert peaks(done) == {"prompt": 10, "recomputing": 0, "decoding": 5}  # sinks, 11 in 3 or 4
    whole = small_run(one(40, 150))
    assert whole.recorder.retention is None


def test_a_preempted_sequence_recomputes_all_before_it_drops_again() -> None:
    rules: dict[str, Any] = {
        "retention__kind": "heavy-hitters",
        "retention__budget": 16,
        "retention__recent": 8,
    }
    trace = Trace(
        "two",
        np.array([0, 50_000]),  # after some fifty decodes of the first
        np.array([40, 100]),
        np.array([150, 2]),
        priority=np.array([1, 0]),
    )
    rules |= {"queue__policy": "priority", "batching__scheduler_reserve_full_isl": False}
    done = small_run(trace, num_gpu_blocks=29, **rules)
    assert list(done.recorder.preemptions) == [1, 0]
    lost = done.recorder.lost_tokens[0]
    assert lost > 80
    assert peaks(done) == {"prompt": 25, "recomputing": -(-(lost + 1) // 4), "decoding": 11}


def test_first_drop_ends_publishing_for_those_who_come_later() -> None:
    """The second request has all that the first one read and said in its prompt."""
    ids = np.arange(30)
    prefix = PrefixIds(4, np.array([0, 30, 60]), np.concatenate([ids, ids]), covers_output=True)
    trace = Trace(
        "again",
        np.array([0, 10**9]),
        np.array([40, 119]),
        np.array([80, 1]),
        prefix=prefix,
    )
    hits = {
        kind: small_run(
            trace,
            retention__kind=kind,
            retention__budget=60,
            retention__sinks=4,
        ).recorder.hit_tokens[1]
        for kind in RETENTION.builtins
    }
    assert hits == {"model": 116, "sinks-recent": 60, "fifo": 60, "heavy-hitters": 60}


def test_scores_take_the_time_that_is_stated() -> None:
    rules = {"retention__kind": "heavy-hitters", "retention__budget": 16, "retention__recent": 8}
    free = small_run(one(40, 10), **rules)
    paid = small_run(one(40, 10), retention__score_ps=7, **rules)
    assert paid.recorder.end_ps - free.recorder.end_ps == 9 * 16 * 7  # nine decodes


def test_packing_costs_copies_and_frees_blocks() -> None:
    rules: dict[str, Any] = {
        "retention__kind": "heavy-hitters",
        "retention__budget": 16,
        "retention__recent": 4,
        "enable_prefix_caching": False,
    }
    loose = small_run(one(40, 150), **rules)
    packed = small_run(one(40, 150), retention__compaction="eager", **rules)
    moved = packed.recorder.relocations
    assert moved is not None
    assert moved.num_packed > 0
    assert packed.recorder.copy_ps == 500 * moved.packed_tokens
    assert packed.recorder.end_ps - loose.recorder.end_ps == packed.recorder.copy_ps
    assert packed.recorder.retention is not None
    assert loose.recorder.retention is not None
    assert packed.recorder.retention.holes < loose.recorder.retention.holes
    assert peaks(packed)["decoding"] < peaks(loose)["decoding"]


@pytest.mark.parametrize("kind", [kind for kind in RETENTION.builtins if kind != "model"])
def test_who_drops_is_stepped_through(kind: str) -> None:
    assert leapable(engine_config(retention__kind=kind)) == (
        False,
        f"retention {kind} drops tokens in every step",
    )


def test_a_summary_says_what_was_kept(tmp_path: Path) -> None:
    done = simulate(one(300, 200, number=2), Scenario().with_values(SMALL | HEAVY), audit=True)
    told = done.summary.retention
    assert told is not None
    assert told.per_head_mean_bytes < told.shared_mean_bytes < told.full_mean_bytes * 1.1
    assert told.holes_mean_bytes > 0
    assert told.scores is not None
    assert told.scores.peak_bytes >= 2 * 64 * 40 * 40 * 4  # tokens, layers, heads, bytes
    assert told.attention_mass_kept is None
    text = "\n".join(summary_lines(done.summary, done.setup.pool_terms))
    assert "which tokens are heavy is drawn (assumed), 40 heads choose" in " ".join(text.split())
    assert "keeping scores takes no time (assumed)" in " ".join(text.split())
    assert "attention mass" not in text

    path = tmp_path / "scores.csv"
    lines = [f"{layer},{place},{1 / (1 + place)}" for layer in (0, 1) for place in range(512)]
    path.write_text("\n".join(["layer,position,score", *lines]), "utf-8")
    scored = HEAVY | {"retention.scores": str(path), "engine.max_model_len": 512}
    done = simulate(one(300, 200), Scenario().with_values(SMALL | scored))
    told = done.summary.retention
    assert told is not None
    assert told.attention_mass_kept is not None
    assert 0.6 < told.attention_mass_kept < 1
    assert "attention mass kept" in "\n".join(summary_lines(done.summary, done.setup.pool_terms))
    assert "is drawn" not in " ".join(done.setup.notes)
    assert "retention.scores has 2 layers, the model has 40: means" in " ".join(done.setup.notes)


def test_a_comparison_has_rows_for_what_was_kept() -> None:
    """Where no run has retention, there are none."""
    trace, every = one(300, 200, number=2), Scenario().with_values(SMALL)
    result = compare(trace, {"some": every.with_values(HEAVY), "all": every}, jobs=1)
    some, everything = (row.metrics for row in result.rows)
    told = simulate(trace, every.with_values(HEAVY)).summary.retention
    assert told is not None
    assert some.retention_shared_mean_bytes == told.shared_mean_bytes
    assert some.retention_holes_percent_of_held == told.holes_percent_of_held
    assert everything.retention_shared_mean_bytes is None
    assert everything.retention_holes_percent_of_held is None
    assert some.retention_attention_mass_kept is None, "nobody gave scores"
    held = next(line for line in table_lines(result.rows) if line.label == "held")
    text = f"{told.shared_mean_bytes / 2**30:,.2f} GiB"
    assert held.cells() == [(text, False), ("-", False)]
    assert any(line.split()[:1] == ["retention"] for line in comparison_lines(result))
    alone = compare(trace, {"all": every}, jobs=1)
    assert not [line for line in table_lines(alone.rows) if line.section == "retention"]


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"retention.budget": "none"}, "'fifo' needs retention.budget, in tokens"),
    (
        {"retention.kind": "sinks-recent", "retention.budget": "none"},
        "needs retention.budget or retention.recent",
    ),
    ({"retention.kind": "sinks-recent", "retention.budget": 4}, "must be more than"),
    ({"retention.kind": "sinks-recent", "retention.recent": 5}, "leave one out"),
    ({"retention.kind": "heavy-hitters", "retention.recent": 65}, "lower it"),
    ({"allocator.kind": "contiguous"}, "it needs allocator.kind = 'paged'"),
    ({"model.name": "gemma-3-27b"}, "several KV groups"),
    ({"engine.kv_groups": [16]}, "this model has windows"),
    ({"batching.policy": "no-evict"}, "batching.policy = 'no-evict' counts memory"),
    (
        {"preemption.mode": "swap", "engine.async_scheduling": False},
        "preemption.mode = 'swap' does not copy",
    ),
    ({"eviction.capacity": "inf"}, "eviction.capacity = inf"),
    (
        {"predictor.kind": "max_tokens", "batching.reserve_predicted_output": True},
        "batching.reserve_predicted_output counts memory",
    ),
    ({"retention.scores": "absent.csv"}, "absent.csv: there is no such file"),
    (
        {"retention.compaction": "eager", "cost.source": "linear", "cost.base": "1ms"},
        "needs cost.per_copied_token",
    ),
    ({"retention.kind": "heavy-hitters", "retention.heads": 1_025}, "from 1 to 1,024, or 'none'"),
    ({"retention.kind": "heaviest"}, "expected 'model' or 'sinks-recent' or 'fifo' or"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        set_up(Scenario().with_values(SMALL | FIFO | values))


def test_scores_must_reach_as_far_as_sequences_may(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("layer,position,score\n0,0,1\n0,1,1\n", "utf-8")
    with pytest.raises(
        ValueError, match=r"covers 2 positions, but sequences may have engine.max_model"
    ):
        set_up(Scenario().with_values(SMALL | FIFO | {"retention.scores": str(path)}))


def test_hits_lost_to_dropping_are_not_explained() -> None:
    with pytest.raises(ValueError, match="'fifo' ends publishing"):
        explain(one(4, 4), Scenario().with_values(SMALL | FIFO), RunOptions())


def test_keys_that_a_kind_does_not_read_are_named() -> None:
    setup = set_up(
        Scenario().with_values(
            SMALL | FIFO | {"retention.heads": 3, "retention.compaction": "none"}
        )
    )
    assert "retention.kind = 'fifo': retention.heads is unused" in setup.notes
    model = set_up(Scenario().with_values(SMALL | {"retention.compaction": "eager"}))
    assert "retention.kind = 'model': retention.compaction is unused" in model.notes


def test_the_cost_of_chosen_retention_is_the_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = set_up(Scenario().with_values(SMALL | FIFO))
    again = reads_kept(setup.cost, setup.config)  # type: ignore[arg-type]
    assert again == setup.cost
    assert [group.window for group in again.attention] == [64]
