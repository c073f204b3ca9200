"""Small multiples: panels of one size, three in a row; a phone shows them in one column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.report.figures import laid_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

ACROSS: Final = 3
_ABOVE_PX: Final = 60
_TITLE_PX: Final = 13
"""Font size of a panel's title; paper has room for three titles in a row."""


def small_multiples(
    titles: Sequence[str],
    inner_px: int,
    around_px: int,
    *,
    shared_x: bool = False,
    shared_y: bool = False,
    below_px: int = 45,
) -> go.Figure:
    """Return a figure with a panel of height ``inner_px`` for each title.

    Titles are escaped. ``around_px`` is the space for title and axis between two panels, and
    ``below_px`` the space below the lowest panels. With ``shared_x`` or ``shared_y`` all panels
    have the same axis. Without ``shared_y`` the panels of a row share the y axis.
    """
    from plotly.subplots import make_subplots  # noqa: PLC0415 - only a report needs plotly

    across = min(ACROSS, len(titles))
    down = rows_of(len(titles))
    panels_px = down * (inner_px + around_px) - around_px
    figure = make_subplots(
        rows=down,
        cols=across,
        shared_xaxes="all" if shared_x else False,
        shared_yaxes="all" if shared_y else True,
        subplot_titles=titles,
        horizontal_spacing=0.04,
        vertical_spacing=around_px / panels_px if down > 1 else 0,
    )
    laid_out(figure, "", "", height=_ABOVE_PX + panels_px + below_px)
    figure.update_annotations(font_size=_TITLE_PX)
    # plotly needs as long to look for labels beyond an edge as for all the rest
    quick = {"automargin": False, "ticklabeloverflow": "allow"}
    figure.update_xaxes(showticklabels=True, title_standoff=4, nticks=5, **quick)
    figure.update_yaxes(**quick)
    figure.update_xaxes(automargin=True, row=down)  # for titles, and a legend below
    for empty in range(len(titles), down * across):
        where = place_of(empty, len(titles))
        figure.update_xaxes(visible=False, **where).update_yaxes(visible=False, **where)
    return figure.update_layout(
        margin={"l": 20, "r": 30, "t": _ABOVE_PX, "b": below_px},
        meta={"panel_px": inner_px + around_px},
    )


def rows_of(num_panels: int) -> int:
    """Return the number of rows of a grid of panels."""
    return -(-num_panels // min(ACROSS, num_panels))


def place_of(panel: int, num_panels: int) -> dict[str, int]:
    """Return row and column, from 1, of a panel with a number from 0."""
    down, right = divmod(panel, min(ACROSS, num_panels))
    return {"row": down + 1, "col": right + 1}
