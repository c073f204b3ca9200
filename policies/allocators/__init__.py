"""Who owns KV memory and in what shape."""
