"""How a step is composed and what may enter."""
