"""What makes siblings: key maps, from observations and actions to integers."""
