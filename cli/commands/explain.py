"""``kvsim explain RUN``: where hits were lost, and where time to first token went."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.cli.options.completion import FILES
from kvsim.cli.text.colour import print_lines

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.documents.explain import Explanation
    from kvsim.sim.documents.manifest import Manifest
    from kvsim.traces.trace.trace import Trace

_LABEL: Final = 40


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "explain",
        help="show where a run lost cache hits and time to first token",
        description="Repeat a run with the stepper. Show where it lost prefix-cache hits, and "
        "split its time to first token into parts that add up.",
    )
    folder = parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        help="folder that kvsim simulate wrote (default the latest run)",
    )
    folder.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    parser.add_argument(
        "--trace", metavar="FILE", help="trace of the run, if it is not at its recorded path"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Explain and print."""
    from kvsim.sim.explain.explain import explain
    from kvsim.sim.folders.place import latest_result
    from kvsim.sim.run.folder import read_manifest, to_json
    from kvsim.sim.run.options import RunOptions
    from kvsim.sim.scenario.loader import scenario_from_dict

    if arguments.run is None:
        folder = latest_result()
        print(f"run       {folder}", file=sys.stderr)
    else:
        folder = Path(arguments.run)
    manifest = read_manifest(folder)
    if manifest.partial:
        raise ValueError(f"{folder} was stopped by Ctrl-C: simulate it to its end to explain it")
    scenario = scenario_from_dict(manifest.scenario, str(folder))
    options = RunOptions.of(manifest.options | {"seed": manifest.seed})
    trace = _trace_of(manifest, folder, arguments.trace)
    found = explain(trace, scenario, options)
    if arguments.json:
        print(to_json(found.to_dict()), end="")
    else:
        print_lines(_lines(found))
    return 0


def _trace_of(manifest: Manifest, folder: Path, given: str | None) -> Trace:
    """Read the run's trace as the run did; another file of that name is refused."""
    from kvsim.cli.options.trace_options import read_as_before

    source = manifest.trace.source
    if source is None:
        raise ValueError(
            f"{folder} does not say how its trace was read: it was not made by kvsim simulate; "
            "call kvsim.sim.explain.explain.explain with the trace"
        )
    path = Path(given or source.path)
    if not path.exists():
        raise ValueError(f"{path}, the trace of {folder}, is not there; give --trace FILE")
    trace = read_as_before(path, source.options, manifest.seed)
    if trace.sha256 != manifest.trace.sha256:
        raise ValueError(
            f"{path} is not the trace of {folder}: its sha256 is {trace.sha256}, not "
            f"{manifest.trace.sha256}"
        )
    return trace


def _lines(found: Explanation) -> list[str]:
    from kvsim.cli.text.table import table
    from kvsim.traces.common.text import number

    total = found.hits.prompt_tokens
    rows: list[tuple[str, ...]] = [("prompt tokens of admitted requests", "tokens", "share")]
    for name, tokens in found.hits.parts.items():
        if tokens or name == "hit":
            rows.append((f"  {name}", number(tokens), _share(tokens, total)))
    rows.append(("sum", number(total), _share(total, total)))
    lines = table(rows, first_width=_LABEL)
    every, slowest = found.ttft.all, found.ttft.slowest
    columns = (every.mean_parts_s, slowest.mean_parts_s)
    wholes = [sum(parts.values()) for parts in columns]
    rows = [("mean TTFT", "all", "share", "slowest 1 %", "share")]
    for name in (name for name in every.mean_parts_s if any(parts[name] for parts in columns)):
        cells = [(parts[name], whole) for parts, whole in zip(columns, wholes, strict=True)]
        rows.append((f"  {name}", *_pairs(cells)))
    rows.append(("sum", *_pairs([(whole, whole) for whole in wholes])))
    counts = (number(every.requests), "", number(slowest.requests), "")
    rows.append(("requests", *counts))
    return [*lines, "", *table(rows)]


def _pairs(cells: list[tuple[float, float]]) -> list[str]:
    from kvsim.traces.common.text import seconds

    return [text for part, whole in cells for text in (seconds(part), _share(part, whole))]


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
