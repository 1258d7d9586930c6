"""Whether an evaluation is fair: what would let the test set into training is found, and refused or flagged."""

from prirec.evaluate.leaks.checking import check, refuse
from prirec.evaluate.leaks.findings import Finding, Findings

__all__ = ["Finding", "Findings", "check", "refuse"]
