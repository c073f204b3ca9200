"""``kvsim report RUN``: where the report is; block maps as a page, pictures and animations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.cli.options.completion import FILES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from kvsim.sim.block_map import BlockMap
    from kvsim.sim.block_map.scene import Picture

_SUFFIXES: Final = {"png": (".png",), "svg": (".svg",), "gif": (".gif", ".png")}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "report",
        help="draw the block maps of a run as a page, a picture or an animation",
        description="Print where the report of a run or a comparison is. With options, draw "
        "the block maps that --record blocks recorded; maps of several folders are "
        "drawn side by side.",
    )
    folders = parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="folder of kvsim simulate or of kvsim compare --out (default the latest run)",
    )
    folders.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    parser.add_argument(
        "--block-map",
        action="store_true",
        help="write block-map.html into the (first) folder: the pool over time, with a slider",
    )
    parser.add_argument("--png", metavar="FILE", help="write a picture of one instant")
    parser.add_argument("--svg", metavar="FILE", help="write the same picture as SVG")
    parser.add_argument(
        "--gif", metavar="FILE", help="write the run as a short GIF; FILE.png is an animated PNG"
    )
    parser.add_argument(
        "--at",
        metavar="TIME",
        help="instant of --png and --svg, such as 12s (default: the fullest)",
    )
    parser.add_argument(
        "--colour",
        choices=("state", "request"),
        default="state",
        help="colour blocks by state (default) or by request",
    )
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Draw what is asked for; without that, print where the reports are."""
    from kvsim.sim.block_map.recorded import recorded_maps, report_of
    from kvsim.sim.folders.place import latest_result

    at_ps = _check(arguments)
    folders = [Path(folder) for folder in arguments.runs] or [latest_result()]
    reports = [report_of(folder) for folder in folders]
    stills = arguments.png or arguments.svg or arguments.gif
    if not stills and not arguments.block_map:
        print("\n".join(map(str, reports)))
        return 0
    maps = recorded_maps(folders)
    if arguments.block_map:
        _write_page(maps, folders[0])
    if stills:
        _write_pictures(maps, arguments, at_ps)
    return 0


def _check(arguments: argparse.Namespace) -> int | None:
    """Refuse names and times that cannot be, before anything is read; returns the time in ps."""
    from kvsim.sim.block_map.stills import check_pillow
    from kvsim.traces.common.quantities import parse_duration_ps

    for option, suffixes in _SUFFIXES.items():
        name = getattr(arguments, option)
        if name is not None:
            path = Path(name)
            if path.suffix.lower() not in suffixes:
                raise ValueError(f"--{option} {name!r} must end with {' or '.join(suffixes)}")
            if not path.parent.is_dir():
                raise ValueError(f"--{option} {name!r}: there is no folder {path.parent}")
    if arguments.png or arguments.gif:
        check_pillow()
    if arguments.at is None:
        return None
    if not arguments.png and not arguments.svg:
        raise ValueError("--at is the moment of a picture: give --png or --svg, too")
    try:
        return parse_duration_ps(arguments.at)
    except ValueError as error:
        raise ValueError(f"--at {arguments.at!r} {error}") from None


def _write_page(maps: Sequence[BlockMap], folder: Path) -> None:
    from kvsim.sim.block_map.page import block_map_page
    from kvsim.sim.folders.place import BLOCK_MAP
    from kvsim.traces.common.files import write_file

    path = folder / BLOCK_MAP
    write_file(block_map_page(maps), path)
    print(path)


def _write_pictures(
    maps: Sequence[BlockMap], arguments: argparse.Namespace, at_ps: int | None
) -> None:
    from kvsim.sim.block_map import stills
    from kvsim.sim.block_map.scene import Picture

    picture = Picture.of(maps, arguments.colour)
    scene = picture.scene(picture.fullest_ps() if at_ps is None else at_ps)
    _write(arguments.png, lambda path: stills.save_png(scene, path))
    _write(arguments.svg, lambda path: path.write_text(stills.svg(scene), encoding="utf-8"))
    _write(arguments.gif, lambda path: _animate(picture, path, arguments.gif))


def _animate(picture: Picture, path: Path, name: str) -> None:
    from kvsim.sim.block_map.stills import save_animation

    save_animation(picture, path, as_png=name.lower().endswith(".png"))


def _write(name: str | None, save: Callable[[Path], object]) -> None:
    """Write under a temporary name, then rename, and tell."""
    from kvsim.traces.common.files import drafted

    if name is None:
        return
    path = Path(name)
    with drafted(path) as draft:
        save(draft)
    print(path)
