"""The page of a comparison: its charts and plots, offline HTML.

The door is :func:`~kvsim.sim.comparison.pages.page.comparison_page`.
"""
