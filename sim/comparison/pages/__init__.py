"""The page of a comparison: charts and tables in one HTML file, and figures for notebooks.

The door is :func:`~kvsim.sim.comparison.pages.page.comparison_page`.
"""
