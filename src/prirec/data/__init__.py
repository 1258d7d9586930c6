"""What each side holds before anything happens: readers, the synthetic city, filters, negatives, splits."""
