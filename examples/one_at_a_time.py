"""A batching policy without batching: each request runs alone until it finishes.

kvsim simulate TRACE --set batching.policy=examples.one_at_a_time:OneAtATime
"""

from kvsim.policies.batching import Admission, Item, ScheduledStep


class OneAtATime:
    """Run one request at a time, as a baseline that shows what batching gains."""

    name = "one-at-a-time"

    def __init__(self, context):
        self._budget = context.config.max_num_batched_tokens

    def compose(self, state):
        step = ScheduledStep()
        if state.running:
            sequence = state.running[0]
            all_known = sequence.num_tokens + sequence.num_output_placeholders
            tokens = min(all_known - sequence.num_computed_tokens, self._budget)
            last = (
                sequence.num_output_placeholders
                and all_known >= sequence.prompt_tokens + sequence.max_tokens
            )
            if tokens and not last and state.allocator.grow(sequence, tokens):
                step.items.append(Item(sequence, tokens, sequence.num_computed_tokens))
        elif len(state.waiting):
            sequence = state.waiting.pop()
            hit = state.allocator.find_hit(sequence)
            tokens = min(sequence.num_tokens - hit.tokens, self._budget)
            state.allocator.admit(sequence, hit, tokens)
            state.running.append(sequence)
            step.admitted.append(Admission(sequence, hit.tokens, False))
            step.items.append(Item(sequence, tokens, hit.tokens))
        step.waits_for = "max_num_seqs" if len(state.waiting) else None
        return step
