"""`diagnose`: files of transitions to findings, as text and as a page."""
