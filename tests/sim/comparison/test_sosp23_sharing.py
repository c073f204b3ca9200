"""The comparison of Figure 15 on few requests: what is compared with what."""

from __future__ import annotations

import pytest

from kvsim.sim.comparison.comparison import compare
from kvsim.sim.comparison.presets import sosp23_sharing
from kvsim.sim.comparison.presets.sosp23_sharing import Sosp23Sharing


@pytest.fixture
def preset(monkeypatch: pytest.MonkeyPatch) -> Sosp23Sharing:
    monkeypatch.setattr(sosp23_sharing, "NUM_REQUESTS", {"ShareGPT": 12, "Alpaca": 30})
    return Sosp23Sharing()


def test_traces_and_scenarios(preset: Sosp23Sharing) -> None:
    traces = preset.traces(seed=0)
    assert len(traces) == 12
    assert traces[5].name == "ShareGPT, 6 beams"
    assert traces[5].beam_width is not None
    assert set(traces[5].beam_width) == {6}
    assert traces[5].num_samples is None
    scenarios = preset.scenarios(lambda scenario: scenario)
    turnovers = [scenario.engine.beam_turnover for scenario in scenarios.values()]
    assert turnovers == [0.04, 0.2]


@pytest.mark.slow
def test_each_data_set_is_read_under_its_own_turnover(preset: Sosp23Sharing) -> None:
    few = {"engine.kv_memory": "1GiB"}
    scenarios = preset.scenarios(lambda scenario: scenario.with_values(few))
    result = compare(preset.traces(seed=0), scenarios)
    saved = {row.name: row.metrics.sharing_savings_percent for row in result.rows}
    found = preset.published(result.rows)
    assert found is not None
    lines = {line.name: line.kvsim for line in found.tables[0].lines}
    assert list(lines) == [
        "ShareGPT, samples",
        "ShareGPT, beams",
        "Alpaca, samples",
        "Alpaca, beams",
    ]
    assert lines["ShareGPT, beams"][2] == saved["turnover 4 %, ShareGPT, 6 beams"]
    assert lines["Alpaca, beams"][0] == saved["turnover 20 %, Alpaca, 2 beams"]
    for width in (2, 4, 6):
        by_turnover = [saved[f"turnover {q} %, Alpaca, {width} samples"] for q in (4, 20)]
        assert by_turnover[0] == by_turnover[1], "samples do not take each other's place"
