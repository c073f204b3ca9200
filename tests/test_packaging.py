"""What the wheel holds: an unlisted folder or data file works only where kvsim is edited."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]


def package_folders() -> dict[str, Path]:
    """Every folder with an ``__init__.py``, by the dotted name it is imported under."""
    found = {}
    for name, folder in TABLE["package-dir"].items():
        for init in (ROOT / folder).rglob("__init__.py"):
            dotted = ".".join((name, *init.parent.relative_to(ROOT / folder).parts))
            found[dotted] = init.parent
    return found


def test_packages_list_every_folder() -> None:
    assert package_folders().keys() == set(TABLE["packages"])
    assert len(TABLE["packages"]) == len(package_folders())


def test_package_data_names_every_file() -> None:
    there, listed = set(), set()
    for name, folder in package_folders().items():
        files = (path for path in folder.rglob("*") if path.is_file())
        there |= {
            path for path in files if path.suffix != ".py" and "__pycache__" not in path.parts
        }
        for pattern in TABLE["package-data"]["*"] + TABLE["package-data"].get(name, []):
            listed |= set(folder.glob(pattern))
    assert sorted(str(path.relative_to(ROOT)) for path in there - listed) == []


def test_each_package_is_typed() -> None:
    for folder in TABLE["package-dir"].values():
        assert (ROOT / folder / "py.typed").exists(), folder
