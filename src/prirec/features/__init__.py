"""Feature encoding: person X^i (private), place X^j (public) and context become a sample X^ij, by public constants."""
