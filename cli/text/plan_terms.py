"""Where memory goes, as text: the split of a card, pipeline ranks side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvsim.cli.text.table import table, wrapped
from kvsim.traces.common.readable import amount, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    Document = Mapping[str, Any]

FIRST: Final = 22
"""Width of the labels on the left."""
_GIB: Final = 2**30
_TERM_NAMES: Final = {"kv": "KV", "non_torch": "non-torch"}


def labelled(label: str, text: str) -> list[str]:
    """Lines of one fact, its label on the left."""
    return wrapped(label, text, first_width=FIRST)


def term_lines(document: Document) -> list[str]:
    """Split of memory: what the engine may use, what it spends, what is left for KV."""
    terms = document["terms"]
    what = "one card" if document.get("tp", 1) * document.get("pp", 1) > 1 else "the card"
    lines = [f"memory of {what}, {document['hardware']} under {document['engine']}'s rule"]
    order = [name for name in terms if name != "kv"]
    for index, name in enumerate([*order, "kv"] if len(order) > 1 else ["kv"]):
        term = terms[name]
        sign = "=" if name == "kv" and len(order) > 1 else "-" if index else " "
        assumed = ", assumed" if term["assumed"] else ""
        shown = _TERM_NAMES.get(name, name.replace("_", " "))
        size = f"{sign} {term['bytes'] / _GIB:,.2f} GiB"
        lines += wrapped(
            f"  {shown:<16}{size:>13}", term["formula"] + assumed, first_width=33, hang=2
        )
    return lines


def rank_lines(document: Document) -> list[str]:
    """Pipeline ranks side by side, the binding one named."""
    if not document["ranks"]:
        return []
    rows = [("pipeline rank", "layers", "weights", "KV", "blocks")]
    for rank in document["ranks"]:
        weights = rank["weights_bytes"]
        rows.append(
            (
                f"  {rank['rank']}",
                f"{rank['first_layer']}-{rank['last_layer']}",
                "-" if weights is None else amount(weights),
                amount(rank["kv_bytes"]),
                number(rank["num_blocks"]),
            )
        )
    return [*table(rows, first_width=FIRST), *labelled("binding", document["binding_rank"])]
