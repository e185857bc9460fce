"""MinAtar's games: their runs, network, and what is measured on the way."""
