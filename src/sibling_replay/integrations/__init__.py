"""Adapters for other libraries. Each module needs its own extra and holds no law of its own."""
