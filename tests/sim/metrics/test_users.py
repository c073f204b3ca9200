"""What users met: the summary's figures by hand, and what fair does to a flood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvsim.cli.text.summary_table import summary_lines
from kvsim.sim.run.run import Run, simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.trace.trace import Trace

US = 1e-6


def simulated(user: list[str] | None, policy: str = "fcfs") -> Run:
    """Requests that come at once and leave one after the other, 20 us each: TTFT 20, 40, ... us."""
    num = 6 if user is None else len(user)
    ones = np.ones(num, dtype=np.int64)
    trace = Trace("six", ones - 1, 20 * ones, ones, user=user, session=["s"] * num)
    values: dict[str, object] = {
        "engine.max_num_seqs": 1,
        "engine.num_gpu_blocks_override": 400,
        "engine.max_model_len": 4096,
        "cost.source": "linear",
        "cost.base": "20us",
        "queue.policy": policy,
        "queue.quantum": 20,
    }
    return simulate(trace, Scenario.load("vllm-0.32-sync").with_values(values))


def users_of(run: Run) -> dict[str, Any]:
    users = run.summary["users"]
    assert isinstance(users, dict)
    return users


def test_a_trace_without_users_says_nothing_of_them() -> None:
    for user in (None, [""] * 6):
        run = simulated(user)
        assert run.summary["users"] is None
        assert "heaviest" not in "\n".join(summary_lines(run.summary, ()))


def test_figures_of_users_by_hand() -> None:
    run = simulated(["ann", "bob", "ann", "ann", "", "bob"])
    users = users_of(run)
    assert users["named"] == 2
    assert users["mean_ttft_s"]["worst"] == pytest.approx(100 * US)  # of the nameless one
    assert users["mean_ttft_s"]["median"] == pytest.approx(80 * US)  # bob: 40 and 120
    heaviest = users["heaviest"]
    assert (heaviest["user"], heaviest["tokens_percent"]) == ("ann", 50)
    assert heaviest["ttft_s"]["mean"] == pytest.approx((20 + 60 + 80) / 3 * US)
    others = users["others"]["ttft_s"]
    assert (others["num"], others["max"]) == (3, pytest.approx(120 * US))
    assert "2; mean TTFT of the median user 80 us" in " ".join(summary_lines(run.summary, ()))


def test_fair_keeps_a_flood_from_the_others() -> None:
    """One floods the queue with four requests before another sends two."""
    flood = ["ann"] * 4 + ["bob"] * 2
    fcfs, fair = (users_of(simulated(flood, policy)) for policy in ("fcfs", "fair"))
    assert fcfs["others"]["ttft_s"]["mean"] == pytest.approx(110 * US)
    assert fair["others"]["ttft_s"]["mean"] == pytest.approx((40 + 80) / 2 * US)
    assert fair["heaviest"]["ttft_s"]["mean"] == pytest.approx((20 + 60 + 100 + 120) / 4 * US)


def test_one_user_alone_has_no_others() -> None:
    users = users_of(simulated(["ann"] * 6))
    assert users["others"]["ttft_s"]["mean"] is None
    assert users["heaviest"]["tokens_percent"] == 100
