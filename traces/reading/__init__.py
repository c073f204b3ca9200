"""What all trace formats share: bytes in, batches of rows, cells, columns, one trace out.

A format starts at :class:`~kvsim.traces.reading.base.Reader`; rows are taken in by
:class:`~kvsim.traces.reading.intake.Intake` and put together by ``assemble``.
"""
