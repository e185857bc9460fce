"""Loops, learners and run configurations: the place that composes environments and replay.

`tabular.trainer.train_tabular` is the compiled trainer of the paper's exact-group runs;
`torch.reference.train_reference` states the same algorithm readably, on any Gymnasium environment;
`minatar.session.train_game` trains on MinAtar's games. Both need torch, so they are imported only
on demand.
"""
