"""Attention over block tables, against float64 on fresh inputs; unused memory is nan."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch

from kvsim.kernels import decode_attention as module
from kvsim.kernels.decode_attention import contiguous_decode, decode_attention, implementation
from kvsim.kernels.flashinfer_decode import plan_flashinfer
from kvsim.kernels.flex_decode import flex_decode
from kvsim.kernels.mixed_attention import plan_attention
from kvsim.kernels.paged_cache import gather_kv, make_cache, slots_of, write_kv
from kvsim.kernels.prefill_attention import attention_reference

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = torch.device("cpu")
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Paged(NamedTuple):
    """A batch in a shuffled cache, and each sequence's own K and V in order."""

    query: torch.Tensor
    cache: torch.Tensor
    tables: torch.Tensor
    lengths: torch.Tensor
    keys: list[torch.Tensor]
    values: list[torch.Tensor]


def make_paged(
    rng: torch.Generator,
    lengths: list[int],
    *,
    num_heads: int = 8,
    num_kv_heads: int = 2,
    head_dim: int = 32,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
) -> Paged:
    """All that no sequence owns is nan: whatever reads it shows."""
    per_row = [-(-length // block_size) for length in lengths]
    num_blocks = sum(per_row) + 3
    cache = make_cache(num_blocks, block_size, num_kv_heads, head_dim, device=device, dtype=dtype)
    cache.fill_(float("nan"))
    order = torch.randperm(num_blocks, generator=rng)
    tables = torch.full((len(lengths), max(per_row) + 1), num_blocks - 1, dtype=torch.int32)
    keys, values, start = [], [], 0
    for row, length in enumerate(lengths):
        tables[row, : per_row[row]] = order[start : start + per_row[row]]
        start += per_row[row]
        made = torch.randn(2, length, num_kv_heads, head_dim, generator=rng)
        key, value = made.to(device=device, dtype=dtype)
        slots = slots_of(tables[row], torch.arange(length), block_size).to(device)
        write_kv(cache, key, value, slots)
        keys.append(key)
        values.append(value)
    query = torch.randn(len(lengths), num_heads, head_dim, generator=rng)
    return Paged(
        query.to(device=device, dtype=dtype),
        cache,
        tables.to(device),
        torch.tensor(lengths, dtype=torch.int32, device=device),
        keys,
        values,
    )


def expected(batch: Paged) -> torch.Tensor:
    rows = [
        attention_reference(batch.query[row : row + 1], key, value)
        for row, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True))
    ]
    return torch.cat(rows)


def assert_close(ours: torch.Tensor, theirs: torch.Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(
        ours.double().cpu(), theirs.double().cpu(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


SHAPES: list[dict[str, Any]] = [
    {"num_heads": 8, "num_kv_heads": 8},  # MHA
    {"num_heads": 8, "num_kv_heads": 2},  # GQA
    {"num_heads": 6, "num_kv_heads": 1},  # MQA, a group that is no power of two
    {"num_heads": 4, "num_kv_heads": 2, "head_dim": 80},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
@pytest.mark.parametrize("block_size", [1, 5, 16, 64])
def test_against_float64(
    rng: torch.Generator, device: torch.device, shape: dict[str, Any], block_size: int
) -> None:
    batch = make_paged(rng, [1, 130, 16, 67], block_size=block_size, device=device, **shape)
    ours = decode_attention(batch.query, batch.cache, batch.tables, batch.lengths)
    assert_close(ours, expected(batch), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision(rng: torch.Generator, device: torch.device, dtype: torch.dtype) -> None:
    batch = make_paged(rng, [40, 300], dtype=dtype, device=device)
    ours = decode_attention(batch.query, batch.cache, batch.tables, batch.lengths)
    assert_close(ours, expected(batch), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def test_chunks_beside_decodes(
    rng: torch.Generator, device: torch.device, shape: dict[str, Any], dtype: torch.dtype
) -> None:
    """Two decodes, a chunk over a past, a whole prompt."""
    counts, lengths = [1, 20, 1, 67], [130, 33, 16, 67]
    batch = make_paged(rng, lengths, dtype=dtype, device=device, **shape)
    query = torch.randn(sum(counts), *batch.query.shape[1:], generator=rng).to(batch.query)
    attend = plan_attention(query, batch.cache, batch.tables, lengths, counts)
    ours = attend(query, batch.cache)
    rows = [
        attention_reference(chunk, key, value)
        for chunk, key, value in zip(
            torch.split(query, counts), batch.keys, batch.values, strict=True
        )
    ]
    assert_close(ours, torch.cat(rows), dtype)


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for machines without GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("num_splits", [None, 1, 3, 8])
def test_the_triton_kernel_in_the_interpreter(
    rng: torch.Generator, dtype: torch.dtype, num_splits: int | None
) -> None:
    pytest.importorskip("triton")
    from kvsim.kernels.triton_decode import triton_split_k  # noqa: PLC0415 - after the variable

    for shape in SHAPES:
        batch = make_paged(rng, [1, 131, 64], block_size=16, dtype=dtype, **shape)
        ours = triton_split_k(batch.query, batch.cache, batch.tables, batch.lengths, num_splits)
        assert_close(ours, expected(batch), dtype)


class FakeFlashInfer:
    """The paged layout as FlashInfer documents it: row i has ``indptr[i]:indptr[i + 1]``."""

    def __init__(self, workspace: torch.Tensor, layout: str, *, use_tensor_cores: bool) -> None:
        assert layout == "NHD"
        assert workspace.numel() >= 1 << 27
        self.use_tensor_cores = use_tensor_cores

    def plan(self, indptr: torch.Tensor, indices: torch.Tensor, last_page: torch.Tensor,
             num_heads: int, num_kv_heads: int, head_dim: int, page_size: int,
             *, q_data_type: torch.dtype, kv_data_type: torch.dtype) -> None:  # fmt: skip
        self.pages = [indices[start:end] for start, end in pairwise(indptr.tolist())]
        self.lengths = (indptr.diff() - 1) * page_size + last_page
        self.planned = (num_heads, num_kv_heads, head_dim, page_size, q_data_type, kv_data_type)
        assert self.use_tensor_cores == (num_heads >= 4 * num_kv_heads)

    def run(self, query: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        size, kv_heads = cache.shape[2:4]
        shape = (*query.shape[1:2], kv_heads, query.shape[2], size)
        assert (*shape, query.dtype, cache.dtype) == self.planned
        rows = []
        for row, (pages, length) in enumerate(zip(self.pages, self.lengths, strict=True)):
            key, value = cache[pages.long()].transpose(0, 1).flatten(1, 2)[:, :length]
            rows.append(attention_reference(query[row : row + 1], key, value).to(query.dtype))
        return torch.cat(rows)


@pytest.mark.parametrize("block_size", [1, 5, 16])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def test_flashinfer_is_planned_once_for_all_layers(
    rng: torch.Generator, monkeypatch: pytest.MonkeyPatch, shape: dict[str, Any], block_size: int
) -> None:
    fake = ModuleType("flashinfer")
    fake.BatchDecodeWithPagedKVCacheWrapper = FakeFlashInfer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flashinfer", fake)
    batch = make_paged(rng, [1, 30, 16, 67], block_size=block_size, **shape)
    plan = plan_flashinfer(batch.query, batch.cache, batch.tables, batch.lengths)
    assert_close(plan(batch.query, batch.cache), expected(batch), torch.float32)
    other = batch.cache * 2 - 1
    rows = [
        attention_reference(batch.query[row : row + 1], 2 * key - 1, 2 * value - 1)
        for row, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True))
    ]
    assert_close(plan(batch.query, other), torch.cat(rows), torch.float32)


def test_contiguous_attention_is_the_same(rng: torch.Generator, device: torch.device) -> None:
    batch = make_paged(rng, [48, 48], device=device)
    keys, values = torch.stack(batch.keys), torch.stack(batch.values)
    assert_close(contiguous_decode(batch.query, keys, values), expected(batch), torch.float32)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def test_flex_attention_is_the_same(
    rng: torch.Generator, device: torch.device, shape: dict[str, Any]
) -> None:
    pytest.importorskip("torch.nn.attention.flex_attention", reason="this torch has none")
    batch = make_paged(rng, [48, 48, 48], device=device, **shape)
    keys, values = torch.stack(batch.keys), torch.stack(batch.values)
    assert_close(flex_decode(batch.query, keys, values), expected(batch), torch.float32)


def test_fp8_caches_are_read_in_the_querys_type(rng: torch.Generator, device: torch.device) -> None:
    check_fp8(decode_attention, make_paged(rng, [33, 70], device=device))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for machines without GPU")
def test_fp8_caches_in_the_interpreter(rng: torch.Generator) -> None:
    pytest.importorskip("triton")
    from kvsim.kernels.triton_decode import triton_split_k  # noqa: PLC0415 - after the variable

    check_fp8(triton_split_k, make_paged(rng, [33, 70]))


def check_fp8(kernel: Callable[..., torch.Tensor], batch: Paged) -> None:
    """What is read back are the stored, rounded numbers: the error against those is small."""
    stored = batch.cache.nan_to_num().to(torch.float8_e4m3fn)
    rounded = stored.to(torch.float32)
    ours = kernel(batch.query, stored, batch.tables, batch.lengths)
    rows = []
    for row, length in enumerate(batch.lengths.tolist()):
        key, value = gather_kv(rounded, batch.tables[row], length)
        rows.append(attention_reference(batch.query[row : row + 1], key, value))
    assert_close(ours, torch.cat(rows), torch.float32)
    assert not torch.allclose(ours, expected(batch).to(ours.dtype), atol=1e-5)


def test_the_implementation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    half = torch.float16
    assert implementation(CPU, half, 128) == "gather_and_sdpa"
    cuda = torch.device("cuda")
    for installed, kernel in {
        ("flashinfer", "triton"): "flashinfer_decode",
        ("triton",): "triton_split_k",
        (): "gather_and_sdpa",
    }.items():
        monkeypatch.setattr(module, "_is_installed", lambda name, found=installed: name in found)
        assert implementation(cuda, half, 128) == kernel
        other = {"flashinfer_decode": "triton_split_k"}.get(kernel, kernel)
        assert implementation(cuda, torch.float32, 128) == other, "FlashInfer has no float32"
        assert implementation(cuda, half, 80) == other


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_a_kernel_of_its_own_runs() -> None:
    kernel = implementation(torch.device("cuda"), torch.bfloat16, 128)
    assert kernel in {"triton_split_k", "flashinfer_decode"}
