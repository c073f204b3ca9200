"""Cards as the sources call them, and the size of their last-level cache."""

from __future__ import annotations

from typing import Final

CARDS: Final = {
    "NVIDIA A100-SXM4-80GB": "a100-sxm",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA L40S": "l40s",
    "a100": "a100-sxm",
    "h100": "h100-sxm",
    "RTX4090": "rtx-4090",
    "RTXPRO6000": "rtx-pro-6000",
    "a100-80gb": "a100-sxm",
    "h100-80gb": "h100-sxm",
}
L2_BYTES: Final = {
    "a100-sxm": 40 << 20,
    "h100-sxm": 50 << 20,
    "l40s": 96 << 20,
    "rtx-4090": 72 << 20,
    "rtx-pro-6000": 128 << 20,
}
"""L2 from the vendor's architecture papers; what fits in it reads faster than memory can."""


def one_card(names: set[str], wanted: str | None, where: str) -> str:
    """The card that the tables are of, by our name.

    ``wanted``: our name of the card to take where there are several. Raises ``ValueError`` for a
    card not known, several without ``wanted``, or none of ``wanted``.
    """
    known = {name: CARDS[name] for name in names if name in CARDS}
    if not known:
        raise ValueError(
            f"{where}: the card {', '.join(sorted(names)) or '(none named)'} is not known;"
            f" known: {', '.join(CARDS)}"
        )
    ours = sorted(set(known.values()))
    if wanted is not None:
        if wanted not in ours:
            raise ValueError(f"{where}: tables of {', '.join(ours)}, none of {wanted}")
        return wanted
    if len(ours) > 1:
        raise ValueError(
            f"{where}: tables of several cards ({', '.join(ours)}); choose one with --hardware, or"
            " give the files of one"
        )
    return ours[0]
