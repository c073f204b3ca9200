"""What is chosen on the local page is what ``kvsim compare`` does."""

from __future__ import annotations

import json
import shlex
import socket
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest
from streamlit.testing.v1 import AppTest

from kvsim.cli.main import main
from kvsim.cli.ui import page as ui_page
from kvsim.cli.ui import run as ui_run
from kvsim.cli.ui.folders import Places
from kvsim.cli.ui.run import Choices, compare_chosen, why_too_large
from kvsim.sim.comparison.scenarios import allocator_scenarios
from kvsim.traces import bundled_path
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.comparison.runs import LivePool

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


@pytest.mark.slow
@pytest.mark.parametrize("block_map", [False, True])
def test_the_command_line_shown_does_the_same(
    block_map: bool, places: Places, tmp_path: Path
) -> None:
    choices = replace(CHOICES, block_map=block_map, limit=12)
    told: list[tuple[int, int]] = []
    seen: dict[str, tuple[int, int]] = {}

    def watch(pool: LivePool, _now_ps: int) -> None:
        seen[pool.case.name] = (pool.place, pool.num_runs)

    result, folder = compare_chosen(choices, places, lambda *done: told.append(done), watch)
    assert folder == places.out / "comparison-1"
    assert told[-1] == (24, 24)
    assert seen == ({"orca-max": (0, 2), "prefix": (1, 2)} if block_map else {})
    typed = tmp_path / "typed"
    words = [str(places.root / CHOICES.trace), *choices.options(), f"--out={typed}"]
    assert main(["compare", *words, "--jobs=1"]) == 0
    names = {"comparison.json", "report.html"}
    blocks = {"blocks-1.parquet", "blocks-2.parquet"} if block_map else set()
    assert {path.name for path in typed.iterdir()} == names | blocks
    for name in names | blocks:
        assert (folder / name).read_bytes() == (typed / name).read_bytes()
    assert (folder / "block-map.html").exists() == block_map
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


def test_words_on_the_choice_have_separators() -> None:
    assert "2 GiB for KV · at most 4,096 tokens" in CHOICES.in_words()
    assert "auto for KV" in replace(CHOICES, kv_memory="auto").in_words()


def test_text_is_never_taken_for_another_option(places: Places, tmp_path: Path) -> None:
    choices = replace(CHOICES, kv_memory="--out=elsewhere")
    with pytest.raises(ValueError, match="--out=elsewhere"):
        compare_chosen(choices, places, lambda *_: None)
    words = shlex.split(choices.command(tmp_path / choices.trace, tmp_path))
    assert [word for word in words if word.startswith("--out=")] == [f"--out={tmp_path}"]
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
        compare_chosen(choices, places, lambda *_: None)


def test_a_model_too_large_is_told_though_memory_for_kv_is_named() -> None:
    large = replace(CHOICES, model="llama-3.1-70b")
    assert why_too_large(CHOICES) == why_too_large(replace(large, tp=4)) == ""
    assert why_too_large(large).startswith("llama-3.1-70b leaves -")


class Stop(BaseException):
    """How Streamlit ends a script that another click makes useless."""


def test_a_run_that_is_stopped_leaves_no_folder(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui_page, "st", MagicMock())
    monkeypatch.setattr("kvsim.cli.commands.compare.compared_runs", MagicMock(side_effect=Stop))
    with pytest.raises(Stop):
        ui_page.run(CHOICES, places)
    assert not places.out.exists()


@pytest.fixture
def page(places: Places, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The page before the first click, with a short run chosen."""
    for name in ("KVSIM_UI_ROOT", "KVSIM_UI_OUT"):
        monkeypatch.setenv(name, "")
    places.to_environment()
    test = AppTest.from_file(ui_page.__file__, default_timeout=PATIENCE_S).run()
    assert test.expander[0].proto.expanded
    test.number_input[1].set_value(10)
    return test


def test_the_form_offers_what_allocators_takes(page: AppTest) -> None:
    offered = page.multiselect[0].options
    assert {"paged", "prefix", "orca-max"} < {*offered}
    assert [*allocator_scenarios(",".join(offered))] == offered


def test_the_form_makes_room_for_the_result(page: AppTest, places: Places) -> None:
    page.multiselect[0].set_value(["paged", "prefix"])
    page.toggle[0].set_value(False)
    page.button[0].click().run()
    assert not page.exception
    assert not page.error
    assert not page.expander[0].proto.expanded
    assert "first 10 requests" in page.caption[0].value
    assert [one.value for one in page.subheader] == [
        "KV memory by state, all time",
        "What users see",
    ]
    assert list(page.dataframe[0].value.columns) == ["", "paged", "prefix"]
    (verdicts,) = [one.value for one in page.markdown if one.value.startswith("**Verdicts**")]
    told = verdicts.replace("\\", "")
    assert "\n- paged: too short for p99 (10 finished: too few for any)\n- prefix: too" in told
    assert page.code[0].value.startswith("kvsim compare ")
    assert [path.name for path in places.out.iterdir()] == ["comparison-1"]


def test_what_is_wrong_is_told_above_the_form(page: AppTest, places: Places) -> None:
    page.multiselect[0].set_value([])
    page.button[0].click().run()
    assert [one.value for one in page.error] == ["choose at least one allocator"]
    assert page.expander[0].proto.expanded
    page.multiselect[0].set_value(["paged"])
    page.text_input[1].set_value("lots")
    page.button[0].click().run()
    assert page.error[0].value.startswith("Memory for KV \\= \\'lots\\'\\: expected a size")
    assert not places.out.exists()


def test_a_model_that_does_not_fit_is_told_with_what_would(page: AppTest) -> None:
    page.selectbox[1].set_value("llama-3.1-70b")
    page.multiselect[0].set_value(["paged"])
    page.toggle[0].set_value(False)
    page.button[0].click().run()
    assert page.warning[0].value.startswith("Shown as if the weights lay elsewhere")
    page.number_input[0].set_value(4)
    page.button[0].click().run()
    assert not page.warning
    assert "4 x h100" in page.caption[0].value.replace("\\", "")


def test_what_a_file_says_is_no_markdown(
    page: AppTest, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ValueError("line 2: prompt_tokens is '![x](http://other.site/x.png)' :red[no] $1$ \x1b")
    monkeypatch.setattr(ui_run, "compare_chosen", MagicMock(side_effect=told))
    page.button[0].click().run()
    shown = page.error[0].value
    assert r"\!\[x\]\(http\:\/\/other\.site" in shown
    assert r"\:red\[no\] \$1\$" in shown
    assert "\x1b" not in shown
    assert not places.out.exists()


@pytest.mark.slow
def test_pools_are_watched_one_after_the_other(page: AppTest, places: Places) -> None:
    page.button[0].click().run()
    assert not page.exception
    assert not page.error
    assert (places.out / "comparison-1" / "blocks-3.parquet").exists()


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
