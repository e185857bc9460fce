"""The compiled trainer of environments with a transition table."""
