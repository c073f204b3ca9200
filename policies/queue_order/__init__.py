"""In which order requests wait."""
