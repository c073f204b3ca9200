"""What is chosen on the local page is what ``kvsim compare`` does."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest

from kvsim.cli import ui_page
from kvsim.cli.main import main
from kvsim.cli.ui_places import Places
from kvsim.cli.ui_run import Choices, compare_chosen
from kvsim.traces import bundled_path

if TYPE_CHECKING:
    from pathlib import Path

CHOICES = Choices(
    trace="chat-2k.jsonl.gz",
    allocators=("orca-max", "prefix"),
    model="llama-3.1-8b",
    hardware="h100-sxm",
    limit=30,
    rate_scale="30",
    kv_memory="2GiB",
    max_model_len="4096",
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(bundled_path("chat-2k").parent, tmp_path / "out")


def test_the_command_line_shown_does_the_same(places: Places, tmp_path: Path) -> None:
    folder = places.next_run()
    told: list[tuple[int, int]] = []
    result = compare_chosen(CHOICES, places, folder, lambda *numbers: told.append(numbers))
    assert told[-1] == (60, 60)
    typed = tmp_path / "typed"
    words = [str(places.root / CHOICES.trace), *CHOICES.options(), f"--out={typed}"]
    assert main(["compare", *words]) == 0
    for name in ("comparison.json", "report.html"):
        assert (folder / name).read_bytes() == (typed / name).read_bytes()
    document = json.loads((folder / "comparison.json").read_text())
    assert [row["name"] for row in document["rows"]] == [row.name for row in result.rows]


def test_empty_fields_are_left_to_the_command() -> None:
    choices = replace(CHOICES, rate_scale=" ", kv_memory="", max_model_len="")
    assert choices.options() == [
        "--allocators=orca-max,prefix",
        "--model=llama-3.1-8b",
        "--hardware=h100-sxm",
        "--limit=30",
    ]


def test_text_is_never_taken_for_another_option(places: Places, tmp_path: Path) -> None:
    choices = replace(CHOICES, kv_memory="--out=elsewhere")
    with pytest.raises(ValueError, match="--out=elsewhere"):
        compare_chosen(choices, places, tmp_path, lambda *_: None)
    assert choices.command(tmp_path / choices.trace, tmp_path).count(" --out=") == 1
    odd = CHOICES.command(tmp_path / "a; rm -rf $HOME.csv", tmp_path)
    assert f"compare '{tmp_path}/a; rm -rf $HOME.csv' --alloc" in odd


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        (replace(CHOICES, allocators=()), "at least one allocator"),
        (replace(CHOICES, trace="../chat-2k.jsonl.gz"), "opens traces there only"),
        (replace(CHOICES, rate_scale="fast"), "fast"),
        (replace(CHOICES, kv_memory="1 byte"), "1 byte"),
        (replace(CHOICES, limit=0), "0"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    choices: Choices, told: str, places: Places, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=told):
        compare_chosen(choices, places, tmp_path, lambda *_: None)


class Stop(BaseException):
    """How Streamlit ends a script that another click makes useless."""


def test_a_run_that_is_stopped_leaves_no_folder(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui_page, "st", MagicMock())
    monkeypatch.setattr(ui_page, "compare_chosen", MagicMock(side_effect=Stop))
    with pytest.raises(Stop):
        ui_page.run(CHOICES, places)
    assert list(places.out.iterdir()) == []


def test_what_a_file_says_is_no_markdown(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ValueError("line 2: prompt_tokens is '![x](http://other.site/x.png)' :red[no] $1$ \x1b")
    page = MagicMock()
    monkeypatch.setattr(ui_page, "st", page)
    monkeypatch.setattr(ui_page, "compare_chosen", MagicMock(side_effect=told))
    ui_page.run(CHOICES, places)
    (shown,) = page.error.call_args.args
    assert r"\!\[x\]\(http\:\/\/other\.site" in shown
    assert r"\:red\[no\] \$1\$" in shown
    assert "\x1b" not in shown
    assert list(places.out.iterdir()) == []


def test_the_command_refuses_before_it_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for words, told in (
            (["--port", "0"], "--port is 0; allowed are 1 to 65535"),
            (["--root", str(tmp_path / "none")], "is no folder"),
            (["--out", str(tmp_path / "file")], "is a file; --out needs a folder"),
            (["--out", str(tmp_path / "\udcff")], "a name that no page can show"),
            (["--port", str(port)], "try another --port"),
            (["--host", "300.1.1.1"], "cannot listen on 300.1.1.1"),
        ):
            assert main(["ui", "--no-browser", *words]) == 2
            assert told in capsys.readouterr().err
