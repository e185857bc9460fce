"""What studies hand to readers, as data: figures, tables, comparisons, statistics."""
