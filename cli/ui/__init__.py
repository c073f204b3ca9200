"""``kvsim ui``: a page on this machine that compares allocators by clicks.

``command`` starts the server; ``page`` is the script of the page.
"""
