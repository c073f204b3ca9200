"""kv-cache-tester's sessions: one JSON object a session, with sub-agents inside.

``t`` counts in seconds from the start of the session; a file of several sessions does not say when
they start. A ``subagent`` entry is a container whose own requests count from *its* start, and its
``t`` is when it ended: it starts at ``t - duration_ms / 1000`` (without a duration: by the time
that its own requests take). A request follows the last one of its
thread that had ended, which is at ``t + api_time``, or where that is not recorded the next one's
``think_time`` before it begins. Where calls ran side by side (parallel ones, sub-agents) it follows
all that had ended and that none of the others had waited for. Sub-agents use the parent's ids. An
id stands for 64 tokens, ``len(hash_ids) = floor(in / 64)``, and ids of different sessions are
different blocks.
Source: callanjfox/kv-cache-tester (C. Fox, WEKA).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.formats.kv_cache_sessions import Sessions
from kvsim.traces.reading import nested
from kvsim.traces.reading.batch import Ragged
from kvsim.traces.reading.cells import decimal_times_ns, id_lists, texts, whole_numbers
from kvsim.traces.reading.checks import check_num_ids, count_models
from kvsim.traces.reading.intake import IdForm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_KEYS: Final = ("t", "in", "out", "hash_ids", "end", "session", "start_ns", "id_shift")
_MORE: Final = ("turn", "after_request", "also_after", "model")
_DETECTED_BY: Final = frozenset({"id", "block_size", "hash_id_scope", "requests"})


class KvCacheTesterReader:
    """Reader of sessions, one a line or one a file."""

    name = "kv-cache-tester"
    title = "kv-cache-tester sessions with sub-agents (JSON, one session a line or a file)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of a session."""
        return head.json_keys.issuperset(_DETECTED_BY) or (
            not head.is_list and head.seen_keys.issuperset(_DETECTED_BY | {"hash_ids", "in"})
        )

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first session starts at zero."""
        sessions = Sessions(intake)
        models: Counter[str] = Counter()
        for batch in nested.batches(sessions.rows(source), intake, (*_KEYS, *_MORE)):
            nested.require(batch, _KEYS)
            count_models(models, batch, "model")
            _add(batch, intake, sessions.block_tokens)
        intake.note_models(models)
        intake.receipt.notes += [intake.starts.note(), *sessions.notes()]
        return intake.trace(
            time_unit="s",
            time_column="t",
            by_completion=True,
            id_form=IdForm(
                sessions.block_tokens, covers_output=False, scope=sessions.scope, partial=False
            ),
        )


def _add(batch: Batch, intake: Intake, block_tokens: int) -> None:
    prompt_tokens = whole_numbers(batch, "in")
    ids = Ragged(*id_lists(batch, "hash_ids"))
    rule = f"one id for each {block_tokens} full tokens"
    check_num_ids(batch, ("hash_ids", "in"), ids, prompt_tokens // block_tokens, rule)
    start_ns = _numbers(batch, "start_ns")
    arrival_ns = start_ns + decimal_times_ns(batch, "t", scale=9)
    said = np.array([cell is not None for cell in batch.columns["end"]], dtype=np.bool_)
    filled = [0 if cell is None else cell for cell in batch.columns["end"]]
    batch.columns = {**batch.columns, "end": filled}
    end_ns = start_ns + decimal_times_ns(batch, "end", scale=9)
    columns: dict[str, NDArray[Any]] = {
        "arrival_ns": arrival_ns,
        "end_ns": np.where(said, end_ns, -1),
        "prompt_tokens": prompt_tokens,
        "output_tokens": intake.output_tokens(batch, "out"),
        "session": texts(batch, "session"),
        "turn": _numbers(batch, "turn"),
        "after_request": _numbers(batch, "after_request", -1),
    }
    ids.flat += np.repeat(_numbers(batch, "id_shift"), ids.lengths)
    also_after = [cell or () for cell in batch.columns.get("also_after", [()] * len(batch))]
    intake.add(batch, columns, ids, Ragged.of_lists(also_after))


def _numbers(batch: Batch, name: str, absent: int = 0) -> NDArray[np.int64]:
    """Return a column that this reader made itself; rows that are no requests have none."""
    cells = batch.columns.get(name, [None] * len(batch))
    return np.array([absent if cell is None else cell for cell in cells], dtype=np.int64)
