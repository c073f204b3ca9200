"""ServeGen: distributions of clients into requests."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from kvsim.traces import TraceError, read_trace
from kvsim.traces.formats.servegen_clients import parse_table
from kvsim.traces.formats.servegen_draw import Window, arrivals_s

CLIENTS = Path(__file__).parents[2] / "data" / "servegen"


def test_a_folder_is_all_its_clients() -> None:
    trace = read_trace(CLIENTS)
    assert trace.user is not None
    assert set(trace.user) == {"client-0", "client-1"}
    assert set(trace.prompt_tokens.tolist()) == {16, 32}
    assert trace.session is None, "a client is no conversation: its requests follow nobody"
    owners = np.array(trace.user)
    assert (trace.output_tokens == np.where(owners == "client-0", 8, 9)).all()
    expected = 600 * (0.5 + 0.25 + 1 + 0.25)
    assert len(trace) == pytest.approx(expected, rel=0.15)
    assert trace.receipt is not None
    assert "requests of 2 clients" in " ".join(trace.receipt.notes)
    assert trace.receipt.epoch is not None
    assert trace.receipt.epoch.startswith("the first is at 60")


def test_either_file_stands_for_its_client() -> None:
    one = read_trace(CLIENTS / "chunk-0-trace.csv", seed=1)
    other = read_trace(CLIENTS / "chunk-0-dataset.json", seed=1)
    assert one.arrival_ns.tolist() == other.arrival_ns.tolist()
    assert one.sha256 == other.sha256
    assert len(one) < len(read_trace(CLIENTS))


def test_the_seed_says_all_and_a_limit_takes_the_first() -> None:
    whole, again = read_trace(CLIENTS, seed=7), read_trace(CLIENTS, seed=7)
    assert whole.arrival_ns.tolist() == again.arrival_ns.tolist()
    first = read_trace(CLIENTS, seed=7, limit=10)
    assert first.arrival_ns.tolist() == whole.arrival_ns.tolist()[:10]
    assert whole.arrival_ns.tolist() != read_trace(CLIENTS, seed=8).arrival_ns.tolist()


@pytest.mark.parametrize(
    ("law", "shape"), [("Gamma", 0.3), ("Gamma", 4.0), ("Weibull", 0.4), ("Weibull", 2.0), ("", 0)]
)
def test_windows_have_the_rate_they_say_from_their_first_second_on(law: str, shape: float) -> None:
    window = Window(20.0, 2.0, law, shape)
    rng = np.random.default_rng(0)
    runs = [arrivals_s(window, rng) for _ in range(6000)]
    counts = np.array([len(run) for run in runs])
    assert counts.mean() == pytest.approx(40, abs=4 * counts.std() / len(counts) ** 0.5)
    early = np.array([(run < 1).sum() for run in runs])
    assert early.mean() == pytest.approx(2, abs=4 * early.std() / len(early) ** 0.5)


def test_tables_are_read_without_evaluation() -> None:
    table = parse_table("{ 9: 0.25, 17: 7.5e-1, }", "x")
    assert table is not None
    assert table.tokens.tolist() == [9, 17]
    assert table.up_to.tolist() == [0.25, 1.0]
    assert parse_table("{}", "x") is None
    zero = parse_table("{0: 0.5, 4: 0.5}", "x")
    assert zero is not None
    assert zero.tokens.tolist() == [4]


@pytest.mark.parametrize(
    "text",
    ["{1: 0.5}", "{1: 0.5, 2: 1.5}", "{-1: 1.0}", "{1: -1.0, 2: 2.0}", "{1.5: 1.0}", "{1: inf}",
     "{1: __import__('os').getpid()}", "[1]", "{1}", "{1: 1.0", "", None, {"1": 1.0},
     "{99999999999: 1.0}"],
)  # fmt: skip
def test_other_tables_are_one_sentence(text: object) -> None:
    with pytest.raises(TraceError, match="window 0"):
        parse_table(text, "x.json: window 0: input_tokens")


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"),
    [
        ("chunk-0-trace.csv", "Gamma,1.0", "Pareto,1.0", "line 2: the law of gaps is 'Pareto'"),
        ("chunk-0-trace.csv", "Gamma,1.0", "Gamma,0", "with shape 0"),
        ("chunk-0-trace.csv", "Gamma,1.0", "Gamma,1e-300", "with shape 1e-300"),
        ("chunk-0-trace.csv", "Gamma,1.0", "Weibull,1e-9", "with shape 1e-9; .*from 0.01 to"),
        ("chunk-0-trace.csv", "0.5,1.0", "fast,1.0", "line 2: rate is 'fast'"),
        ("chunk-0-trace.csv", "1200,0.25", "600,0.25", "line 2: the next window does not start"),
        ("chunk-0-trace.csv", ",2.7", "", "the row has 5 fields"),
        ("chunk-0-trace.csv", "0.5,1.0", "9e7,1.0", "about 54,0.* requests, .*--limit 1000000"),
        ("chunk-0-dataset.json", "{16: 0.25, 32: 0.75}", "{}", "no window has a distribution"),
    ],
)
def test_broken_clients(tmp_path: Path, name: str, old: str, new: str, sentence: str) -> None:
    shutil.copytree(CLIENTS, tmp_path / "c")
    path = tmp_path / "c" / name
    assert old in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    with pytest.raises(TraceError, match=sentence):
        read_trace(tmp_path / "c")


def test_half_a_client_is_named(tmp_path: Path) -> None:
    shutil.copy(CLIENTS / "chunk-0-trace.csv", tmp_path)
    with pytest.raises(TraceError, match=r"chunk-0-dataset\.json is missing"):
        read_trace(tmp_path / "chunk-0-trace.csv")
    renamed = tmp_path / "rates.csv"
    shutil.copy(CLIENTS / "chunk-0-trace.csv", renamed)
    with pytest.raises(TraceError, match=r"is the two files chunk-K-trace\.csv"):
        read_trace(renamed)
