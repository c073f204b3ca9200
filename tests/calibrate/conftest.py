"""Synthetic tables in the format of each source, made of known coefficients."""

from __future__ import annotations

import gzip
import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (16, 128, 1024, 2048, 4096, 8192, 16384, 32768)


def layer_us(tokens: float) -> float:
    return max(160 + 0.15 * tokens, 10 + 0.55 * tokens)


def decode_us(batch: float, context: float) -> float:
    return 18 + 0.12 * batch + 0.0013 * batch * context


def prefill_us(requests: float, chunk: float, past: float) -> float:
    area = requests * (chunk * past + chunk * chunk / 2)
    return max(13 + 0.01 * requests * (chunk + past), 10 + 0.015 * requests * chunk + 2e-5 * area)


def write(rows: list[dict[str, Any]], path: Path) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        pd.DataFrame(rows).to_csv(file, index=False)
    return path


def noisy(us: float, generator: np.random.Generator) -> float:
    return us * float(np.exp(generator.normal(0, 0.02)))


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture(scope="session")
def aiconfigurator_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An H100's folder for Llama-3.1-8B; products cost t0 + bytes/rate or operations/peak."""
    folder, generator = tmp_path_factory.mktemp("kept") / "h100_sxm", np.random.default_rng(5)
    folder.mkdir()
    common = {
        "framework": "VLLM", "version": "0.24.0", "device": "NVIDIA H100 80GB HBM3",
        "kernel_source": "synthetic",
    }  # fmt: skip
    heads = {
        "num_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "attn_dtype": "bfloat16",
        "kv_cache_dtype": "bfloat16", "window_size": 0,
    }  # fmt: skip
    decode = [
        {**common, **heads, "op_name": "generation_attention", "batch_size": b, "isl": 1,
         "step": c - 1, "latency": noisy(decode_us(b, c), generator) / 1000}
        for b, c in itertools.product(BATCHES, CONTEXTS)
    ]  # fmt: skip
    decode.append({**decode[-1], "window_size": 128, "latency": 99.0})
    decode.append({**decode[-1], "window_size": 0, "kv_cache_dtype": "fp8"})
    prefill = [
        {**common, **heads, "op_name": "context_attention", "batch_size": b, "isl": c, "step": 0,
         "latency": noisy(prefill_us(b, c, 0), generator) / 1000}
        for b, c in itertools.product((1, 2, 4), (16, 64, 128, 512, 1024, 2048, 4096, 8192))
    ]  # fmt: skip
    sizes = (512, 1024, 2048, 4096, 6144, 8192, 16384, 65536)
    gemm = [
        {**common, "op_name": "gemm", "gemm_dtype": "bfloat16", "m": m, "n": n, "k": k,
         "latency": product_us(m, n, k) / 1000}
        for m, n, k in itertools.product(TOKENS, sizes, sizes)
    ]  # fmt: skip
    reduce = [
        {**common, "op_name": "all_reduce", "allreduce_dtype": "bfloat16", "num_gpus": 2,
         "message_size": 1 << p, "backend": backend, "latency": (4 + (1 << p) / 1e5) * slow / 1000}
        for p in range(10, 24)
        for backend, slow in (("vllm_graph", 1), ("vllm_eager", 5))
    ]  # fmt: skip
    write(decode, folder / "vllm-0.24.0-generation_attention_perf.csv.gz")
    write(prefill, folder / "vllm-0.24.0-context_attention_perf.csv.gz")
    write(gemm, folder / "vllm-0.24.0-gemm_perf.csv.gz")
    write(reduce, folder / "vllm-0.24.0-custom_allreduce_perf.csv.gz")
    return folder


@pytest.fixture
def aiconfigurator(aiconfigurator_tables: Path, tmp_path: Path) -> Path:
    """The same, for tests that change the tables."""
    return Path(shutil.copytree(aiconfigurator_tables, tmp_path / "h100_sxm"))


def product_us(m: float, n: float, k: float) -> float:
    return max(3 + 2 * n * k / 2.5e6, 2 * m * n * k / 7e8)


@pytest.fixture
def llmservingsim(tmp_path: Path, generator: np.random.Generator) -> Path:
    """An RTX PRO 6000's tables of Llama-3.1-8B, mixed batches at twice the price of decodes."""
    folder = tmp_path / "llmservingsim"
    folder.mkdir()
    start = "RTXPRO6000__meta-llama__Llama-3.1-8B__bf16__tp1__"
    parts = {"qkv_proj": 0.2, "o_proj": 0.1, "gate_up_proj": 0.4, "down_proj": 0.25,
             "layernorm": 0.025, "embedding": 9.0}  # fmt: skip
    dense = [
        {"layer": name, "tokens": n, "time_us": share * layer_us(n)}
        for name, share in parts.items()
        for n in TOKENS
    ]
    attention = [
        {"prefill_chunk": 0, "kv_prefill": 0, "n_decode": b, "kv_decode": c,
         "time_us": noisy(decode_us(b, c), generator)}
        for b, c in itertools.product(BATCHES, CONTEXTS)
    ]  # fmt: skip
    attention += [
        {"prefill_chunk": c, "kv_prefill": p, "n_decode": n, "kv_decode": kv if n else 0,
         "time_us": noisy(prefill_us(1, c, p) + 0.5 * n + 0.0026 * n * kv, generator)}
        for c in (16, 64, 256, 1024, 2048)
        for p in (0, 512, 4096)
        for n in (0, 8, 64)
        for kv in ((256, 2048) if n else (0,))
    ]  # fmt: skip
    head = [
        {"layer": name, "sequences": b, "time_us": us + slope * b}
        for name, us, slope in (("lm_head", 700, 1), ("sampler", 10, 0.1))
        for b in BATCHES
    ]
    write(dense, folder / f"{start}dense.csv.gz")
    write(attention, folder / f"{start}attention.csv.gz")
    write(head, folder / f"{start}per_sequence.csv.gz")
    write([{"regime": "pure"}], folder / f"{start}skew.csv.gz")
    return folder


@pytest.fixture
def vidur(tmp_path: Path) -> Path:
    """Layers of Llama-2-70B on an H100, 1 to 8 ranks; nine operators of equal time."""
    names = ("input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj",
             "post_attention_layernorm", "mlp_up_proj", "mlp_act", "mlp_down_proj", "add",
             "emb")  # fmt: skip
    rows = [
        {
            **{f"time_stats.{name}.median": (30 + (4 * layer_us(n) - 30) / tp) / 9000
               for name in names},
            "n_head": 64, "n_kv_head": 8, "n_embd": 8192, "n_expanded_embd": 28672,
            "num_tokens": n, "num_tensor_parallel_workers": tp,
        }
        for n in TOKENS
        for tp in (1, 2, 4, 8)
    ]  # fmt: skip
    folder = tmp_path / "vidur"
    folder.mkdir()
    write(rows, folder / "compute__h100__meta-llama__Llama-2-70b-hf__mlp.csv.gz")
    return folder


@pytest.fixture
def splitwise(tmp_path: Path) -> Path:
    """Whole steps on two cards: 40 ms + 0.2 ms a request + 1 us a token of context."""
    rows = [
        {
            "model": "llama2-70b", "hardware": card, "prompt_size": p, "batch_size": b,
            "token_size": t, "tensor_parallel": 4,
            "token_time": 40 + 0.2 * b + 0.001 * b * (p + t / 2),
            "prompt_time": max(80, 10 + 0.1 * p * b + 2e-6 * b * p * p / 2),
        }
        for card in ("a100-80gb", "h100-80gb")
        for p in (128, 512, 1024, 2048, 4096)
        for b in (1, 2, 4, 8, 16, 32)
        for t in (128, 256)
    ]  # fmt: skip
    return write(rows, tmp_path / "perf_model.csv.gz")
