"""Changes to a trace after it was read: rate, limits, patience, ties, sessions, parts of it.

Each module is one change: a function from a trace to a trace (or a rule that it applies).
"""
