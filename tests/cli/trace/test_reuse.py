"""``kvsim trace reuse``: table, JSON and plot."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.cli.main import main
from kvsim.cli.trace import reuse as trace_reuse
from kvsim.traces import bundled_path
from kvsim.traces.reuse import DEFINITIONS

if TYPE_CHECKING:
    from pathlib import Path

CHAT = [str(bundled_path("chat-2k")), "--limit", "200"]


def printed_json(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert main(["trace", "reuse", *CHAT, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_table_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    every = "fifo,lfu,sieve,s3-fifo,optimal"
    assert main(["trace", "reuse", *CHAT, "--policies", every, "--sessions"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "a hit is                tree: prefix tree" in printed.out
    assert "hit ratio, % of tokens" in lines
    (header,) = (line for line in lines if line.startswith("blocks "))
    assert header.split() == ["blocks", "tokens", "LRU", *every.split(",")]
    assert "sessions  " in printed.out
    assert "200 read" in printed.err


def test_json_has_unit_and_curve(capsys: pytest.CaptureFixture[str]) -> None:
    document = printed_json(capsys)
    assert document["schema"] == "kvsim.reuse/1"
    assert document["unit"] == "tokens"
    curve = document["curve"]
    sizes = [point["capacity_blocks"] for point in curve]
    assert sizes[:4] == [1, 2, 5, 10]
    ratios = [point["hit_ratio"] for point in curve]
    assert ratios == sorted(ratios)
    assert ratios[-1] == document["ceiling"]["token_ratio"]
    assert curve[-1]["hit_tokens"] == document["ceiling"]["tokens_in_leading_run"]
    plain = printed_json(capsys, "--definition", "plain", "--capacities", "50,9")
    assert plain["unit"] == "blocks"
    assert [point["capacity_blocks"] for point in plain["curve"]] == [9, 50]
    assert all(point["hit_ratio"] == point["block_hit_ratio"] for point in plain["curve"])
    weighed = printed_json(capsys, "--definition", "plain", "--weights", "tokens")
    assert weighed["unit"] == "tokens"


def test_every_size_at_which_lru_gains(capsys: pytest.CaptureFixture[str]) -> None:
    document = printed_json(capsys, "--capacities", "all", "--kv-bytes-per-token", "1024")
    ratios = [point["block_hit_ratio"] for point in document["curve"]]
    assert len(ratios) > 100
    assert all(a < b for a, b in pairwise(ratios))
    first = document["curve"][0]
    assert first["capacity_bytes"] == first["capacity_blocks"] * 16 * 1024
    need = document["needed_blocks"]["90_percent"]
    tokens = {point["capacity_blocks"]: point["hit_tokens"] for point in document["curve"]}
    assert tokens[need] >= 0.9 * max(tokens.values())
    assert main(["trace", "reuse", *CHAT, "--capacities", "all"]) == 0
    assert "more sizes: see --json or --plot" in capsys.readouterr().out


def test_replays_windows_and_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--capacities", "300,9999", "--policies", "lru,fifo", "--sessions")
    document = printed_json(capsys, *options, "--window", "100:150")
    assert document["counted"]["first_request"] == 100
    assert document["counted"]["end_request"] == 150
    assert document["replays"]["lru"] == document["curve"]
    assert document["replays"]["fifo"][1] == document["curve"][1]
    assert sum(session["requests"] for session in document["sessions"].values()) == 50
    warm = printed_json(capsys, "--warmup", "100")
    assert warm["counted"] == document["counted"] | {
        "end_request": 200,
        "blocks": warm["counted"]["blocks"],
        "tokens": warm["counted"]["tokens"],
    }


def test_the_plot_opens_offline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.html"
    assert main(["trace", "reuse", *CHAT, "--policies", "fifo", "--plot", str(out)]) == 0
    page = out.read_text("utf-8")
    assert "LRU, every size" in page
    assert "Content-Security-Policy" in page
    assert page.count('class="plot"') == 1
    assert '"ticktext":["1","10","100","1k","10k"]' in page
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policies", "clock"], "--policies 'clock' is unknown; choices: lru, fifo"),
        (["--capacities", "0"], "--capacities is '0'; it is a list of whole numbers"),
        (["--capacities", "all", "--policies", "fifo"], "--capacities all is for LRU alone"),
        (["--warmup", "-1"], "--warmup is -1"),
        (["--warmup", "200"], "no request counts: of 200 requests"),
        (["--window", "5"], "--window is '5'; it has the form A:B"),
        (["--kv-bytes-per-token", "0"], "--kv-bytes-per-token is 0"),
    ],
)
def test_errors_are_one_sentence(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["trace", "reuse", *CHAT, *options]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_traces_without_ids_or_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.csv"
    path.write_text("arrival_ns,prompt_tokens,output_tokens\n0,1,1\n")
    assert main(["trace", "reuse", str(path)]) == 2
    assert "has no prefix ids" in capsys.readouterr().err.splitlines()[-1]
    path.write_text(
        '# kvsim-trace {"id_block_tokens": 4}\n'
        "arrival_ns,prompt_tokens,output_tokens,prefix_ids\n0,4,1,7\n"
    )
    assert main(["trace", "reuse", str(path), "--sessions"]) == 2
    assert "names no sessions" in capsys.readouterr().err.splitlines()[-1]


def test_the_options_name_all_definitions() -> None:
    assert tuple(DEFINITIONS) == trace_reuse.DEFINITIONS
