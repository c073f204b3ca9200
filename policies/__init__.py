"""What is decided: allocators, batching, queue order, preemption."""
