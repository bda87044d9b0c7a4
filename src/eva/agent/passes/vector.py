"""Parameters in one vector: one operation updates all of them, where small ones cost more to call than to compute."""

from collections.abc import Sequence

from torch import Tensor


def join(parameters: Sequence[Tensor]) -> None:
    """Move parameters, of one type and device, into one vector; each keeps its values, shape and strides."""
    vector = parameters[0].new_empty(sum(parameter.numel() for parameter in parameters))
    start = 0
    for parameter in parameters:
        part = vector.as_strided(parameter.shape, parameter.stride(), start)
        parameter.data = part.copy_(parameter.data)
        start += parameter.numel()


def joined(parameters: Sequence[Tensor]) -> Tensor | None:
    """Return the vector that `join` moved these parameters into, or None if they are not in one."""
    storages = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    size = sum(parameter.nbytes for parameter in parameters)
    if len(parameters) < 2 or len(storages) > 1 or parameters[0].untyped_storage().nbytes() != size:
        return None
    return parameters[0].detach().as_strided((size // parameters[0].element_size(),), (1,), 0)


def parts(vector: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return views of a vector like theirs, that lie in it as joined parameters lie in theirs."""
    return [vector.as_strided(p.shape, p.stride(), p.storage_offset()) for p in parameters]
