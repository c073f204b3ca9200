"""Options of a run, and arguments of wrong kinds: each is one sentence."""

from __future__ import annotations

import json
import math
import pickle
import re
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from kvsim.sim import Scenario, allocator_scenarios, compare, simulate
from kvsim.sim.run.options import RunKeywords, RunOptions, SharedKeywords
from kvsim.traces import bundled_path, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable

TRACE: Final = read_trace(bundled_path("chat-2k"), limit=3)
SCENARIO: Final = Scenario.load()
ODD: Final[tuple[Any, ...]] = (
    *(None, [], [1], {}, "", "nope", b"x", 0, -1, 7, 1.5, True, math.nan, math.inf),
    *(Path("/"), object(), np.int64(3), np.array([1, 2])),
)
RUN: Final = (
    *("trace", "scenario", "step", "audit", "seed", "rate_scale", "assume_max_tokens", "closed"),
    *("think_time", "num_users", "timeout", "on_progress", "listener", "observers"),
)
COMPARED: Final = (
    *("trace", "scenarios", "notes", "jobs", "step", "audit", "seed", "rate_scale", "closed"),
    *("assume_max_tokens", "think_time", "num_users", "timeout", "on_progress", "record"),
    *("blocks", "watch", "keep_runs"),
)


def run_with(**changes: Any) -> object:
    arguments: dict[str, Any] = {"trace": TRACE, "scenario": SCENARIO}
    return simulate(**(arguments | changes))


def compare_with(**changes: Any) -> object:
    arguments: dict[str, Any] = {"trace": TRACE, "scenarios": {"a": SCENARIO}, "jobs": 1}
    if "jobs" in changes:  # not in processes
        changes["rate_scale"] = 0
    return compare(**(arguments | changes))


def load(source: Any) -> object:
    return Scenario.load(source)


def change(values: Any) -> object:
    return SCENARIO.with_values(values)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        *((run_with, name) for name in RUN),
        *((compare_with, name) for name in COMPARED),
        (load, "source"),
        (change, "values"),
        (allocator_scenarios, "text"),
    ],
)
def test_a_wrong_argument_is_one_sentence(call: Callable[..., object], name: str) -> None:
    said = []
    for odd in ODD:
        try:
            call(**{name: odd})
        except ValueError as error:
            said.append(str(error))
    assert said
    assert not any("\n" in sentence or "SeedSequence" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (partial(run_with, trace=None), "trace is None; it must be a Trace, or the path of a file"),
        (partial(run_with, trace=[TRACE]), "trace is [Trace("),
        (partial(run_with, scenario=1.5), "scenario is 1.5; it must be the name of a preset, or"),
        (partial(run_with, scenario="/"), "scenario '/' is a folder; name a TOML file, or a pres"),
        (partial(run_with, seed=1.5), "seed is 1.5; it must be a whole number from 0"),
        (partial(run_with, seed=None), "seed is None; it must be a whole number from 0"),
        (partial(run_with, seed=True), "seed is True; it must be a whole number from 0"),
        (partial(run_with, audit="no"), "audit is 'no'; it must be True or False"),
        (partial(run_with, think_time=5), "think_time is 5; it must be text, such as '5s'"),
        (partial(run_with, timeout=30), "timeout is 30; it must be text, such as '30s'"),
        (partial(run_with, num_users=1.5), "num_users is 1.5; it must be a whole number, or None"),
        (partial(run_with, assume_max_tokens=512), "assume_max_tokens is 512; it must be text"),
        (partial(run_with, on_progress=3), "on_progress is 3; it must be None, or what is called"),
        (partial(run_with, listener=[]), "listener is []; it must be a ScheduleListener, or None"),
        (partial(run_with, observers=3), "observers is 3; it must be a list of Observers"),
        (partial(run_with, observers=[3]), "observers is 3; it must be a list of Observers"),
        (partial(compare_with, trace="x.csv"), "trace is 'x.csv'; it must be a Trace; kvsim.trac"),
        (
            partial(compare_with, scenarios=["a"]),
            "scenarios is ['a']; it must be scenarios by na",
        ),
        (partial(compare_with, scenarios=None), "scenarios is None; it must be scenarios by name"),
        (
            partial(compare_with, scenarios={"a": "vllm-0.32"}),
            "scenarios['a'] is 'vllm-0.32'; it must be a Scenario",
        ),
        (partial(compare_with, scenarios={1: SCENARIO}), "a name of scenarios is 1; it must be te"),
        (partial(compare_with, notes="abc"), "notes is 'abc'; it must be a list of texts"),
        (partial(compare_with, seed=1.5), "seed is 1.5; it must be a whole number from 0"),
        (partial(compare_with, keep_runs=None), "keep_runs is None; it must be True or False"),
        (partial(compare_with, blocks="x"), "blocks is 'x'; it must be the Path of a folder"),
        (
            partial(allocator_scenarios, ["paged"]),  # type: ignore[arg-type]
            "--allocators is ['paged']; it must be text, such as 'paged,prefix'",
        ),
        (partial(change, ["a"]), "values is ['a']; it must be values by key, such as {'engine."),
        (partial(change, {1: 2}), "a key of values is 1; it must be text"),
    ],
)
def test_what_the_sentences_say(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        call()


def test_places_and_names_of_runs() -> None:
    run = simulate(TRACE)
    found = compare(TRACE, {"a": SCENARIO}, jobs=1)
    for save in (run.save, found.save):
        with pytest.raises(ValueError, match="folder is 3; it must be a path"):
            save(3)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match=r"no run is called \[1\]; there are 'a'"):
        found.runs[[1]]  # type: ignore[index]


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    run = simulate(
        TRACE,
        seed=np.int64(3),  # type: ignore[arg-type]
        num_users=np.int64(2),  # type: ignore[arg-type]
        audit=np.True_,  # type: ignore[arg-type]
    )
    run.save(tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert (manifest["seed"], manifest["options"]["num_users"]) == (3, 2)


# ---- options of a run: one list of fields, checked when they are made ---------------------------


def test_keywords_are_the_fields() -> None:
    names = {item.name for item in fields(RunOptions)}
    assert set(RunKeywords.__annotations__) == names
    assert set(SharedKeywords.__annotations__) == names - {"rate_scale"}


def test_every_option_says_what_it_does() -> None:
    assert all(item.metadata["meaning"] for item in fields(RunOptions))


def test_options_are_plain_and_travel_between_processes() -> None:
    odd: dict[str, Any] = {"seed": np.int64(3), "audit": np.bool_(True), "num_users": np.int32(2)}
    options = RunOptions(**odd, rate_scale=1.5)
    assert options == RunOptions(seed=3, audit=True, num_users=2, rate_scale="3/2")
    assert type(options.seed) is type(options.num_users) is int
    assert options.audit is True
    assert options.scale == Fraction(3, 2)
    assert pickle.loads(pickle.dumps(options)) == options
    assert RunOptions(**options.to_dict(), seed=3) == options  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("num_users", 0, "--users is 0; it must be at least 1"),
        ("rate_scale", "-1", "rate scale '-1' must be a number above 0"),
        ("think_time", "soon", "--think-time is 'soon'; choices"),
        ("timeout", "0s", "--timeout is '0s'; allowed are times above 0"),
        ("assume_max_tokens", "all", "--assume-max-tokens is 'all'; choices"),
        ("seed", -1, "seed is -1; it must be a whole number from 0"),
        ("step", "yes", "step is 'yes'; it must be True or False"),
    ],
)
def test_what_no_run_can_have_is_refused(option: str, value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        RunOptions(**{option: value})
    with pytest.raises(ValueError, match=sentence):
        replace(RunOptions(), **{option: value})


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("seeds", "option 'seeds' is unknown .did you mean 'seed'[?]"),
        ("qqq", "option 'qqq' is unknown; choices: "),
    ],
)
def test_an_unknown_option_is_told_with_the_nearest(option: str, sentence: str) -> None:
    unknown: dict[str, Any] = {option: 1}
    with pytest.raises(ValueError, match=sentence):
        simulate(TRACE, **unknown)
    with pytest.raises(ValueError, match=sentence):
        compare(TRACE, {"a": SCENARIO}, **unknown)
