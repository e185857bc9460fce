"""Approximate sibling keys: observations to discrete codes, frozen before training starts."""
