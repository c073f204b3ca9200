"""What cannot be combined: one file a settings table, each rule with its sentence.

``setup`` calls these before anything runs.
"""
