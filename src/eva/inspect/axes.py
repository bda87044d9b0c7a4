"""Names and ranges of the numbers of an observation that is a vector."""

import math
from dataclasses import dataclass

from eva.types import EnvironmentSpec, Observations

Range = tuple[float, float]

_ANGLES = ("cosine of angle 1", "sine of angle 1", "cosine of angle 2", "sine of angle 2")
NAMES = {  # as documented by Gymnasium, by the environment's name without its version
    "CartPole": ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
    "Acrobot": (*_ANGLES, "angular velocity 1", "angular velocity 2"),
    "MountainCar": ("position", "velocity"),
    "LunarLander": (
        *("x", "y", "x velocity", "y velocity", "angle", "angular velocity"),
        *("left leg contact", "right leg contact"),
    ),
}
_LARGEST_BOUND = 1e6  # larger bounds of a space mean that there is none


@dataclass(frozen=True)
class Axes:
    """Names and ranges, one for each number of an observation."""

    names: tuple[str, ...]
    ranges: tuple[Range, ...]
    bounded: tuple[bool, ...]  # whether the range is that of the observation space, not of the numbers on the page


def axes(spec: EnvironmentSpec, environment_id: str, sample: Observations) -> Axes:
    """Return the axes of observations that are vectors; `sample`, (n, D), are the numbers on the page.

    The range is that of the observation space, or of the sample if the space has none.
    """
    name = environment_id.rpartition(":")[2].rpartition("-v")[0]
    (num,) = spec.observation_shape
    known = NAMES.get(name, ())
    names = known if len(known) == num else tuple(map(str, range(num)))
    bounds = spec.observation_bounds or ((-math.inf, math.inf),) * num
    bounded = tuple(max(map(abs, each)) <= _LARGEST_BOUND for each in bounds)
    found = zip(sample.min(axis=0).tolist(), sample.max(axis=0).tolist(), strict=True)
    pairs = zip(bounds, bounded, found, strict=True)
    ranges = tuple(_range(*(bound if is_bounded else seen)) for bound, is_bounded, seen in pairs)
    return Axes(names, ranges, bounded)


def _range(low: float, high: float) -> Range:
    """Return the range, wider if it is a single number."""
    return (float(low), float(high)) if high > low else (low - 0.5, low + 0.5)
