"""Model shapes and the bytes they need."""
