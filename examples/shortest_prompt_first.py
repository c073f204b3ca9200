"""A queue order that admits the shortest prompt first.

kvsim simulate TRACE --set queue.policy=examples.shortest_prompt_first:ShortestPromptFirst
"""

from bisect import insort


class ShortestPromptFirst:
    """Admit the shortest prompt first; of equal prompts, the one that arrived first."""

    name = "shortest-prompt-first"

    def __init__(self, context):
        self._queue = []

    def push(self, sequence):
        insort(self._queue, sequence, key=lambda one: (one.prompt_tokens, one.arrival_ps))

    push_preempted = push

    def head(self):
        return self._queue[0]

    def pop(self):
        return self._queue.pop(0)

    def remove(self, sequence):
        self._queue.remove(sequence)

    def __len__(self):
        return len(self._queue)

    def __iter__(self):
        return iter(self._queue)
