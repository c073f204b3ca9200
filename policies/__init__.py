"""The policies: allocators, batching, queue order, eviction, preemption, prediction, retention.

Each kind has a folder. Its ``__init__`` has the table of names. Its ``base`` has the contract,
where the kind has one. :mod:`~kvsim.policies.options` declares each option of a policy once, with
rule, default and unit. :mod:`~kvsim.policies.registry` finds a policy by its name.
"""
