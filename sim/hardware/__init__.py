"""Cards: memory, bandwidth, peak rates."""
