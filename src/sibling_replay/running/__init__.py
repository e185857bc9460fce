"""Runs that never get lost: jobs, backends, the store, progress. Knows jobs, not studies."""
