"""What a GPU does: the pieces of one serving step, each with a plain reference."""
