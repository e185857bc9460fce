"""The published numbers: tables as files, and `numbers`, which reads them."""
