"""What every package needs and none owns: reading and writing text, numbers and units."""
