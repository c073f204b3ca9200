"""Runs of a comparison, kept in a temporary folder as long as a comparison refers to it.

Each process writes its run there, about 90 bytes for each request, without the data that follow
from scenario and trace. An access returns the whole run. So a comparison needs no memory for its
runs, whatever their number of requests. The folder is deleted with the last comparison that refers
to it, or at the end of the process. A later comparison deletes the folder of a killed process
(:mod:`kvsim.traces.common.files`).
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from kvsim.sim.run.run import Run
from kvsim.sim.scenario.setup import set_up
from kvsim.traces.common.files import OwnFolder, drafted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.runs import Case
    from kvsim.traces.trace.trace import Trace


class UnknownRunError(KeyError):
    """Raised when no run has this name; a plain ``KeyError`` would print its sentence in quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class KeptRuns(Mapping[str, Run]):
    """Runs by the names of their rows, in order; each access reads the run again.

    The caller owns the run that it reads; the run stays when the folder is deleted. ``cases`` are
    the given cases, each with the file of its run. Copies share the folder. A pickle has no runs
    (``None``), because the folder belongs to this process.
    """

    def __init__(self, traces: Sequence[Trace], cases: Sequence[Case]) -> None:
        self._traces = traces
        folder = OwnFolder(Path(gettempdir()))
        self.take_away = weakref.finalize(self, folder.remove)
        self.cases = [
            case._replace(kept=folder.path / f"{number}.pickle")
            for number, case in enumerate(cases, 1)
        ]
        self._by_name = {case.name: case for case in self.cases}

    def __repr__(self) -> str:
        return f"<runs {', '.join(map(repr, self))}>"

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Run:
        """Read a run; raise KeyError for an unknown name, ValueError when its file is missing."""
        if not isinstance(name, str) or name not in self._by_name:
            raise UnknownRunError(
                f"no run is called {name!r}; there are {', '.join(map(repr, self))}"
            )
        case = self._by_name[name]
        return _read(case, self._traces[case.trace])

    def __copy__(self) -> KeptRuns:
        return self

    def __deepcopy__(self, _memo: object) -> KeptRuns:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def keep(run: Run, trace: Trace, file: Path) -> None:
    """Write a run of ``trace``; if the disk is full, the file is missing."""
    names = (field.name for field in fields(trace))
    own = {
        name: value
        for name in names
        if (value := getattr(run.trace, name)) is not getattr(trace, name)
    }
    document = (own, run.engine, run.options, run.loop)
    with suppress(OSError), drafted(file) as draft, draft.open("wb") as open_file:
        pickle.dump(document, open_file, pickle.HIGHEST_PROTOCOL)


def _read(case: Case, trace: Trace) -> Run:
    assert case.kept is not None, "kept cases have a file"
    try:
        with case.kept.open("rb") as file:
            own, engine, options, loop = pickle.load(file)
    except Exception as error:  # a damaged pickle may raise any
        why = "no longer" if isinstance(error, FileNotFoundError) else "no longer whole"
        raise ValueError(
            f"{case.name}: its run is {why} in {case.kept.parent}, or there was no room for "
            "it: set TMPDIR to a folder with room that nobody empties, and compare again"
        ) from None
    setup = set_up(case.scenario)
    return Run(replace(trace, **own), case.scenario, setup, engine, options, loop)
