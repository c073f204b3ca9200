"""What the engine is told where a trace does not say what the client allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.arguments import check_text, check_whole
from kvsim.traces.trace.columns import check_trace
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.trace.trace import Trace

_COUNT: Final = re.compile(r"[0-9]{1,9}")
_FACTOR: Final = re.compile(r"factor\(([0-9]{1,3}(?:\.[0-9]{1,5})?)\)")
_NO_LIMIT: Final = 2**62
"""Tokens: more than any prompt has, and 64 bits hold it."""
_CHOICES: Final = "model, a whole number from 1, and factor(x) with x from 1 to 999.99999"


@dataclass(frozen=True, slots=True)
class MaxTokensRule:
    """``model`` (neither field set), a fixed ``count``, or ``factor`` times the true output."""

    count: int | None = None
    factor: Fraction | None = None

    @property
    def uses_oracle(self) -> bool:
        """Tell whether the rule looks at true output lengths, which no engine knows."""
        return self.factor is not None

    def words(self) -> str:
        """Say what the rule assumes."""
        if self.count is not None:
            return f"{self.count:,} for each request"
        if self.factor is not None:
            return f"{float(self.factor):g} times the true output, which no engine knows"
        return "the room that max_model_len leaves after the prompt"

    @classmethod
    def parse(cls, text: str) -> MaxTokensRule:
        """Read ``model``, ``N`` or ``factor(x)``; :class:`TraceError` names the choices."""
        check_text("--assume-max-tokens", text, "model")
        if text == "model":
            return cls()
        if _COUNT.fullmatch(text) and int(text) >= 1:
            return cls(count=int(text))
        match = _FACTOR.fullmatch(text)
        if match and Fraction(match[1]) >= 1:
            return cls(factor=Fraction(match[1]))
        raise TraceError(f"--assume-max-tokens is {text!r}; choices: {_CHOICES}")


def assume_max_tokens(
    trace: Trace, rule: MaxTokensRule | str, max_model_len: int
) -> NDArray[np.int64]:
    """Return the ``max_tokens`` of each request as the engine is told them, all >= 1.

    Rows that say it keep it. Others get, by ``rule``: ``model``, the room that ``max_model_len``
    leaves after the prompt (1 where it leaves none: the engine refuses those requests); ``N``;
    or ``factor(x)``, the true output times x, rounded up, which is oracle knowledge
    (:attr:`MaxTokensRule.uses_oracle`). The trace is not changed.
    """
    check_trace(trace)
    check_whole("max_model_len", max_model_len, 1)
    if not isinstance(rule, MaxTokensRule):
        rule = MaxTokensRule.parse(rule)
    if rule.count is not None:
        assumed = np.full(len(trace), rule.count, dtype=np.int64)
    elif rule.factor is not None:
        above, below = rule.factor.as_integer_ratio()
        assumed = -(-trace.output_tokens * above // below)
    else:
        assumed = np.maximum(min(max_model_len, _NO_LIMIT) - trace.prompt_tokens, 1)
    if trace.max_tokens is None:
        return assumed
    return np.where(trace.max_tokens < 0, assumed, trace.max_tokens)
