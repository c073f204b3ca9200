"""What mkdocs does besides: pages of files that lie elsewhere, links between them, figures inline.

- README, CONTRIBUTING, CHANGES and the scripts of ``examples/`` are pages of the site, made from
  the one file there is; links are written as they lead in the repository and turned here.
- Docstrings are read from a copy of the folders under their import names (nothing is imported),
  with Sphinx roles made plain code.
- SVG figures go into the page itself, so that they take the colours of its light or dark scheme.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "build" / "site-source"
PAGES: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGES.md": "changes.md",
    "examples": "examples/policies.md",
}
"""Where files outside ``docs/`` stand on the site; scripts of ``examples/`` have pages, too."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
_ROLE: Final = re.compile(r":[a-z]+:`~?([^`]+)`")
_CELL: Final = re.compile(r"^# %%(.*)$", re.MULTILINE)
_FIGURE: Final = re.compile(r'<p><img alt="([^"]*)" src="([^"]*figures/[^"]+\.svg)"\s*/?></p>')


def on_startup(command: str, dirty: bool) -> None:
    """Make the folder of the sources: mkdocstrings forgets paths that are not there at once."""
    del command, dirty
    SOURCE.mkdir(parents=True, exist_ok=True)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lay the sources out as they are imported, for the reference."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    shutil.rmtree(SOURCE, ignore_errors=True)
    for name, folder in table["package-dir"].items():
        for path in (ROOT / folder).rglob("*.py"):
            copy = SOURCE / name.replace(".", "/") / path.relative_to(ROOT / folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(_ROLE.sub(r"`\1`", path.read_text("utf-8")), "utf-8")
    (SOURCE / "kvsim" / "__init__.py").touch()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files elsewhere."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - tests have no mkdocs

    for source, uri in {**PAGES, **example_pages()}.items():
        text = policy_examples() if source == "examples" else page_of(source)
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links of the repository into links of the site."""
    del config, files
    return turn_links(markdown, page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put figures into the page."""
    del page, config, files
    return _FIGURE.sub(lambda found: figure(found[1], Path(found[2]).name), html)


def example_pages() -> dict[str, str]:
    """Page of each script in cells."""
    scripts = sorted((ROOT / "examples").glob("*.py"))
    return {
        f"examples/{path.name}": f"examples/{path.stem}.md"
        for path in scripts
        if _CELL.search(path.read_text("utf-8"))
    }


def page_of(source: str) -> str:
    """Markdown of a file of the repository."""
    text = (ROOT / source).read_text("utf-8")
    return cells_as_markdown(text, source) if source.endswith(".py") else text


def cells_as_markdown(script: str, source: str) -> str:
    """A script in cells (``# %%``) as a page: words from its comments, code as code."""
    parts = _CELL.split(script)
    lines = []
    for kind, body in zip(parts[1::2], parts[2::2], strict=True):
        if "[markdown]" in kind:
            lines.append(re.sub(r"^# ?", "", body.strip("\n"), flags=re.MULTILINE))
        else:
            lines.append(f"```py\n{body.strip()}\n```")
    return "\n\n".join([*lines, f"*This page is `{source}`; the tests run it.*"]) + "\n"


def policy_examples() -> str:
    """One page with the examples that are policies."""
    head = "Each runs as its first lines say ([how](docs/policies.md))."
    parts = [f"# Policies in one file\n\n{head}\n"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text("utf-8")
        if not _CELL.search(text):
            parts.append(f"## `examples/{path.name}`\n\n```py\n{text}```\n")
    return "\n".join(parts)


def turn_links(markdown: str, uri: str) -> str:
    """Links of a page as they lead on the site; what is no page of it becomes plain code."""
    origin = {made: source for source, made in {**PAGES, **example_pages()}.items()}
    source = posixpath.dirname(origin.get(uri, f"docs/{uri}"))

    def turned(found: re.Match[str]) -> str:
        image, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        target = posixpath.normpath(posixpath.join(source, target))
        there = {**PAGES, **example_pages()}.get(target)
        if target.startswith("docs/"):
            there = target.removeprefix("docs/")
        if there is None:
            return text if "`" in text else f"`{text}`"
        return f"{image}[{text}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{anchor})"

    return _LINK.sub(turned, markdown)


def figure(alternative: str, name: str) -> str:
    """A figure's SVG, to stand in the page; ``alternative`` is its text, as HTML."""
    text = (ROOT / "docs" / "figures" / name).read_text("utf-8")
    text = text.replace("<svg ", f'<svg aria-label="{alternative}" ', 1)
    return f'<figure class="kvsim">{text.strip()}</figure>'
