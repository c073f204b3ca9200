"""Every folder with an ``__init__.py`` is in the wheel: an unlisted one works only where edited."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_packages_list_every_folder() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = set()
    for name, folder in table["package-dir"].items():
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join((name, *init.parent.relative_to(ROOT / folder).parts)))
    assert found == set(table["packages"])
    assert len(table["packages"]) == len(found)


def test_each_package_is_typed() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    for folder in table["package-dir"].values():
        assert (ROOT / folder / "py.typed").exists(), folder
