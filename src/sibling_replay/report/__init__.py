"""The page, the figures and the tables of everything that was run."""
