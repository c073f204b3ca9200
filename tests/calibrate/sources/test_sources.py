"""Readers: units, which rows are taken, and one sentence for each kind of bad input."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kvsim.calibrate.sources import SOURCES, read_measurements
from kvsim.calibrate.sources.measurements import Measurements, filled_from
from kvsim.calibrate.sources.request import ReadRequest, plain_name
from kvsim.sim.models import load_model


def read(source: str, *paths: Path, model: str = "llama-3.1-8b", **more: object) -> Measurements:
    return read_measurements(source, ReadRequest(paths, load_model(model), **more))  # type: ignore[arg-type]


def test_aiconfigurator(aiconfigurator: Path) -> None:
    found = read("aiconfigurator", aiconfigurator)
    assert (found.hardware, found.tp) == ("h100-sxm", 1)
    assert len(found.decode_attention) == 72, "neither windows nor fp8 KV"
    assert found.decode_attention["context"].min() == 16, "step counts what is cached before it"
    last = (found.decode_attention["batch"] == 256) & (found.decode_attention["context"] == 32768)
    assert found.decode_attention.us[last] == pytest.approx(18 + 30.7 + 10905, rel=0.1)
    exact = sum(3 + 2 * n * k / 2.5e6 for n, k in ((6144, 4096), (4096, 4096), (28672, 4096),
                                                  (4096, 14336)))  # fmt: skip
    assert found.layer.us[0] == pytest.approx(exact, rel=1e-6), "interpolated shapes included"
    assert found.all_reduce[2].us[0] == pytest.approx(4 + 1024 / 1e5), "graphs, not eager"
    assert np.allclose(found.shapes["estimate"], found.shapes.us, rtol=0.35)
    assert (
        found.splits["weight_bytes"][0] == 2 * load_model("llama-3.1-8b").params.layer_linear / 32
    )


def test_aiconfigurator_of_one_rank_and_of_one_file(aiconfigurator: Path) -> None:
    file = aiconfigurator / "vllm-0.24.0-gemm_perf.csv.gz"
    found = read("aiconfigurator", file, tp=2)
    assert not len(found.decode_attention)
    assert found.layer.us[0] < read("aiconfigurator", file).layer.us[0]
    with pytest.raises(ValueError, match="no rows of 16 query and 4 KV heads of 128 values"):
        read("aiconfigurator", aiconfigurator, tp=2)


def test_llmservingsim(llmservingsim: Path) -> None:
    found = read("llmservingsim", llmservingsim)
    assert found.hardware == "rtx-pro-6000"
    assert found.layer.us[0] == pytest.approx(160.15), "two norms, no embedding"
    assert (len(found.decode_attention), len(found.prefill_attention)) == (72, 15)
    assert len(found.mixed_attention) == 60
    assert found.head.us[0] == pytest.approx(711.1)


def test_vidur(vidur: Path) -> None:
    found = read("vidur", vidur, model="llama-2-70b")
    assert found.layer.us[0] == pytest.approx(4 * 160.15), "ms, embedding left out"
    assert read("vidur", vidur, model="llama-2-70b", tp=8).layer.us[0] == pytest.approx(
        30 + (4 * 160.15 - 30) / 8
    )
    assert len(found.splits) == 4


def test_splitwise(splitwise: Path) -> None:
    found = read("splitwise", splitwise, model="llama-2-70b", tp=4, hardware="a100-sxm")
    first = (found.step["batch"] == 1) & (found.step["context"] == 128 + 64)
    assert found.step.us[first] == pytest.approx(40_000 + 200 + 192)
    assert found.prompt.us.min() == 80_000


def test_a_second_source_fills_what_the_first_lacks(vidur: Path, splitwise: Path) -> None:
    layers = read("vidur", vidur, model="llama-2-70b")
    both = filled_from(layers, layers)
    assert both.layer is layers.layer
    steps = read("splitwise", splitwise, model="llama-2-70b", tp=4, hardware="h100-sxm")
    with pytest.raises(ValueError, match="tp differs: 1, 4"):
        filled_from(layers, steps)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("meta-llama__Meta-Llama-3-70B", "llama-3-70b"),
        ("meta-llama/Llama-2-70b-hf", "llama-2-70b"),
        ("Qwen__Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("llama2-70b", "llama-2-70b"),
    ],
)
def test_names_of_models(theirs: str, ours: str) -> None:
    assert plain_name(theirs) == ours


@pytest.mark.parametrize("source", SOURCES)
def test_what_no_reader_can_use(source: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(source, tmp_path / "absent", model="llama-2-70b")
    with pytest.raises(ValueError, match=r"no .csv or .csv.gz file in this folder"):
        read(source, tmp_path, model="llama-2-70b")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"no (column|aiconfigurator table|Vidur|LLMServingSim)"):
        read(source, tmp_path, model="llama-2-70b")


def test_an_unknown_format() -> None:
    with pytest.raises(ValueError, match="--format 'csv' is unknown; choices: aiconfigurator"):
        read("csv", Path())


def rewritten(file: Path, **columns: str | int | None) -> Path:
    table = pd.read_csv(file)
    for name, value in columns.items():
        if value is None:
            del table[name]
        else:
            table[name] = value
    table.to_csv(file, index=False)
    return file


def test_bad_tables_of_whole_steps(splitwise: Path, tmp_path: Path) -> None:
    more = {"model": "llama-2-70b", "tp": 4}
    with pytest.raises(ValueError, match=r"several cards \(a100-sxm, h100-sxm\); choose one with"):
        read("splitwise", splitwise, **more)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no rows for tp=2; there are those of tp 4"):
        read("splitwise", splitwise, model="llama-2-70b", tp=2, hardware="a100-sxm")
    with pytest.raises(ValueError, match=r"no rows of llama-3.1-8b on a100-sxm; models: llama2"):
        read("splitwise", splitwise, tp=4, hardware="a100-sxm")
    with pytest.raises(ValueError, match="none of l40s"):
        read("splitwise", splitwise, hardware="l40s", **more)  # type: ignore[arg-type]
    empty = tmp_path / "empty.csv"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="the file is empty"):
        read("splitwise", empty, **more)  # type: ignore[arg-type]
    header = tmp_path / "header.csv"
    pd.read_csv(splitwise).head(0).to_csv(header, index=False)
    with pytest.raises(ValueError, match="the table has no rows"):
        read("splitwise", header, **more)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"row 2: token_time='fast' is not a number"):
        read("splitwise", rewritten(splitwise, token_time="fast"), **more)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no column token_time; it has model, hardware"):
        read("splitwise", rewritten(splitwise, token_time=None), **more)  # type: ignore[arg-type]


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    file = tmp_path / "broken.csv.gz"
    file.write_bytes(b"\x1f\x8b not gzip at all")
    with pytest.raises(ValueError, match=r"broken.csv.gz: not a CSV table"):
        read("splitwise", file, model="llama-2-70b", tp=4)
    with pytest.raises(ValueError, match="no aiconfigurator table; its columns are decode: batch_"):
        read("aiconfigurator", file)


def test_bad_folders_of_kernels(aiconfigurator: Path, llmservingsim: Path, vidur: Path) -> None:
    gemm = aiconfigurator / "vllm-0.24.0-gemm_perf.csv.gz"
    with pytest.raises(ValueError, match="its layers are not the q/k/v"):
        read("aiconfigurator", gemm, model="qwen3-30b-a3b")
    rewritten(gemm, device="NVIDIA L40S")
    with pytest.raises(ValueError, match=r"several cards \(h100-sxm, l40s\)"):
        read("aiconfigurator", aiconfigurator)
    assert len(read("aiconfigurator", aiconfigurator, hardware="l40s").decode_attention) == 0
    assert len(read("aiconfigurator", aiconfigurator, hardware="h100-sxm").layer) == 0
    decode = aiconfigurator / "vllm-0.24.0-generation_attention_perf.csv.gz"
    table = pd.read_csv(decode)
    table.loc[table.index[5:], "device"] = "NVIDIA L40S"
    table.to_csv(decode, index=False)
    with pytest.raises(ValueError, match=r"generation_attention_perf.* of several cards"):
        read("aiconfigurator", decode)
    rewritten(gemm, device="NVIDIA H1000")
    with pytest.raises(ValueError, match="the card NVIDIA H1000 is not known; known: NVIDIA A100"):
        read("aiconfigurator", gemm)
    rewritten(gemm, device="NVIDIA L40S", gemm_dtype="fp8")
    with pytest.raises(ValueError, match="no row in bfloat16"):
        read("aiconfigurator", gemm)
    with pytest.raises(
        ValueError, match=r"no bf16 tables of llama-3.1-8b at tp=4; there are llama"
    ):
        read("llmservingsim", llmservingsim, tp=4)
    with pytest.raises(
        ValueError, match=r"no layers of llama-3.1-8b; there are those of llama-2-7"
    ):
        read("vidur", vidur)
    (file,) = vidur.iterdir()
    with pytest.raises(ValueError, match="no rows for tp=16"):
        read("vidur", file, model="llama-2-70b", tp=16)
    with pytest.raises(ValueError, match="n_head=32, but llama-2-70b has 64"):
        read("vidur", rewritten(file, n_head=32), model="llama-2-70b")
