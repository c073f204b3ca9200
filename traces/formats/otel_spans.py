"""OpenTelemetry spans of both JSON forms as flat objects: attributes by name, times, parents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvsim.traces.reading import nested

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.reading.source import Source

_PREFIX: Final = "gen_ai."
_OLDER: Final = {
    "gen_ai.usage.prompt_tokens": "gen_ai.usage.input_tokens",
    "gen_ai.usage.completion_tokens": "gen_ai.usage.output_tokens",
}
_VALUES: Final = ("intValue", "stringValue", "doubleValue", "boolValue")
_ERROR: Final = frozenset({2, "2", "ERROR", "STATUS_CODE_ERROR"})


def spans_of(source: Source) -> Iterator[nested.Numbered]:
    """Yield the spans with ``gen_ai.`` attributes, numbered from 1 among all spans."""
    number = 0
    for line, value in nested.documents(source):
        if not isinstance(value, dict):
            yield line, value
            continue
        for span in _raw_spans(value):
            number += 1
            if not isinstance(span, dict):
                yield number, span
                continue
            attributes = _attributes(span.get("attributes"))
            if any(name.startswith(_PREFIX) for name in attributes):
                yield number, _flat(span, attributes)


def _raw_spans(value: dict[str, Any]) -> Iterator[Any]:
    yield from _list(value.get("spans"))
    for resource in _list(value.get("resourceSpans")):
        for scope in _list(nested.inner(resource, "scopeSpans")):
            yield from _list(nested.inner(scope, "spans"))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _attributes(value: object) -> dict[str, Any]:
    """Return attributes by their current names, whichever way they are written."""
    pairs: dict[str, Any] = {}
    if isinstance(value, dict):
        pairs = value
    for entry in _list(value):
        name, typed = nested.inner(entry, "key"), nested.inner(entry, "value")
        if isinstance(name, str):
            pairs[name] = nested.first_of(typed, *((kind,) for kind in _VALUES))
    renamed = {_OLDER[name]: pairs[name] for name in pairs if name in _OLDER}
    return {**renamed, **pairs}


def _flat(span: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    trace = nested.first_of(span, ("trace_id",), ("traceId",))
    session = attributes.get("gen_ai.conversation.id", trace)
    status = nested.inner(span, "status", "code")
    failed = isinstance(status, int | str) and status in _ERROR
    error = attributes.get("error.type") or ("an error" if failed else None)
    return {
        **attributes,
        "start_time": span.get("start_time"),
        "end_time": span.get("end_time"),
        "start ns": span.get("startTimeUnixNano"),
        "end ns": span.get("endTimeUnixNano"),
        "span_id": nested.first_of(span, ("span_id",), ("spanId",)),
        "parent_span_id": nested.first_of(span, ("parent_span_id",), ("parentSpanId",)),
        "session": session,
        "user": attributes.get("user.id", attributes.get("enduser.id")),
        "failed": None if error is None else str(error)[:60],
    }
