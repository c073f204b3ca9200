"""Users of a trace: the users among whom ``fair`` shares, and the latencies of each user.

:meth:`Trace.asker` names the user of a request: the user, else the session, else the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.policies.queue_order import Fair
from kvsim.sim.documents.summary import HeaviestUser, OtherUsers, UserMeans, Users
from kvsim.sim.metrics.distribution import statistics
from kvsim.traces.common.text import counted

if TYPE_CHECKING:
    from kvsim.sim.metrics.request_columns import RequestColumns
    from kvsim.traces.trace.trace import Trace


def fair_note(trace: Trace) -> str:
    """Return a sentence on the users that ``fair`` finds in a trace."""
    users, sessions, alone = set[str](), set[str](), 0
    for index in range(len(trace)):
        if trace.user is not None and trace.user[index]:
            users.add(trace.user[index])
        elif trace.session is not None and trace.session[index]:
            sessions.add(trace.session[index])
        else:
            alone += 1
    parts = ((len(users), "user"), (len(sessions), "session"), (alone, "nameless request"))
    told = ", ".join(counted(count, what) for count, what in parts if count)
    return f"queue.policy = {Fair.name!r} shares among {told}"


def summarise_users(trace: Trace, columns: RequestColumns) -> Users | None:
    """Return the TTFT of users, of the user with the most tokens, and of all others; O(n).

    The result is ``None`` when the trace names no users. Requests without a user count as one user.
    """
    if not any(trace.user or ()):
        return None
    codes: dict[str, int] = {}
    user = np.array([codes.setdefault(name, len(codes)) for name in trace.user or ()])
    names = list(codes)
    tokens = np.bincount(user, trace.prompt_tokens + trace.output_tokens)
    first = int(tokens.argmax())
    finished, ttft_s = columns.finished(), columns.ttft_s()
    num_finished = np.bincount(user[finished], minlength=len(names))
    served = num_finished > 0
    sums_s = np.bincount(user[finished], ttft_s[finished], len(names))
    means_s = sums_s[served] / num_finished[served]
    return Users(
        named=len(codes.keys() - {""}),
        mean_ttft_s=UserMeans(
            median=float(np.median(means_s)) if len(means_s) else None,
            worst=float(means_s.max()) if len(means_s) else None,
        ),
        heaviest=HeaviestUser(
            user=names[first],
            tokens_percent=100 * float(tokens[first]) / float(tokens.sum()),
            ttft_s=statistics(ttft_s[finished & (user == first)]),
        ),
        others=OtherUsers(ttft_s=statistics(ttft_s[finished & (user != first)])),
    )
