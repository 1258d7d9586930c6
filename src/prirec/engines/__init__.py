"""Whole training runs: the readable oracle, and the fast one that must equal it."""
