"""Proportional prioritised replay (Schaul et al., 2016, Algorithm 1 and Appendix B.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


class ReferencePriorities:
    """p_i^alpha of the transitions that are there, by their slot."""

    def __init__(self, alpha: float, epsilon: float) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.values: dict[int, float] = {}
        self.seen = [1.0]

    def add(self, slots: Sequence[int]) -> None:
        """Store transitions with maximal priority (line 6)."""
        for slot in slots:
            self.values[slot] = max(self.seen)  # P77

    def remove(self, slots: Sequence[int]) -> None:
        """Forget transitions."""
        for slot in slots:
            self.values.pop(slot, None)

    def update(self, slots: Sequence[int], errors: Sequence[float]) -> None:
        """Set p_j = |delta_j| + epsilon (line 12, Section 3.3)."""
        for slot, error in zip(slots, errors, strict=True):
            self.values[slot] = (abs(error) + self.epsilon) ** self.alpha  # P76
            self.seen.append(self.values[slot])

    def at(self, point: Fraction) -> int:
        """Return the slot that a point of [0, total) falls on when priorities lie one after the other."""
        for slot in sorted(self.values):
            if point < Fraction(self.values[slot]):
                return slot
            point -= Fraction(self.values[slot])
        raise ValueError("the point lies beyond the last priority")

    def sample(self, uniforms: Sequence[float]) -> list[int]:
        """Return what k uniform draws, one from each of k equal ranges of the total, fall on (Appendix B.2.1)."""
        total, k = sum(map(Fraction, self.values.values())), len(uniforms)
        return [self.at((i + Fraction(u)) * total / k) for i, u in enumerate(uniforms)]  # P79

    def importance_weights(self, slots: Sequence[int], beta: float) -> list[float]:
        """Return w_j = (N P(j))^-beta / max_i w_i (line 10)."""
        total, num = sum(self.values.values()), len(self.values)
        weights = [(num * self.values[slot] / total) ** -beta for slot in slots]
        return [weight / max(weights) for weight in weights]  # P78
