"""What the user asks to draw where a file has none: arrival times and output lengths.

The doors are :func:`~kvsim.traces.reading.drawn.arrivals.arrival_rule` and
:class:`~kvsim.traces.reading.drawn.output_lengths.OutputRule`.
"""
