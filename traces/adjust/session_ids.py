"""Prefix ids of session scope: equal ids of two sessions are two blocks, so rename them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kvsim.traces.trace.trace import Trace


def separate_sessions(trace: Trace) -> None:
    """Make ids of different sessions differ, in place.

    Nothing changes where no id occurs in two sessions; else ids are numbered anew from 0, by
    session and old id. Needs ``trace.session`` and ``trace.prefix``. O(ids log ids).
    """
    assert trace.session is not None, "ids of session scope need sessions"
    assert trace.prefix is not None, "there are no ids"
    prefix = trace.prefix
    code = {session: index for index, session in enumerate(dict.fromkeys(trace.session))}
    owner = np.repeat([code[session] for session in trace.session], np.diff(prefix.offsets))
    pairs, names = np.unique(np.stack([owner, prefix.ids]), axis=1, return_inverse=True)
    if pairs.shape[1] != len(np.unique(prefix.ids)):
        trace.prefix = replace(prefix, ids=names.reshape(-1).astype(np.int64))
