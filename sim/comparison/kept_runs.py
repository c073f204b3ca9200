"""Runs of a comparison, kept in a temporary folder for as long as somebody holds them.

A run that ended in a process of its own is written there, about 90 bytes a request, without what
follows from its scenario and its trace; who asks for it gets the whole of it back. So a comparison
takes no more memory for them, whatever the number of requests. The folder is taken away with the
last comparison that knows of it, or at the end of the process; what one that is killed leaves goes
with a later comparison (:mod:`kvsim.traces.common.files`).
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
    """No run of a comparison has this name; other key errors would show their sentence quoted."""

    def __str__(self) -> str:
        return str(self.args[0])


class KeptRuns(Mapping[str, Run]):
    """Runs by the names of their rows, in their order; each is read anew when it is asked for.

    What is asked for is the caller's alone and stays when the folder goes. ``cases`` are those
    given, with the file that each run goes to. Copies share the folder; a pickle has no runs
    (``None``), as the folder is this process's.
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
        """Read a run; KeyError for a name of none, ValueError where its file is not there."""
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
    """Write a run of ``trace``; where the disk has no room for it, the file is missing."""
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
