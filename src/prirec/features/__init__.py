"""X^i (private), X^j (public) and context become X^ij, by public constants only."""
