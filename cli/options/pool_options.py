"""Options that size the KV pool, the same for ``kvsim plan`` and ``kvsim simulate``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

_PLAIN: Final = (
    ("--max-model-len", "N", "engine.max_model_len", "longest sequence in tokens"),
    ("--tp", "N", "engine.tensor_parallel_size", "tensor-parallel ranks"),
    ("--kv-dtype", "NAME", "engine.kv_cache_dtype", "KV format: auto, bf16, fp8, int8, q8_0, ..."),
    ("--weight-dtype", "NAME", "model.weight_dtype", "weight format: auto, bf16, fp8, int4, ..."),
    ("--mla", "FORM", "model.mla", "latent, or expanded (engines without MLA)"),
    ("--block-size", "N", "engine.block_size", "tokens in a block"),
    ("--max-num-seqs", "N", "engine.max_num_seqs", "largest number of running requests"),
    ("--max-num-batched-tokens", "N", "engine.max_num_batched_tokens", "token budget of a step"),
    ("--utilization", "X", "engine.gpu_memory_utilization", "fraction of the card's memory"),
)
_GIB: Final = (
    ("--total-gib", "memory.total", "memory of a card"),
    ("--weights-gib", "memory.weights", "weights on each rank"),
    ("--peak-gib", "memory.peak", "activation peak"),
    ("--graphs-gib", "memory.graphs", "CUDA graphs"),
    ("--non-torch-gib", "memory.non_torch", "memory outside the allocator"),
)
FLAGS_OF_KEYS: Final = {
    "engine.num_gpu_blocks_override": "--num-blocks",
    "engine.kv_memory": "--kv-memory",
    **{path: option for option, _, path, _ in _PLAIN},
    **{path: option for option, path, _ in _GIB},
}
"""Option of each scenario key that has one."""


def add_pool_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options in a group of their own."""
    group = parser.add_argument_group("KV pool")
    either = group.add_mutually_exclusive_group()
    either.add_argument(
        "--num-blocks", metavar="N", help="number of KV blocks, including the null block"
    )
    either.add_argument("--kv-memory", metavar="SIZE", help="memory for KV: 12GiB, 12GB, 12 (GiB)")
    for option, metavar, _, text in _PLAIN:
        group.add_argument(option, metavar=metavar, help=text)
    for option, _, text in _GIB:
        group.add_argument(option, metavar="X", help=f"{text}, in GiB")


def pool_values(arguments: argparse.Namespace) -> dict[str, object]:
    """Scenario keys of the options that were given.

    Raises
    ------
    ValueError
        Where a number is none.
    """
    values: dict[str, object] = {}
    for path, option in FLAGS_OF_KEYS.items():
        text = getattr(arguments, _attribute(option))
        if text is not None:
            values[path] = plain_number(text)
    return values


def plain_number(text: str) -> object:
    """Whole or decimal number where the text is one, else the text itself."""
    stripped = text.strip().replace("_", "")
    for kind in (int, float):
        try:
            number = kind(stripped)
        except ValueError:
            continue
        return text if number == math.inf else number
    return text


def _attribute(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
