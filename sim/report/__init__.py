"""Charts and pages of one run, as offline HTML.

The door is :mod:`~kvsim.sim.report.run_page`; ``page`` is the frame that all pages share.
"""
