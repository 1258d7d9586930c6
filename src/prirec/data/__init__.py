"""Data sets: readers of folders and published formats, the synthetic city, filters, negatives, splits."""
