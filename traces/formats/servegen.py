"""ServeGen: clients' rates, burstiness and lengths, from which requests are drawn (seeded).

A client is ``chunk-K-trace.csv`` (no header: window start in s, rate in 1/s, CV of gaps, ``Gamma``,
``Weibull`` or nothing, shape, scale) and ``chunk-K-dataset.json`` (window start -> field -> text of
a dict literal, token count -> probability). A folder holds all clients; either file stands for one.

In each window a client's gaps are a stationary renewal process of the stated law and shape, with
mean ``1 / rate`` (the first gap is the rest of one that covers the window's start), so that the
expected count is exactly rate x window. Prompt and output lengths are drawn independently of each
other from the data set's window.
Source: alibaba/ServeGen (Xiang et al., arXiv 2505.09999).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.text import counted
from kvsim.traces.formats.servegen_clients import ClientFiles, client_files, load_client
from kvsim.traces.formats.servegen_draw import arrivals_s
from kvsim.traces.reading.batch import Batch
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.formats.servegen_clients import Client
    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_ROW: Final = re.compile(
    r"[0-9.]+,[0-9.eE+-]+,[0-9.eE+-]+,(?:Gamma|Weibull)?,[0-9.eE+-]+,[0-9.eE+-]+\s*"
)
_DATASET: Final = re.compile(
    r'\{\s*"[0-9]+"\s*:\s*\{\s*"(?:input_tokens|output_tokens|reason_ratio)"\s*:\s*"\{'
)
_MOST_REQUESTS: Final = 20_000_000
_NS_PER_S: Final = 10**9


class ServeGenReader:
    """Reader of a folder of clients, or of one client."""

    name = "servegen"
    title = "ServeGen clients: requests are drawn from their distributions (CSV and JSON)"

    def detect(self, head: Head) -> bool:
        """Tell by the first row of a client's trace, or by the beginning of its data set."""
        return bool(_ROW.fullmatch(head.first_line) or _DATASET.match(head.text))

    def read(self, source: Source, intake: Intake) -> Trace:
        """Draw requests; the first arrives at zero. Places are requests, counted from 1."""
        intake.receipt.place = "request"
        files = client_files(source.path)
        clients = [load_client(pair) for pair in files]
        expected = sum(client.expected() for client in clients)
        limit = intake.wishes.limit
        if limit is None and expected > _MOST_REQUESTS:
            raise TraceError(
                f"{source.path}: these clients send about {expected:,.0f} requests, and no more "
                f"than {_MOST_REQUESTS:,} are drawn unasked: take the first million with "
                "--limit 1000000"
            )
        intake.source = ClientFiles(source.path, files)
        for batch, columns in _windows(clients, intake.wishes.rngs[3], intake):
            intake.add(batch, columns)
        named = (
            f"requests of {counted(len(clients), 'client')} drawn from their distributions "
            "by --seed"
        )
        intake.receipt.notes.append(f"{named}; expected {expected:,.0f} in all windows")
        for client in clients:
            intake.receipt.notes += client.notes
        return intake.trace(time_unit="s", time_column="window start")


def _windows(
    clients: list[Client], rng: np.random.Generator, intake: Intake
) -> Iterator[tuple[Batch, dict[str, np.ndarray]]]:
    """Yield all requests window by window, sorted by time, until ``intake`` is full."""
    first = 0
    for start_s in sorted({start for client in clients for start in client.windows}):
        if not intake.rows_wanted():
            return
        parts = [_draw(client, start_s, rng) for client in clients if start_s in client.windows]
        times, prompts, outputs, owners = (
            np.concatenate(pieces) for pieces in zip(*parts, strict=True)
        )
        order = np.argsort(times, kind="stable")
        if intake.wishes.limit is not None:
            order = order[: intake.wishes.limit - first]
        batch = Batch(np.arange(first + 1, first + len(order) + 1), {})
        first += len(order)
        if len(order):
            columns = {
                "arrival_ns": times[order],
                "prompt_tokens": prompts[order],
                "output_tokens": outputs[order],
                "user": owners[order],
            }
            yield batch, columns


def _draw(client: Client, start_s: float, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Draw one client's requests in one window."""
    window = client.windows[start_s]
    times_s = arrivals_s(window, rng)
    times = np.round((start_s + times_s) * _NS_PER_S).astype(np.int64)
    lengths = client.lengths(start_s)
    owners = np.full(len(times), client.name, dtype=np.object_)
    return times, *(law.draw(len(times), rng) for law in lengths), owners
