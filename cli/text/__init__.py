"""What commands print: tables of 80 columns, colour, progress and the panel of ``--watch``.

Nothing here runs a simulation.
"""
