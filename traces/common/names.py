"""Unknown names: the nearest known name, and a sentence with the choices."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TYPO: Final = 0.85
"""Similarity above which a name is a misspelling; the words of the name decide below it."""
_COMMON_WORDS: Final = 0.5
"""Share of the words of two names that both must have."""
_FEWEST_LETTERS: Final = 3
_MOST_SHOWN: Final = 3
_LIST_LETTERS: Final = 90
"""Letters of a list of choices in a sentence; the sentence counts the other choices."""
_FEW_LETTERS: Final = 50
"""The same, if the sentence names the nearest choice."""


def near_names(name: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the known names that ``name`` can mean, best first; at most three, often one.

    In this order: the same name with other separators or capitals, a misspelling, names that begin
    with ``name``, the longest one that ``name`` begins with, names with common words, and names
    with a similarity of at least ``cutoff`` (:func:`difflib.get_close_matches`). Names with a
    number, such as ``h200-sxm``, are seldom misspelt: beginnings come first.
    """
    known = {_plain(one): one for one in names}
    given = _plain(name)
    if not given or given in known:
        return [known[given]] if given else []
    typos = difflib.get_close_matches(given, known, n=1, cutoff=max(cutoff, _TYPO))
    begun = _begun(given, known)
    near = (
        (begun or typos if re.search(r"\d", given) else typos or begun)
        or _with_common_words(given, known)
        or difflib.get_close_matches(given, known, n=1, cutoff=cutoff)
    )
    return [known[one] for one in near]


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `` (did you mean 'NAME'?)``, or an empty text if no name is near."""
    near = near_names(name, names, cutoff)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def unknown(what: str, name: object, names: Iterable[str], more: str = "") -> str:
    """Return the sentence on an unknown name; ``more`` ends the list of choices."""
    return f"{what} {_short(name)} is unknown{meant(str(name), names, 'choices', more)}"


def meant(
    name: str, names: Iterable[str], label: str, more: str = "", *, near: str | None = None
) -> str:
    """Return the nearest name and the choices: `` (did you mean 'a'?); choices: a, b``.

    ``near`` replaces the first part. Few choices are shown where a name is near.
    """
    known = list(names)
    near = nearest(name, known) if near is None else near
    letters = _FEW_LETTERS if near else _LIST_LETTERS
    return f"{near}; {label}: {listed(known, more, letters)}"


def listed(names: Iterable[str], more: str = "", letters: int = _LIST_LETTERS) -> str:
    """Return names with commas; a list too long for a sentence ends with the number of all."""
    known = list(names)
    text = ", ".join(known)
    if len(text) > letters:
        cut = text[:letters].rpartition(", ")[0]
        text = f"{cut}, ... ({len(known)} in all)"
    return f"{text}, {more}" if more else text


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().lower()).strip("-")


def _begun(given: str, known: Iterable[str]) -> list[str]:
    """Names that begin with ``given``, or else the longest one that ``given`` begins with."""
    long_enough = [one for one in known if min(len(one), len(given)) >= _FEWEST_LETTERS]
    longer = sorted(one for one in long_enough if one.startswith(given))
    shorter = sorted((one for one in long_enough if given.startswith(one)), key=len)
    return longer[:_MOST_SHOWN] or shorter[-1:]


def _with_common_words(given: str, known: Iterable[str]) -> list[str]:
    """The name with the largest share of common words (Jaccard index), if it is large enough."""
    words = set(re.split(r"[^a-z0-9]+", given))
    shares = {}
    for one in known:
        others = set(re.split(r"[^a-z0-9]+", one))
        shares[one] = len(words & others) / len(words | others)
    best = max(shares, key=lambda one: shares[one], default="")
    return [best] if shares.get(best, 0) >= _COMMON_WORDS else []


def _short(name: object) -> str:
    text = repr(name)
    return text if len(text) <= 60 else f"{text[:57]}..."
