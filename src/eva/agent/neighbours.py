"""Exact nearest neighbours under the Euclidean distance, ties newest first."""

from __future__ import annotations

import torch
from torch import Tensor

_UNIT_ROUNDOFF = 2.0**-24  # of float32
_UNDERFLOW = 1e-34  # what products too small for float32 can add up to
_CHUNK = 1 << 15  # rows compared directly at a time: bounds the memory when everything is a duplicate


def squared_norms(keys: Tensor) -> Tensor:
    """Return |x|^2 of each key, (N,) float32, as `nearest` wants it."""
    return keys.double().square().sum(dim=1).float()


def nearest(keys: Tensor, norms: Tensor, born: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the k keys closest to each query.

    `|x|^2 - 2 x.q` takes one matrix product for all queries but loses digits on near-duplicates, so it only proposes
    candidates: all keys that rounding could have kept out of the first k. Their order is that of the directly
    subtracted distance in float64, and the newest first among equals. The answer is that of brute force, always.

    Args:
        keys: What is searched, (N, D) float32.
        norms: Their squared norms, (N,) float32; infinity excludes a key.
        born: When each key was stored, (N,) int64; the larger the newer.
        queries: (E, D) float32.
        k: How many; at least that many keys must not be excluded.

    Returns:
        Indices and squared distances (float64), nearest first, (E, k) each.
    """
    scores = torch.addmm(norms, queries, keys.T, alpha=-2)  # (E, N): the squared distance less |q|^2
    kth_scores = scores.topk(k, dim=1, largest=False).values[:, -1]
    margin = _rounding_margin(norms, queries)
    found = [
        _order_directly(keys, born, query, (row <= limit).nonzero()[:, 0], k)
        for query, row, limit in zip(queries, scores, kth_scores + 2 * margin, strict=True)
    ]
    return torch.stack([indices for indices, _ in found]), torch.stack([distances for _, distances in found])


def _rounding_margin(norms: Tensor, queries: Tensor) -> Tensor:
    """Bound the error of each query's scores, (E,).

    A float32 product of D terms is off by at most about D u |x| |q| in whatever order it is summed; the norms and the
    final subtraction add a few u |x|^2.
    """
    largest = torch.where(norms.isfinite(), norms, 0.0).max().sqrt()
    lengths = queries.norm(dim=1)
    relative = 1.01 * (queries.shape[1] + 8) * _UNIT_ROUNDOFF
    margin: Tensor = relative * (largest**2 + 2 * largest * lengths) + _UNDERFLOW
    return margin


def _order_directly(keys: Tensor, born: Tensor, query: Tensor, candidates: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Sort candidates by their distance in float64, ties newest first, and keep k."""
    distances = torch.cat(
        [(keys[chunk].double() - query.double()).square().sum(dim=1) for chunk in candidates.split(_CHUNK)]
    )
    newest_first = born[candidates].argsort(descending=True)
    order = newest_first[distances[newest_first].argsort(stable=True)][:k]
    return candidates[order], distances[order]
