"""Fair among users: deficit round robin (Shreedhar and Varghese, SIGCOMM 1995), in tokens.

Users with waiting requests stand in a ring. A user's turn adds ``queue.quantum`` tokens to its
deficit; while that pays for its first request, the request enters and its tokens are taken off;
then it is the next user's turn. A user with nothing left to wait keeps no deficit. Within a user
requests are served in order of arrival. Preempted ones have paid: they come before all others.

A request costs the prompt tokens it brings, and its predicted output where there is a predictor;
under ``none`` answers are not charged. So over time each user that always has something waiting
gets the same tokens, to within a quantum and its largest request, however many requests it sends;
and whenever somebody waits there is a head: no capacity is held back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class Fair:
    """See the module docstring. A user is :attr:`Sequence.user`; the ring's first has the turn.

    ``_began`` tells whether that turn has brought its quantum.
    """

    name = "fair"

    def __init__(self, context: PolicyContext) -> None:
        self._predictor = context.predictor
        self._quantum = context.config.queue.quantum
        self._returned: deque[Sequence] = deque()
        self._waiting: dict[str, deque[Sequence]] = {}
        self._ring: deque[str] = deque()
        self._deficit: dict[str, int] = {}
        self._began = False

    def push(self, sequence: Sequence) -> None:
        """A request arrives: last of its user's; a new user comes last in the ring."""
        user = sequence.user
        if user not in self._waiting:
            self._waiting[user] = deque()
            self._ring.append(user)
            self._deficit[user] = 0
        self._waiting[user].append(sequence)

    def push_preempted(self, sequence: Sequence) -> None:
        """A preempted one returns: first of all."""
        self._returned.appendleft(sequence)

    def head(self) -> Sequence:
        """Who is next; O(users)."""
        if self._returned:
            return self._returned[0]
        self._pass_turn()
        return self._waiting[self._ring[0]][0]

    def pop(self) -> Sequence:
        """Take out the head and charge its user."""
        if self._returned:
            return self._returned.popleft()
        self._pass_turn()
        user = self._ring[0]
        sequence = self._waiting[user].popleft()
        self._deficit[user] -= self._cost(sequence)
        self._leave_if_empty(user)
        return sequence

    def remove(self, sequence: Sequence) -> None:
        """Take out one that ended while it waited."""
        if sequence in self._returned:
            self._returned.remove(sequence)
        else:
            self._waiting[sequence.user].remove(sequence)
            self._leave_if_empty(sequence.user)

    def __len__(self) -> int:
        return len(self._returned) + sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[Sequence]:
        """In the order of leaving if nobody else came: plays the turns on a copy."""
        copy = object.__new__(Fair)
        copy._predictor, copy._quantum = self._predictor, self._quantum
        copy._returned = deque(self._returned)
        copy._waiting = {user: deque(queue) for user, queue in self._waiting.items()}
        copy._ring, copy._deficit = deque(self._ring), dict(self._deficit)
        copy._began = self._began
        return iter([copy.pop() for _ in range(len(self))])

    def _leave_if_empty(self, user: str) -> None:
        if not self._waiting[user]:
            del self._waiting[user], self._deficit[user]
            self._began &= user != self._ring[0]
            self._ring.remove(user)

    def _cost(self, sequence: Sequence) -> int:
        if not self._predictor.predicts:
            return sequence.prompt_tokens
        return sequence.prompt_tokens + self._predictor.output_tokens(sequence)

    def _pass_turn(self) -> None:
        """Go round until the first of the ring can pay, whole rounds at once."""
        turns = {
            user: -(-max(self._cost(self._waiting[user][0]) - deficit, 0) // self._quantum)
            for user, deficit in self._deficit.items()
        }
        if self._began:
            if turns[self._ring[0]] == 0:
                return
            self._ring.rotate(-1)  # the turn is over: it comes last
        self._began = True
        fewest = max(min(turns.values()), 1)
        for user in self._ring:
            self._deficit[user] += self._quantum * (fewest - 1)
        while True:
            user = self._ring[0]
            self._deficit[user] += self._quantum
            if turns[user] <= fewest:
                return
            self._ring.rotate(-1)
