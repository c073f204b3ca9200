"""``kvsim plan --html``: the page of a plan, and places that cannot hold one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvsim.cli.main import main
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model
from kvsim.sim.pool.document import plan_document
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.plan import plan
from kvsim.sim.report.plan_page import fit_chart, memory_chart

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = PoolRequest(model=load_model("llama-3.1-8b"), hardware=load_hardware("h100-sxm"))


def test_the_bar_adds_up_to_what_the_engine_may_use() -> None:
    document = plan_document(REQUEST, plan(REQUEST))
    bars = memory_chart(document).figure.data
    assert bars[-1].name == "KV"
    usable = document.terms["usable"].bytes / 2**30
    assert sum(bar.x[0] for bar in bars) == pytest.approx(usable, abs=1e-3)


def test_the_curve_is_the_plan_of_each_length() -> None:
    pool = plan(REQUEST)
    document = plan_document(REQUEST, pool, {"trace_mean": 1000})
    curve, seats, asked = fit_chart(document, pool).figure.data
    found = dict(zip(curve.x, curve.y, strict=True))
    assert found[131072] == 3
    assert found[128] == (pool.num_blocks - 1) // 8
    assert set(seats.y) == {document.max_num_seqs}
    assert dict(zip(asked.x, asked.y, strict=True)) == {131072: 3, 1000: pool.requests_of(1000)}


def test_a_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "plan.html"
    assert main(["plan", "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "usable" in printed
    assert "open it in a browser" in printed
    assert page.name in printed
    text = page.read_text("utf-8")
    assert "Requests that fit, by context length" in text
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]


def test_what_does_not_fit_has_a_page_that_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "plan.html"
    assert main(["plan", "--model", "llama-3.1-70b", "--html", str(page)]) == 2
    text = page.read_text("utf-8")
    assert "Does not fit: llama-3.1-70b leaves" in text
    assert "Requests that fit" not in text
    printed = capsys.readouterr()
    assert "Frees most" in printed.err
    assert "open it in a browser" in printed.out


@pytest.mark.parametrize(
    ("name", "extra", "message"),
    [
        ("", [], "is a folder; name a file"),
        ("no/such/p.html", [], "there is no folder"),
        ("p.html", ["--levers"], "leave --html out"),
    ],
)
def test_places_that_hold_no_page(
    name: str, extra: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--html", str(tmp_path / name), *extra]) == 2
    assert message in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
