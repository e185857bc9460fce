"""Loops, learners and run configurations: the place that composes environments and replay.

`tabular.train` is the compiled trainer of the paper's exact-group runs; `torch_reference` states
the same algorithm readably, on any Gymnasium environment, and is imported only on demand.
"""
