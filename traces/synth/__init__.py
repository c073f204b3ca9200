"""Made-up traces: arrivals, lengths, shared system prompts and conversations, all seeded.

The door is :mod:`~kvsim.traces.synth.workload`; ``presets`` holds length tables of public traces.
"""
