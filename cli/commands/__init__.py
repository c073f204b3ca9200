"""The commands without sub-commands, one file each.

``kvsim.cli.main`` lists them.
"""
