"""Statistics over runs and episodes, with a random generator of their own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_RESAMPLES = 2_000


def mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the 95% bootstrap interval of the mean over the first axis: (n, ...) -> two arrays (...)."""
    picks = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
    # Each value's share of each resample: one product instead of an array (resamples, n, ...).
    shares = np.stack([np.bincount(pick, minlength=len(values)) for pick in picks]) / len(values)
    low, high = np.quantile(np.tensordot(shares, values, axes=1), [0.025, 0.975], axis=0)
    return low, high
