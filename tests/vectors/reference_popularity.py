"""A device's own part of the popularity of a place, with 30 digits: privacy/popularity_estimate.py."""

from math import inf

import mpmath


def own_part(
    *, released: float, opened: float, predicted: float, weight: float, sigma: float, shape: float, added: float
) -> float:
    """What was released, less what would have been without this device."""
    if shape == 0:
        return released
    m = max(predicted - weight * added, predicted / 10)
    return released - (m if shape == inf else float(posterior_mean(opened - added, m, sigma, shape)))


def posterior_mean(y: float, m: float, sigma: float, k: float) -> mpmath.mpf:
    """Over the same steps around the mode of ln s, which are sinh of -6 to 3 in its widths."""
    with mpmath.workdps(30):
        y, m, sigma, k = (mpmath.mpf(x) for x in (y, m, sigma, k))
        b = y - k * sigma**2 / m
        root = mpmath.sqrt(b**2 + 4 * k * sigma**2)
        mode = (b + root) / 2
        width = sigma / mpmath.sqrt(mode * root)
        above = below = mpmath.mpf(0)
        for at in range(101):
            u = mpmath.mpf(-6) + mpmath.mpf(9) * at / 100
            s = mode * mpmath.exp(mpmath.sinh(u) * width)
            log = k * mpmath.sinh(u) * width - (s - mode) * (k / m + (s + mode - 2 * y) / (2 * sigma**2))
            density = mpmath.cosh(u) * mpmath.exp(log)
            above, below = above + density * s, below + density
        return above / below


def own_average(
    *, low: float, high: float, middle: float, spread: float, opened: float, sigma: float, released: float,
    visitors: float, own_visitors: float, added: float, column: str = "",
) -> float:  # fmt: skip
    """The same of an average over visits: of both sums, without what this device has added."""
    fewer = max(max(visitors, 0.0) - own_visitors, 0.0)
    share = fewer * spread / (fewer**2 * spread + sigma**2)
    mean = min(max(middle + share * (opened - added - middle * fewer), -1.0), 1.0)
    return released - (mean * (high - low) + low + high) / 2
