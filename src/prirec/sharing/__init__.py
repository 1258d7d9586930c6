"""Reals and the ring Z_2^64."""
