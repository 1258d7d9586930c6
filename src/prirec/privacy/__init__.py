"""Differential privacy: plans, noise, clipping, the accountant, mechanisms, the rules of the ledger."""
