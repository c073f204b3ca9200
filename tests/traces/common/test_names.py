"""Nearest names, worked out by hand, and sentences on unknown names."""

from __future__ import annotations

import pytest

from kvsim.traces.common.names import listed, meant, near_names, unknown

OPTIONS = ("--rate", "--rate-scale", "--session-rate", "--limit", "--max-num-seqs")
CARDS = ("a100-sxm", "h100-pcie", "h100-sxm", "l4")


@pytest.mark.parametrize(
    ("name", "names", "near"),
    [
        ("--Rate_Scale", OPTIONS, ["--rate-scale"]),
        ("--limt", OPTIONS, ["--limit"]),
        ("--request-rate", OPTIONS, ["--rate"]),
        ("--sesion-rate", OPTIONS, ["--session-rate"]),
        ("--max-seqs", OPTIONS, ["--max-num-seqs"]),
        ("h100", CARDS, ["h100-pcie", "h100-sxm"]),
        ("A100-SXM-80GB", CARDS, ["a100-sxm"]),
        ("", CARDS, []),
        ("--", OPTIONS, []),
        ("zzz", CARDS, []),
        ("l4", (), []),
    ],
)
def test_near_names(name: str, names: tuple[str, ...], near: list[str]) -> None:
    assert near_names(name, names) == near


def test_a_sentence_has_the_value_the_nearest_name_and_the_choices() -> None:
    assert unknown("card", "h100", CARDS) == (
        "card 'h100' is unknown (did you mean 'h100-pcie' or 'h100-sxm'?); "
        "choices: a100-sxm, h100-pcie, h100-sxm, l4"
    )
    assert unknown("card", 3, ("a", "b"), "or a file") == (
        "card 3 is unknown; choices: a, b, or a file"
    )
    assert len(unknown("card", "x" * 1000, ("a",))) < 100


def test_long_lists_are_cut_between_names_and_counted() -> None:
    names = [f"name-{index:02}" for index in range(30)]
    text = listed(names)
    shown, _, count = text.partition(", ... ")
    assert count == "(30 in all)"
    assert shown.split(", ") == names[: len(shown.split(", "))]
    assert len(shown) <= 90
    near = meant("name-7", names, "names", near=" (did you mean 'name-07'?)")
    assert near.startswith(" (did you mean 'name-07'?); names: name-00, ")
    assert len(near) < len(text) + 30
