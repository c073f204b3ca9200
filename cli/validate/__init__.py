"""``kvsim validate`` and its sub-commands, one file each.

``command`` declares them.
"""
