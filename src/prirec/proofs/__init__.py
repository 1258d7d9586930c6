"""Proofs that a secret-shared vector is no longer than a bound: PINE, for two operators of which one is honest."""
