"""Ridge regression of noisy sums on public columns: what a place's popularity would be, for all that is public."""

from dataclasses import dataclass, field

import numpy as np

from prirec.types import RealArray

_PENALTIES = np.logspace(-5, 3, 25)  # of the places' number
_MOST = 1 / 3  # degrees of freedom a place: with more, what is predicted would be the noisy sum itself
_COLUMNS = 256  # more of them are not worth a matrix of their squares


@dataclass(frozen=True, slots=True)
class Prediction:
    """m_j, and the variance of y_j around it, fitted degrees of freedom paid for."""

    mean: RealArray = field(repr=False)  # (J,)
    freedom: float  # degrees of freedom, the constant among them
    own: RealArray = field(repr=False)  # (J,): the weight of y_j in m_j

    def spread(self, values: RealArray) -> float:
        """Σ (y - m)² / (J - freedom): how far the values really lie from what is predicted."""
        return float(((values - self.mean) ** 2).sum() / max(len(values) - self.freedom, 1.0))


def predict(values: RealArray, columns: RealArray) -> Prediction:
    """m = ȳ + Zβ, β = (ZᵀZ + λI)⁻¹ Zᵀ(y - ȳ), Z the standardised columns, λ by generalised cross-validation.

    There is at least one place; without columns m is the mean.
    """
    Z = _standardised(columns)
    centre = float(values.mean())
    eigen, basis = np.linalg.eigh(Z.T @ Z)
    d = np.maximum(eigen, 0.0)
    target = basis.T @ (Z.T @ (values - centre))  # t, along the eigenvectors
    square, places = float(((values - centre) ** 2).sum()), len(values)
    allowed = [λ for λ in _PENALTIES * places if _freedom(d, λ) <= _MOST * places] or [_PENALTIES[-1] * places]
    penalty = min(allowed, key=lambda λ: _cross_validated(d, target, square, places, λ))
    β = basis @ (target / (d + penalty))
    own = 1 / places + ((Z @ basis) ** 2 / (d + penalty)).sum(axis=1)
    return Prediction(centre + Z @ β, _freedom(d, penalty), own)


def _freedom(d: RealArray, penalty: float) -> float:
    return 1.0 + float((d / (d + penalty)).sum())


def _cross_validated(d: RealArray, target: RealArray, square: float, places: int, penalty: float) -> float:
    """RSS / (J - df)² up to a factor: RSS = ‖y - ȳ‖² - Σ t²(d + 2λ)/(d + λ)², df = 1 + Σ d/(d + λ)."""
    rest = square - float((target**2 * (d + 2 * penalty) / (d + penalty) ** 2).sum())
    left = places - _freedom(d, penalty)
    return max(rest, 0.0) / max(left, 1.0) ** 2


def _standardised(columns: RealArray) -> RealArray:
    """The columns that vary, at most so many of those that vary most, each with mean 0 and spread 1."""
    spread = columns.std(axis=0)
    kept = np.argsort(-spread, kind="stable")[:_COLUMNS]
    kept = np.sort(kept[spread[kept] > 1e-9])
    Z: RealArray = (columns[:, kept] - columns[:, kept].mean(axis=0)) / spread[kept]
    return Z
