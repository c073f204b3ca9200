"""What is decided: allocators, batching, queue order, eviction, preemption, prediction, retention.

One folder a kind. In each, ``base`` is the contract, ``__init__`` the table of names, and the other
files are the policies. The door is :mod:`~kvsim.policies.registry`: it finds a policy by name.
"""
