"""Readers of trace formats, one file each."""
