"""`sibling-replay report`: every artefact beside the paper's, as a page, figures and tables."""
