"""What a GPU does: the kernels of one serving step (a later issue fills this folder)."""
