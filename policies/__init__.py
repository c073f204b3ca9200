"""What is decided: allocators, batching, queue order, eviction, preemption, prediction, retention.

One folder a kind: ``__init__`` has the table of names, ``base`` the contract where the kind has
one. :mod:`~kvsim.policies.options` has each option of a policy once, with rule, default and unit;
:mod:`~kvsim.policies.registry` finds a policy by its name.
"""
