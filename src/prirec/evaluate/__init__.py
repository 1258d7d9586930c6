"""How good it is: metrics, comparisons, the report."""
