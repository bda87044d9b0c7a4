"""The fully connected layer of the paper's network: torch's implementation compared with this package's.

Forward and backward passes alternate in one process, with one and two threads, for batches of 4 and 48.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.command_line import parser, use_cli_thread_settings
from eva.agent.linear import linear
from eva.experiments.timing.alternating import microseconds_by_round

ROUNDS, REPEATS = 25, 50
NUM_INPUTS, NUM_OUTPUTS = 1568, 256


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    use_cli_thread_settings("benchmarks.linear")
    measure()


def measure() -> None:
    print(f"{'':34}{'torch':>8}{'ours':>8}{'ratio':>8}")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for batch_size in (4, 48):
            for name, passes in (("forward", forward), ("and backward", backward)):
                measures = {"torch": passes(functional.linear, batch_size), "ours": passes(linear, batch_size)}
                theirs, ours = microseconds_by_round(measures, ROUNDS, REPEATS).values()
                ratio = statistics.median(a / b for a, b in zip(theirs, ours, strict=True))
                title = f"{threads} threads, batch {batch_size}, {name}"
                print(f"{title:34}{statistics.median(theirs):8.0f}{statistics.median(ours):8.0f}{ratio:8.2f}")


def forward(layer: Callable[[Tensor, Tensor, Tensor], Tensor], batch_size: int) -> Callable[[], object]:
    parameters = [x.detach() for x in random_parameters(batch_size)]
    return lambda: layer(*parameters)


def backward(layer: Callable[[Tensor, Tensor, Tensor], Tensor], batch_size: int) -> Callable[[], object]:
    parameters = random_parameters(batch_size)
    gradient = torch.ones(batch_size, NUM_OUTPUTS)

    def both() -> None:
        for parameter in parameters:
            parameter.grad = None
        layer(*parameters).backward(gradient)

    return both


def random_parameters(batch_size: int) -> list[Tensor]:
    """Return inputs, weights and bias."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch_size, NUM_INPUTS), (NUM_OUTPUTS, NUM_INPUTS), (NUM_OUTPUTS,))
    return [torch.rand(shape, generator=generator).requires_grad_() for shape in shapes]


if __name__ == "__main__":
    main()
