"""Check types: copy the folders to where their import names say, and run mypy on the copy.

The root folders are sub-packages of ``kvsim``, which has no folder of its own, so type checkers
need a tree that looks like the imports. ``build/typed`` is that tree (a copy, not symlinks: some
checkers skip those in silence); editors find it through ``pyproject.toml``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TYPED = Path("build", "typed")


def copy_tree() -> None:
    """Put every folder of ``package-dir`` under its dotted name, replacing an older copy."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    if (ROOT / TYPED).exists():
        shutil.rmtree(ROOT / TYPED)
    for name, folder in table["package-dir"].items():
        shutil.copytree(
            ROOT / folder,
            ROOT / TYPED / name.replace(".", "/"),
            ignore=shutil.ignore_patterns("__pycache__", "*.gz"),
        )


def main() -> int:
    """Return mypy's exit code; errors name the files as they lie in the repository."""
    copy_tree()
    targets = [str(TYPED / "kvsim"), "tests", "benchmarks", "docs"]
    command = [sys.executable, "-m", "mypy", *targets]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False)
    print(done.stdout.replace(str(TYPED / "kvsim") + os.sep, ""), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
