"""The memory lines of a vLLM start-up log, v0 to today.

What is read, each where the log has it (values of several ranks: the first; KV: the smallest):

- v0: ``# GPU blocks: N, # CPU blocks: N`` (also ``# CUDA blocks``), from 0.6.4 on with
  ``Memory profiling takes ... can use total_gpu_memory (..GiB) x gpu_memory_utilization (..) = ..;
  model weights take ..; non_torch_memory takes ..; PyTorch activation peak memory takes ..; the
  rest of the memory reserved for KV Cache is ..``;
- v1: ``Model loading took X GiB``, ``Available KV cache memory: X GiB``, ``GPU KV cache size: N
  tokens``, at debug level ``torch peak memory increase`` and ``non-torch forward increase memory``;
- 0.21 and later also ``Estimated CUDA graph memory: X GiB``, which is set aside before KV;
- all: ``Maximum concurrency for N tokens per request: X.XXx``, ``Graph capturing finished in S
  secs, took X GiB``, the version, and engine options that are printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_LOG_BYTES: Final = 64 << 20
_NUMBER: Final = r"(-?\d[\d,]*(?:\.\d+)?)"
_LINES: Final = {
    "total_gib": rf"total_gpu_memory\s*\({_NUMBER}\s?GiB\)",
    "utilization": rf"x\s+gpu_memory_utilization\s*\({_NUMBER}\)",
    "usable_gib": rf"x\s+gpu_memory_utilization\s*\([\d.]+\)\s*=\s*{_NUMBER}\s?GiB",
    "weights_gib": rf"(?:model weights take |weights memory: ){_NUMBER}\s?GiB",
    "loaded_gib": rf"(?:Model loading|Loading model weights) took {_NUMBER} (?:GiB|GB)",
    "non_torch_gib": rf"(?:non_torch_memory takes |non-torch forward increase memory: )"
    rf"{_NUMBER}\s?GiB",
    "peak_gib": rf"(?:PyTorch activation peak memory takes |torch peak memory increase: )"
    rf"{_NUMBER}\s?GiB",
    "kv_gib": rf"(?:reserved for KV Cache is|Available KV cache memory:) {_NUMBER}\s?GiB",
    "graphs_estimate_gib": rf"Estimated CUDA graph memory: {_NUMBER} GiB",
    "graphs_gib": rf"Graph capturing finished in [\d.]+ secs?, took {_NUMBER} GiB",
    "gpu_blocks": r"#\s*(?:GPU|CUDA|cuda) blocks: (\d+)",
    "cpu_blocks": r"# CPU blocks: (\d+)",
    "kv_tokens": rf"GPU KV cache size: {_NUMBER} tokens",
    "concurrency_length": rf"Maximum concurrency for {_NUMBER} tokens per request",
    "concurrency": rf"Maximum concurrency for [\d,]+ tokens per request: {_NUMBER}x",
}
_COUNTS: Final = frozenset({"gpu_blocks", "cpu_blocks", "kv_tokens", "concurrency_length"})
_SMALLEST: Final = frozenset({"kv_gib", "gpu_blocks", "kv_tokens"})
_VERSION: Final = re.compile(
    r"(?:vLLM (?:API server )?version:?|LLM engine \()\s*v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE
)
_OPTIONS: Final = {
    "model": ("model.name", str),
    "max_model_len": ("engine.max_model_len", int),
    "max_seq_len": ("engine.max_model_len", int),
    "tensor_parallel_size": ("engine.tensor_parallel_size", int),
    "pipeline_parallel_size": ("engine.pipeline_parallel_size", int),
    "gpu_memory_utilization": ("engine.gpu_memory_utilization", float),
    "max_num_seqs": ("engine.max_num_seqs", int),
    "max_num_batched_tokens": ("engine.max_num_batched_tokens", int),
    "block_size": ("engine.block_size", int),
    "kv_cache_dtype": ("engine.kv_cache_dtype", str),
}
_OPTION: Final = re.compile(rf"\b({'|'.join(_OPTIONS)})['\"]?\s*[=:]\s*['\"]?([\w./-]+)")


@dataclass(frozen=True, slots=True)
class StartupLog:
    """Figures of a log; those that the log does not have are absent."""

    version: tuple[int, ...] | None
    values: dict[str, float]
    """Figures by name: ``kv_gib``, ``gpu_blocks``, ``concurrency``, ..."""
    options: dict[str, object] = field(default_factory=dict)
    """Scenario keys of the engine options that the log prints."""

    def get(self, name: str) -> float | None:
        """Figure called ``name``; without a profile line, the weights are those loaded."""
        if name == "weights_gib":
            return self.values.get(name, self.values.get("loaded_gib"))
        return self.values.get(name)


def read_startup_log(path: str | Path) -> StartupLog:
    """Read a log file. Raises ``ValueError`` where it holds no memory line of vLLM."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_LOG_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror or error})") from None
    log = parse_startup_log(text)
    if not log.values:
        raise ValueError(
            f"{file}: no memory line of a vLLM start-up log (such as 'GPU KV cache size: N tokens'"
            " or '# GPU blocks: N') was found"
        )
    return log


def parse_startup_log(text: str) -> StartupLog:
    """Figures and options of the text of a log."""
    values: dict[str, float] = {}
    for name, pattern in _LINES.items():
        found = [_number(item) for item in re.findall(pattern, text)]
        if found:
            value = min(found) if name in _SMALLEST else found[0]
            values[name] = int(value) if name in _COUNTS else value
    version = _VERSION.search(text)
    parts = tuple(int(part) for part in version[1].split(".")) if version else None
    return StartupLog(parts, values, _options(text))


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _options(text: str) -> dict[str, object]:
    """First value of each option; unreadable values and ``None`` are left out."""
    options: dict[str, object] = {}
    for name, value in _OPTION.findall(text):
        path, kind = _OPTIONS[name]
        try:
            if path not in options and value not in ("None", "auto"):
                options[path] = kind(value.rstrip("."))
        except ValueError:
            continue
    return options
