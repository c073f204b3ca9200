"""Layers with a fixed state: gated delta nets, Mamba 1 and Mamba 2.

Parameters and state bytes as transformers builds the layers and vLLM 0.32.0 stores their state
(``model_executor/layers/mamba/mamba_utils.py``): a convolution tail of ``kernel - 1`` columns in
the model's dtype, and the recurrent state in the dtype the config names for it (else the model's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsim.sim.models.dtypes import weight_format

if TYPE_CHECKING:
    from kvsim.sim.models.reader import ConfigReader


class Recurrent(NamedTuple):
    """One recurrent layer: parameters of its products, its norms, the rest; bytes a request."""

    weights: int
    norms: int
    other: int
    state_bytes: int
    num_heads: int


def _value_bytes(config: ConfigReader, dtype: str) -> tuple[int, int]:
    """Bytes of a value of the convolution tail and of the recurrent state."""
    state = config.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype", default=dtype)
    bits = weight_format(dtype).payload_bits, weight_format(state).payload_bits
    return bits[0] // 8, bits[1] // 8


def gated_delta_net(config: ConfigReader, hidden: int, dtype: str) -> Recurrent:
    """Linear attention of Qwen3-Next and Qwen3.5."""
    key_heads = config.size("linear_num_key_heads")
    value_heads = config.size("linear_num_value_heads")
    key_dim, value_dim = config.size("linear_key_head_dim"), config.size("linear_value_head_dim")
    kernel = config.size("linear_conv_kernel_dim")
    keys, values = key_heads * key_dim, value_heads * value_dim
    channels = 2 * keys + values
    tail, state = _value_bytes(config, dtype)
    return Recurrent(
        weights=hidden * (2 * keys + 2 * values + 2 * value_heads) + values * hidden,
        norms=value_dim,
        other=channels * kernel + 2 * value_heads,
        state_bytes=channels * (kernel - 1) * tail + value_heads * key_dim * value_dim * state,
        num_heads=value_heads,
    )


def mamba2(config: ConfigReader, hidden: int, dtype: str) -> Recurrent:
    """Mamba 2 mixer of Nemotron-H, Bamba and Granite 4."""
    heads = config.size("mamba_num_heads", "mamba_n_heads")
    head_dim = config.size("mamba_head_dim", "mamba_d_head")
    groups = config.size("n_groups", "mamba_n_groups")
    state_size = config.size("ssm_state_size", "mamba_d_state")
    kernel = config.size("conv_kernel", "mamba_d_conv")
    inner = heads * head_dim
    channels = inner + 2 * groups * state_size
    projected = inner + channels + heads
    proj_bias = config.flag("mamba_proj_bias", "use_bias")
    conv_bias = config.flag("use_conv_bias", "mamba_conv_bias", default=True)
    tail, state = _value_bytes(config, dtype)
    return Recurrent(
        weights=hidden * projected + inner * hidden + (projected + hidden) * proj_bias,
        norms=inner,
        other=channels * (kernel + conv_bias) + 3 * heads,
        state_bytes=channels * (kernel - 1) * tail + inner * state_size * state,
        num_heads=heads,
    )


def mamba1(config: ConfigReader, hidden: int, dtype: str) -> Recurrent:
    """Mamba 1 mixer of Jamba."""
    inner = config.size("mamba_expand") * hidden
    state_size = config.size("mamba_d_state")
    kernel = config.size("mamba_d_conv")
    rank = config.size("mamba_dt_rank", default=-(-hidden // 16))
    conv_bias = config.flag("mamba_conv_bias", default=True)
    proj_bias = config.flag("mamba_proj_bias")
    tail, state = _value_bytes(config, dtype)
    weights = hidden * 2 * inner + inner * (rank + 2 * state_size) + rank * inner + inner * hidden
    return Recurrent(
        weights=weights + (2 * inner + hidden) * proj_bias + inner,
        norms=rank + 2 * state_size,
        other=inner * (kernel + conv_bias) + inner * state_size + inner,
        state_bytes=inner * (kernel - 1) * tail + inner * state_size * state,
        num_heads=1,
    )
