"""Replaying recorded cache operations on our radix cache, up to the first difference.

The log says which request starts, is prefilled and finishes when; so the cache is compared and no
scheduler. A request takes room for its whole prompt and answer at its start, publishes its prompt
once that is computed, and all but its last token at its end: that one has no KV.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kvsim.policies.token_run import TokenRun
from kvsim.sim.cache_log import TOTALS, make_cache
from kvsim.sim.difference import Difference, differing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsim.policies.allocators.radix_cache import Lease
    from kvsim.sim.cache_log import CacheLog
    from kvsim.traces.trace import PrefixIds, Trace

_FIELDS: Final = (  # causes before what follows from them
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
    """Outcome: ``difference`` is ``None`` where all operations are identical."""

    difference: Difference | None
    num_operations: int


class CacheReplay:
    """Our cache, driven by one operation after the other; ``totals`` counts as the summary does."""

    def __init__(self, trace: Trace, prefix: PrefixIds, options: Mapping[str, Any]) -> None:
        self.cache = make_cache(options)
        self.totals = dict.fromkeys(TOTALS, 0)
        self._trace = trace
        self._prefix = prefix
        self._rows = {trace.request_id(row): row for row in range(len(trace))}
        self._leases: dict[str, Lease] = {}

    def do(self, operation: str, name: str) -> dict[str, Any]:
        """Do one operation of a request; return what the log should say about it."""
        self.totals["ops"] += 1
        if operation == "start":
            record = self._start(name)
        elif operation == "prefilled":
            prompt = self._known(name, 0)
            record = {"duplicate": self.cache.publish(self._leases[name], prompt)}
        else:
            computed = self._known(name, self._num_output(name) - 1)
            record = {"duplicate": self.cache.finish(self._leases.pop(name), computed)}
        tree = self.cache.tree
        return record | {
            "free": self.cache.num_free,
            "evictable": tree.num_evictable,
            "protected": tree.num_protected,
        }

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def _start(self, name: str) -> dict[str, Any]:
        prompt = self._known(name, 0)
        hit, needed, evicted, lease = self.cache.start(prompt, len(prompt) + self._num_output(name))
        self.totals["evicted_tokens"] += sum(evicted)
        if lease is None:
            self.totals["failed"] += 1
        else:
            self._leases[name] = lease
            self.totals["hit_tokens"] += hit
            self.totals["prompt_tokens"] += len(prompt)
        return {"hit": hit, "need": needed, "evicted": evicted, "failed": lease is None}

    def _num_output(self, name: str) -> int:
        return int(self._trace.output_tokens[self._rows[name]])

    def _known(self, name: str, num_output: int) -> TokenRun:
        """Prompt and the first tokens of the answer."""
        row, prefix = self._rows[name], self._prefix
        ids = prefix.ids[prefix.offsets[row] : prefix.offsets[row + 1]].tolist()
        num_tokens = int(self._trace.prompt_tokens[row]) + num_output
        return TokenRun.of(tuple(ids), prefix.block_size).first(num_tokens)


def replay_cache(
    log: CacheLog, trace: Trace, options: Mapping[str, Any] | None = None
) -> CacheVerdict:
    """Do the operations of a log under its options (``options`` override them) and compare.

    Raises
    ------
    ValueError
        An option is not allowed, the trace lacks a request of the log, or it has no ids that cover
        prompts and answers.
    """
    prefix = trace.prefix
    if prefix is None or not prefix.covers_output:
        msg = f"trace {trace.name} has no block ids over prompts and answers"
        raise ValueError(msg)
    replay = CacheReplay(trace, prefix, {**log.options, **(options or {})})
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
