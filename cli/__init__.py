"""The commands: one folder a family, one file a command; heavy imports sit inside the command.

The door is :func:`~kvsim.cli.main.main`, which lists the commands. ``options`` holds what several
commands ask, ``text`` what they print.
"""
