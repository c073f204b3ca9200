"""The measuring half: imports the kernels, torch, triton, numpy and scipy, nothing else of ours.

So it runs on a bare GPU image. A session measures *points* (:mod:`.points`) on a *bench*
(:mod:`.bench`) with a *timer* (:mod:`.timing`) and writes a file of raw points.
"""
