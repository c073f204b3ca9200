"""What a GPU does: the pieces of one serving step, each with a plain reference.

The door is :mod:`~kvsim.kernels.decoder`, which puts the pieces together. Imports torch only.
"""
