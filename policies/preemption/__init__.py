"""Who is preempted when memory runs out."""
