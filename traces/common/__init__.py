"""What everything stands on: text, argument checks, units, JSON values, files.

The ground floor of the house: it imports nothing of ours, and every other folder may import it.
"""
