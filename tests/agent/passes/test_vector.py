from __future__ import annotations

import copy

import torch
from torch import nn

from eva.agent.optimisers import OPTIMISERS
from eva.agent.passes.vector import join, joined, parts

SHAPES = [(4, 3, 2, 2), (4,), (1,)]


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    drawn = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]
    drawn[0].data = drawn[0].data.to(memory_format=torch.channels_last)
    return drawn


def test_joined_parameters_keep_values_shapes_and_strides() -> None:
    before, after = parameters(), parameters()
    assert joined(before) is None
    join(after)
    vector = joined(after)
    assert vector is not None
    assert vector.shape == (4 * 3 * 2 * 2 + 4 + 1,)
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old, new)
        assert old.stride() == new.stride()
    vector.zero_()
    assert all((parameter == 0).all() for parameter in after)
    assert [tuple(part.shape) for part in parts(torch.zeros(len(vector)), after)] == SHAPES


def test_copied_some_or_single_parameters_are_not_joined() -> None:
    whole = parameters()
    join(whole)
    assert joined(copy.deepcopy(whole)) is None
    assert joined(whole[:2]) is None
    assert joined(parameters()[:1]) is None


def test_an_optimiser_trains_joined_parameters_as_others() -> None:
    for name in OPTIMISERS:
        mine, others = parameters(), parameters()
        join(mine)
        optimisers = [OPTIMISERS[name]((str(i), p) for i, p in enumerate(group)) for group in (mine, others)]
        for seed in range(4):
            for optimiser, group in zip(optimisers, (mine, others), strict=True):
                optimiser.zero_grad()
                generator = torch.Generator().manual_seed(seed)
                weights = [torch.randn(shape, generator=generator) for shape in SHAPES]
                sum((weight * p.square()).sum() for weight, p in zip(weights, group, strict=True)).backward()
                nn.utils.clip_grad_norm_(group, 1.0)
                optimiser.step(0.1)
        for one, other in zip(mine, others, strict=True):
            torch.testing.assert_close(one, other)
        states = [optimiser.state_dict() for optimiser in optimisers]
        for key in states[0]:
            for entry, tensor in states[0][key].items():
                torch.testing.assert_close(tensor, states[1][key][entry])
        restored = parameters()
        join(restored)
        again = OPTIMISERS[name]((str(i), p) for i, p in enumerate(restored))
        again.load_state_dict(states[1])  # of parameters that were not joined
        for key, tensors in again.state_dict().items():
            assert all(torch.equal(tensor, states[1][key][entry]) for entry, tensor in tensors.items())
