"""The columnar trace: one numpy column per fact about a request.

Every reader produces this type and every engine consumes it. Times are int64 nanoseconds since
the trace's zero (its first arrival; golden traces keep their own zero), lengths are tokens.
A column that a format does not carry is ``None``, never a made-up value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvsim.traces.trace.receipt import Receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LENGTH", "STOP", "MorePredecessors", "PrefixIds", "Receipt", "Trace", "TraceError"]

LENGTH: Final = 0
"""``ends_by`` code: the output ends at its length limit (the engine can foresee ``max_tokens``)."""
STOP: Final = 1
"""``ends_by`` code: the output ends by a stop token that the engine cannot foresee."""


class TraceError(ValueError):
    """A trace cannot be read or contradicts itself; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class PrefixIds:
    """Block ids that say which prompts share a prefix.

    Request ``i`` owns ``ids[offsets[i]:offsets[i + 1]]``. An id names ``block_size`` tokens; two
    requests share exactly as many leading blocks as their *leading runs* of ids agree: a prefix
    is the whole chain, never an id alone. ``covers_output`` tells whether the ids go on over the
    answer; where they do not, generated tokens are anonymous (hit by nobody else).

    Attributes
    ----------
    block_size
        Tokens per id. The last id of a request may stand for a partial block.
    offsets, ids
        int64, shapes ``(n + 1,)`` and ``(offsets[-1],)``.
    covers_output
        True where ids cover prompt + output, False where they cover the prompt only.
    scope
        ``"global"``, or ``"session"``: equal ids of different sessions are different blocks
        (readers make them distinct, so engines can ignore the scope).
    anonymous_answer
        bool, shape ``(n,)``, or None: True where ids count for the prompt alone although they cover
        the output (a further sample of a recorded output).
    """

    block_size: int
    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    covers_output: bool = False
    scope: str = "global"
    anonymous_answer: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class MorePredecessors:
    """Answers that a request waits for beside the one to ``after_request``.

    Request ``i`` waits for those to ``requests[offsets[i]:offsets[i + 1]]``, too, all of them
    earlier ones. In the record they ended no later than that of ``after_request``, so ``delay_ns``
    runs from the end of the last of all.

    Attributes
    ----------
    offsets, requests
        int64, shapes ``(n + 1,)`` and ``(offsets[-1],)``.
    """

    offsets: NDArray[np.int64]
    requests: NDArray[np.int64]


@dataclass(slots=True)
class Trace:
    """Requests in arrival order (ties keep file order), one entry per request in each column.

    Attributes
    ----------
    name : str
        Short name for outputs (file name without folders and suffixes).
    arrival_ns : int64, non-decreasing
    prompt_tokens, output_tokens : int64, >= 1
        Read for statistics (``keep_unusable``), ``output_tokens`` may be 0: no output, or unknown.
    max_tokens : int64 or None
        What the client allowed; ``-1`` where a row does not say.
    ends_by : uint8
        ``LENGTH`` or ``STOP`` for each request.
    priority : int64
        Lower is sooner; 0 where the format has none.
    ids : sequence of str or None
        Names of the requests; ``None`` = ``r0000``, ``r0001``, ...
    user, session : sequence of str or None
        Who asks (a person, a tenant, a client), as anonymous as the source has it, and in which
        conversation; empty where a row does not say.
    turn, after_request, delay_ns, num_samples, beam_width
        Optional int64 columns; ``after_request`` is an index, -1 none; ``delay_ns`` runs from the
        end of that output, -1 if it is not known.
    also_after : MorePredecessors or None
        For turns that follow several outputs (parallel calls, sub-agents).
    has_time : bool or None
        False where a turn has no time of its own: it arrives ``delay_ns`` after the answer to
        ``after_request`` ends, and ``arrival_ns`` is only its earliest bound. None = all have.
    timeout_ns : int64 or None
        How long after its arrival the client gives a request up; -1 never.
    prefix : PrefixIds or None
    sha256 : str
        Of the unpacked bytes read.
    receipt : Receipt or None
    """

    name: str
    arrival_ns: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    max_tokens: NDArray[np.int64] | None = None
    ends_by: NDArray[np.uint8] | None = None
    priority: NDArray[np.int64] | None = None
    ids: Sequence[str] | None = None
    user: Sequence[str] | None = None
    session: Sequence[str] | None = None
    turn: NDArray[np.int64] | None = None
    after_request: NDArray[np.int64] | None = None
    also_after: MorePredecessors | None = None
    delay_ns: NDArray[np.int64] | None = None
    num_samples: NDArray[np.int64] | None = None
    beam_width: NDArray[np.int64] | None = None
    has_time: NDArray[np.bool_] | None = None
    timeout_ns: NDArray[np.int64] | None = None
    prefix: PrefixIds | None = None
    sha256: str = ""
    receipt: Receipt | None = None

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def request_id(self, index: int) -> str:
        """Name of request ``index``."""
        return self.ids[index] if self.ids is not None else f"r{index:04d}"

    def asker(self, index: int) -> str:
        """Who asks request ``index``: its user, else its session, else the request itself."""
        user = self.user[index] if self.user is not None else ""
        session = self.session[index] if self.session is not None else ""
        return user or session or self.request_id(index)
