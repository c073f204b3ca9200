"""Presets: what is in the package, and that it is what the public traces give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.traces import TraceError, bundled_path, read_trace
from kvsim.traces.synth.presets import (
    copula_correlation,
    find_preset,
    fit,
    load_presets,
    main,
    rank_correlation,
    to_toml,
)

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "azure-conv-2023": "azure-llm-2023/AzureLLMInferenceTrace_conv.csv",
    "mooncake-conversation": "mooncake-fast25/conversation_trace.first45min.jsonl.gz",
    "sharegpt-8k": "etalon/sharegpt_8k_filtered_stats_llama2_tokenizer.csv.gz",
    "arxiv": "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz",
    "lmsys": "apex/llama_lmsys_05.lengths.jsonl.gz",
}


def test_each_preset_cites_its_source_and_fits_it() -> None:
    presets = load_presets()
    assert presets.keys() == FILES.keys()
    for preset in presets.values():
        assert len(preset.source) > 20
        assert max(preset.fit_prompt_ks, preset.fit_output_ks) <= 0.02
    with pytest.raises(
        TraceError,
        match=r"'azure' is unknown .*'azure-conv-2023'.*: azure-conv-2023, mooncake",
    ):
        find_preset("azure")


@pytest.mark.parametrize("name", FILES)
def test_the_public_trace_gives_the_same_table(shared: Path, name: str) -> None:
    preset = find_preset(name)
    trace = read_trace(shared / "traces" / FILES[name], keep_unusable=True)
    assert fit(trace, name, preset.source) == preset


def test_tables_are_printed_as_they_stand_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["chat", str(bundled_path("chat-2k"))])
    printed = capsys.readouterr().out
    path = tmp_path / "presets.toml"
    path.write_text(printed)
    (preset,) = load_presets(path).values()
    assert to_toml(preset) + "\n\n" == printed
    assert preset.rows == 2_000


def test_nothing_to_fit() -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=3)
    trace.output_tokens = np.zeros(3, dtype=np.int64)
    with pytest.raises(TraceError, match="has no outputs to fit"):
        fit(trace, "x", "y")


def test_rank_correlation() -> None:
    one = np.array([1, 2, 2, 9])
    assert rank_correlation(one, one**3) == pytest.approx(1)
    assert rank_correlation(one, -one) == pytest.approx(-1)
    assert rank_correlation(one, np.ones(4, dtype=np.int64)) == 0
    assert copula_correlation(1) == pytest.approx(1)
    assert copula_correlation(0) == 0
