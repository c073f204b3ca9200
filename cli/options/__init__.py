"""Options that several commands share.

Each module adds its options to a parser and reads them back.
"""
