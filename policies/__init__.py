"""What is decided: allocators, batching, queue order, eviction, preemption, prediction, retention.

One folder a kind. In each, ``base`` is the contract, ``__init__`` the table of names, and the other
files are the policies. Their options are the frozen tables of :mod:`~kvsim.policies.tables`. The
door is :mod:`~kvsim.policies.registry`: it finds a policy by name.
"""
