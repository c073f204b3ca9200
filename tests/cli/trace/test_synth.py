"""``kvsim trace synth``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.cli.main import main
from kvsim.traces import bundled_path, read_trace
from kvsim.traces.synth.presets import load_presets

if TYPE_CHECKING:
    from pathlib import Path

LAWS = ["--prompt", "lognormal(mean=200,sigma=1)", "--output", "40", "--rate", "2"]


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def synth(*options: str) -> int:
    return main(["trace", "synth", "x.csv", "--requests", "400", *options])


def test_laws_and_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert synth(*LAWS) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("x.csv: 400 requests written\n")
    assert "fit of prompt           KS distance 0.0" in printed
    assert "fit of output           KS distance 0.0000 " in printed
    trace = read_trace("x.csv")
    assert set(trace.output_tokens.tolist()) == {40}
    assert len(trace) / (int(trace.arrival_ns[-1]) / 1e9) == pytest.approx(2, rel=0.2)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for seed in ("4", "4", "5"):
        assert synth(*LAWS, "--turns", "3", "--seed", seed) == 0
        files.append((tmp_path / "x.csv").read_bytes())
    assert files[0] == files[1] != files[2]


def test_users_own_whole_sessions() -> None:
    assert synth(*LAWS, "--turns", "3", "--users", "4", "--user-skew", "1") == 0
    trace = read_trace("x.csv")
    assert trace.user is not None
    assert trace.session is not None
    assert set(trace.user) == {"u0", "u1", "u2", "u3"}
    assert len(set(zip(trace.session, trace.user, strict=True))) == len(set(trace.session))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--user-skew", "1"], "--user-skew is 1 and nobody is named: add --users N"),
        (["--users", "-1"], "num_users is -1; allowed are 0 to"),
        (["--users", "2", "--user-skew", "nan"], "user_skew is nan; allowed are 0 to 100"),
        (["--users", "2", "--preset", "chat-service"], "says all laws itself: leave --users out"),
    ],
)
def test_users_that_cannot_be_are_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    laws = LAWS if "--preset" not in options else []
    assert synth(*laws, *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", load_presets())
def test_presets(capsys: pytest.CaptureFixture[str], name: str) -> None:
    preset = load_presets()[name]
    rate = [] if preset.rate_per_s else ["--rate", "1"]
    assert synth("--preset", name, *rate) == 0
    assert f"{preset.rows:,} rows" in " ".join(capsys.readouterr().out.split())
    trace = read_trace("x.csv")
    assert trace.prompt_tokens.max() <= max(preset.prompt.tokens)
    wanted = preset.rate_per_s or 1
    found = len(trace) / (int(trace.arrival_ns[-1]) / 1e9)
    assert found == pytest.approx(wanted, rel=0.5 if name == "mooncake-conversation" else 0.25)


def test_sessions_agents_and_days(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--turns 3 --sub-agents 2 --system-prompts 2x64,1x512 --diurnal 0.5 --day 100"
    assert synth(*LAWS, *options.split()) == 0
    assert "fit of new text" in capsys.readouterr().out
    trace = read_trace("x.csv")
    assert trace.after_request is not None
    assert (trace.after_request >= 0).any()
    assert trace.prefix is not None


def test_like_a_file_and_a_table(tmp_path: Path) -> None:
    assert synth("--like", str(bundled_path("chat-2k")), "--arrivals", "weibull(shape=0.7)") == 0
    like, chat = read_trace("x.csv"), read_trace(bundled_path("chat-2k"))
    assert np.median(like.prompt_tokens) == pytest.approx(np.median(chat.prompt_tokens), rel=0.2)
    (tmp_path / "cdf.json").write_text(json.dumps([[100, 0.5], [200, 1.0]]))
    assert synth("--prompt", "table(cdf.json)", "--output", "5", "--arrivals", "rate=4") == 0
    assert 100 <= np.median(read_trace("x.csv").prompt_tokens) <= 120


def test_the_chat_service(capsys: pytest.CaptureFixture[str]) -> None:
    assert synth("--preset", "chat-service", "--seed", "2026") == 0
    trace = read_trace("x.csv")
    assert len(trace) == 400
    assert trace.session is not None
    assert main(["trace", "synth", "--preset", "list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in [*load_presets(), "chat-service", "FAST 2025"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no law of lengths: give --preset, --like, or --prompt LAW"),
        (["--preset", "arxiv"], "how often do sessions start? Give --rate R"),
        (["--preset", "none"], "preset 'none' is unknown; choices: azure-conv-2023"),
        (["--preset", "arxiv", "--like", "x.csv"], "--preset and --like contradict"),
        ([*LAWS, "--seed", "-1"], "--seed is -1"),
        ([*LAWS, "--arrivals", "normal"], "--arrivals is 'normal'"),
        ([*LAWS, "--system-prompts", "3"], "--system-prompts is '3'; it has the form KxT"),
        ([*LAWS, "--turns", "0"], "mean_turns is 0"),
        ([*LAWS, "--diurnal", "2"], "amplitude 2"),
        ([*LAWS, "--think", "0"], "--think is 0"),
        (["--preset", "chat-service", "--turns", "2"], "leave --turns out"),
    ],
)
def test_errors_are_one_sentence(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert synth(*options) == 2
    assert message in capsys.readouterr().err


def test_somewhere_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "synth", *LAWS]) == 2
    assert "where to? Name a file OUT" in capsys.readouterr().err
