"""Replay recorded cache operations on the radix allocator, up to the first difference.

The log contains the order in which requests start, are prefilled and finish. So only the cache is
compared, and no scheduler. A request takes room for its whole prompt and output at its start. It
publishes its prompt once that is computed. At its end it publishes all tokens but the last one,
which has no KV.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kvsim.policies.allocators.radix import RadixAllocator
from kvsim.policies.context import PolicyContext
from kvsim.sim.conformance.cache_log import TOTALS, cache_config
from kvsim.sim.conformance.difference import Difference, differing
from kvsim.sim.engine.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsim.policies.sequence import Sequence
    from kvsim.sim.conformance.cache_log import CacheLog
    from kvsim.traces.trace.trace import Trace

_FIELDS: Final = (  # causes before their effects
    "hit",
    "duplicate",
    "need",
    "evicted",
    "failed",
    "free",
    "evictable",
    "protected",
)
_IF_ANY: Final = {"failed": False}
_NUM_BEFORE: Final = 3


@dataclass(frozen=True, slots=True)
class CacheVerdict:
    """Result: ``difference`` is ``None`` if all operations are identical."""

    difference: Difference | None
    num_operations: int


class CacheReplay:
    """The engine's allocator; it does the recorded operations one by one.

    ``totals`` counts as the summary does.
    """

    def __init__(self, trace: Trace, options: Mapping[str, Any]) -> None:
        config = cache_config(options)
        self.allocator = RadixAllocator(PolicyContext(config))
        self.totals = dict.fromkeys(TOTALS, 0)
        self._requests = Requests(trace, config, trace.output_tokens)
        self._rows = {trace.request_id(row): row for row in range(len(trace))}
        self._live: dict[str, Sequence] = {}

    def do(self, operation: str, name: str) -> dict[str, Any]:
        """Do one operation of a request; return what the log should say about it."""
        self.totals["ops"] += 1
        allocator, cache = self.allocator, self.allocator.cache
        before = cache.num_deduplicated
        if operation == "start":
            record = self._start(name)
        elif operation == "prefilled":
            allocator.set_keys(self._live[name], self._live[name].prompt_tokens)
            record = {"duplicate": cache.num_deduplicated - before}
        else:
            sequence = self._live.pop(name)
            sequence.num_tokens += self._num_output(name)
            allocator.set_keys(sequence, sequence.num_tokens - 1)
            allocator.finish(sequence)
            record = {"duplicate": cache.num_deduplicated - before}
        return record | {
            "free": cache.num_free,
            "evictable": cache.tree.num_evictable,
            "protected": cache.tree.num_protected,
        }

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def _start(self, name: str) -> dict[str, Any]:
        sequence = self._requests.sequence(self._rows[name])
        hit = self.allocator.find_hit(sequence)
        num_tokens = sequence.num_tokens + self._num_output(name)
        refusal = self.allocator.refusal(sequence, hit, num_tokens - hit.tokens, idle=True)
        admission = self.allocator.start(sequence, num_tokens)
        failed = admission.lease is None
        assert failed == (refusal is not None), f"{name} is refused with room, or without"
        self.totals["evicted_tokens"] += sum(admission.evicted)
        if failed:
            self.totals["failed"] += 1
        else:
            self._live[name] = sequence
            self.totals["hit_tokens"] += hit.tokens
            self.totals["prompt_tokens"] += sequence.prompt_tokens
        return {
            "hit": hit.tokens,
            "need": admission.needed_tokens,
            "evicted": admission.evicted,
            "failed": failed,
        }

    def _num_output(self, name: str) -> int:
        return self._requests.num_outputs(self._rows[name])


def replay_cache(
    log: CacheLog, trace: Trace, options: Mapping[str, Any] | None = None
) -> CacheVerdict:
    """Do the operations of a log under its options (``options`` override them) and compare.

    Raises
    ------
    ValueError
        If an option is not allowed, a request of the log is missing in the trace, or the trace has
        no ids for prompts and outputs.
    """
    prefix = trace.prefix
    if prefix is None or not prefix.covers_output:
        msg = f"trace {trace.name} has no block ids for prompts and outputs"
        raise ValueError(msg)
    replay = CacheReplay(trace, {**log.options, **(options or {})})
    for number, theirs in enumerate(log.operations, 1):
        operation, name = theirs["op"], theirs["id"]
        if name not in replay:
            msg = f"{log.path}: request {name} is not in trace {trace.name}"
            raise ValueError(msg)
        found = differing(_FIELDS, theirs, replay.do(operation, name), _IF_ANY)
        if found:
            place = f"operation {number} ({operation} {name})"
            return CacheVerdict(Difference(place, found, _before(log, number - 1)), number)
    num_operations = len(log.operations)
    found = differing(replay.totals, log.summary, replay.totals, {})
    difference = Difference("the summary", found, _before(log, num_operations)) if found else None
    return CacheVerdict(difference, num_operations)


def _before(log: CacheLog, position: int) -> list[str]:
    first = max(position - _NUM_BEFORE, 0)
    return [short(n, record) for n, record in enumerate(log.operations[first:position], first + 1)]


def short(number: int, record: Mapping[str, Any]) -> str:
    """One line about an operation of a log."""
    line = f"{number} {record['op']} {record['id']}:"
    for field in _FIELDS:
        value = record.get(field)
        if field == "failed":
            line += " failed" if value else ""
        elif value is not None:
            text = "+".join(map(str, value)) or "-" if isinstance(value, list) else str(value)
            line += f" {field} {text}"
    return line
