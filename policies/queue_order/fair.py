"""Fair among users: deficit round robin (Shreedhar and Varghese, SIGCOMM 1995), in tokens.

Users with waiting requests form a ring. A user's turn adds ``queue.quantum`` tokens to the user's
deficit. While the deficit covers the user's first request, the request is admitted and its cost is
subtracted. Then the next user has the turn. A user without waiting requests keeps no deficit.
Requests of one user are served in order of arrival. Preempted requests were charged already; they
come before all others.

A request costs its prompt tokens, plus its predicted output if there is a predictor. With the
predictor ``none`` outputs are not charged. Consider users that always have a waiting request. Over
time each of them gets the same number of tokens, to within one quantum and its largest request. The
number of requests that a user sends does not matter. Whenever a request waits there is a head, so
no capacity is held back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class Fair:
    """See the module docstring. A user is :attr:`Sequence.user`.

    The first user of the ring has the turn. ``_began`` says whether the quantum of that turn was
    added.
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
        """Add a request behind the others of its user; a new user comes last in the ring."""
        user = sequence.user
        if user not in self._waiting:
            self._waiting[user] = deque()
            self._ring.append(user)
            self._deficit[user] = 0
        self._waiting[user].append(sequence)

    def push_preempted(self, sequence: Sequence) -> None:
        """Add a preempted sequence before all others."""
        self._returned.appendleft(sequence)

    def head(self) -> Sequence:
        """Return the next sequence; O(users)."""
        if self._returned:
            return self._returned[0]
        self._pass_turn()
        return self._waiting[self._ring[0]][0]

    def pop(self) -> Sequence:
        """Remove the head and charge its user."""
        if self._returned:
            return self._returned.popleft()
        self._pass_turn()
        user = self._ring[0]
        sequence = self._waiting[user].popleft()
        self._deficit[user] -= self._cost(sequence)
        self._leave_if_empty(user)
        return sequence

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ended while it waited."""
        if sequence in self._returned:
            self._returned.remove(sequence)
        else:
            self._waiting[sequence.user].remove(sequence)
            self._leave_if_empty(sequence.user)

    def __len__(self) -> int:
        return len(self._returned) + sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[Sequence]:
        """Return the order of admission if no request arrives: plays the turns on a copy."""
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
        """Pass the turn until the first user of the ring can pay, whole rounds at once."""
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
