"""JSON documents that kvsim prints or writes: every key, with type, unit and meaning.

One file a document declares it as frozen dataclasses, which results are made of; ``docs/json.md``
and the JSON Schemas are made from the same fields.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    from kvsim.traces.common.part import Document

_CLASSES: Final = {
    "comparison": "comparison.ComparisonDocument",
    "explain": "explain.Explanation",
    "levers": "levers.Levers",
    "list": "choices.Choices",
    "manifest": "manifest.Manifest",
    "plan": "plan.Plan",
    "replay": "replay.ReplayDocument",
    "reuse": "reuse.ReuseDocument",
    "summary": "summary.Summary",
    "trace-info": "trace_info.TraceInfo",
}
"""Documents by the name that ``kvsim schema`` takes; each is imported when it is asked for."""


def document_names() -> list[str]:
    """Names of all kinds of documents."""
    return [*_CLASSES]


def document_of(name: str) -> type[Document]:
    """One kind of document.

    Raises
    ------
    ValueError
        On a name that is none; it tells those that are.
    """
    if name not in _CLASSES:
        raise ValueError(unknown("document", name, _CLASSES))
    module, _, document = _CLASSES[name].partition(".")
    found: type[Document] = getattr(import_module(f"{__name__}.{module}"), document)
    return found
