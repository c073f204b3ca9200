"""What it costs: measuring and fitting step costs (a later issue fills this folder)."""
