"""kvsim's own trace format: its columns and its metadata, common to CSV, JSON lines and parquet.

One column for each field of :class:`Trace`, under the names below; ``docs/traces.md`` is the
user's page. Metadata is one JSON object: the first line of a CSV (after ``# kvsim-trace``), the
value of ``kvsim_trace`` in the first line of JSON lines, the schema key ``kvsim_trace`` of parquet.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kvsim.traces.common.names import unknown
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REQUIRED: Final = ("arrival_ns", "prompt_tokens", "output_tokens")
OPTIONAL: Final = (
    "id",
    "max_tokens",
    "ends_by",
    "priority",
    "user",
    "session",
    "turn",
    "after_request",
    "also_after",
    "delay_ns",
    "num_samples",
    "beam_width",
    "has_time",
    "timeout_ns",
    "prefix_ids",
)
TEXTS: Final = ("user", "session")
"""Optional columns of text, beside the name of a request."""
ENDS_BY: Final = ("length", "stop")
"""How ``ends_by`` is written, by its code."""
SCOPES: Final = ("global", "session")
METADATA_KEY: Final = "kvsim_trace"
VERSION: Final = 1
MAX_BLOCK_TOKENS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Metadata:
    """What concerns the whole trace.

    Attributes
    ----------
    name
        Of the trace; None = that of the file.
    keep_zero
        True: times count from the trace's zero already (all that kvsim writes). False: the first
        arrival is subtracted.
    id_block_tokens, ids_cover_output, id_scope
        Meaning of ``prefix_ids``; needed where that column is.
    """

    version: int = VERSION
    name: str | None = None
    keep_zero: bool = False
    id_block_tokens: int | None = None
    ids_cover_output: bool = False
    id_scope: str = "global"

    def to_json(self) -> str:
        """Write it as one JSON object."""
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None})

    @classmethod
    def from_json(cls, path: Path, value: object) -> Metadata:
        """Check and take over what :func:`json.loads` made of it."""
        if not isinstance(value, dict):
            raise TraceError(f"{path}: the metadata {value!r} is not a JSON object")
        checks: dict[str, tuple[Callable[[Any], bool], str]] = {
            "version": (lambda given: given == VERSION, str(VERSION)),
            "name": (lambda given: isinstance(given, str), "text"),
            "keep_zero": (lambda given: isinstance(given, bool), "true and false"),
            "id_block_tokens": (is_block_size, f"whole numbers from 1 to {MAX_BLOCK_TOKENS}"),
            "ids_cover_output": (lambda given: isinstance(given, bool), "true and false"),
            "id_scope": (lambda given: given in SCOPES, " and ".join(SCOPES)),
        }
        for key, given in value.items():
            if key not in checks:
                raise TraceError(f"{path}: {unknown('metadata key', key, checks)}")
            fits, allowed = checks[key]
            if not fits(given):
                raise TraceError(f"{path}: metadata {key} is {given!r}; allowed: {allowed}")
        return cls(**value)


def is_block_size(value: object) -> bool:
    """Tell whether a JSON value can be the number of tokens of a block."""
    return type(value) is int and 1 <= value <= MAX_BLOCK_TOKENS
