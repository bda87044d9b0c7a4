"""Networks that users bring: torch modules that return values and an embedding, checked before a run starts."""

import hashlib
import re
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from eva.errors import UserError, nearest_name, reason_of
from eva.types import EnvironmentSpec

_NUM_PROBES = 3
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5  # tolerance for sums of another order


@runtime_checkable
class _HasValues(Protocol):
    """A module that knows its last layer."""

    def values(self, embeddings: Tensor) -> Tensor:
        """Return Q_theta, (B, A), of embeddings, (B, D)."""


class OwnNetwork(nn.Module):
    """A user's module as Q_theta: observations (B, ...) to values (B, A) and embeddings (B, D).

    The module gets observations in float32, in the environment's shape and scale: bytes are not divided by 255. It is
    called with a few random ones first, and raises UserError if it cannot be used.
    """

    def __init__(self, module: nn.Module, spec: EnvironmentSpec) -> None:
        super().__init__()
        self.module = module
        self.num_actions = spec.num_actions
        self._last_layer: str | None = None
        probes = _probes(spec)
        q, h = self._call(probes)
        self.embedding_size = h.shape[1]
        if not isinstance(module, _HasValues):
            self._last_layer = self._find_last_layer(q, h)
        self._check(probes, q, h)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q_theta, (B, A), and the embedding, (B, D), of observations (B, ...)."""
        q, h = self.module(observations.float())
        return q, h

    def values(self, embeddings: Tensor) -> Tensor:
        """Return Q_theta of states known by their embeddings (P6), (..., D) -> (..., A)."""
        if isinstance(self.module, _HasValues):
            return self.module.values(embeddings)
        assert self._last_layer is not None
        values: Tensor = self.module.get_submodule(self._last_layer)(embeddings)
        return values

    @property
    def title(self) -> str:
        """The module's class."""
        return type(self.module.module if isinstance(self.module, WithEmbedding) else self.module).__name__

    @property
    def fingerprint(self) -> str:
        """Its class, without the Python module (a script is called __main__), and a digest of its structure."""
        layers = re.sub(r" at 0x[0-9a-f]+", "", repr(self.module))
        tensors = [f"{name} {tuple(x.shape)} {x.dtype}" for name, x in self.module.state_dict().items()]
        return f"{self.title} {hashlib.sha256(chr(10).join([layers, *tensors]).encode()).hexdigest()[:12]}"

    def _call(self, probes: Tensor) -> tuple[Tensor, Tensor]:
        shape = f"float32 observations of shape {tuple(probes.shape)}"
        try:
            output = self.module(probes)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"the network {self.title} failed ({reason_of(error)}) on {shape}: fix it.") from error
        if not (isinstance(output, tuple) and len(output) == 2 and all(isinstance(x, Tensor) for x in output)):
            raise UserError(
                f"the network {self.title} returned a {type(output).__name__}, but must return a tuple (values, "
                "embedding): return both from forward, or use eva.with_embedding(module, layer='NAME')."
            )
        q, h = output
        if q.shape != (len(probes), self.num_actions) or h.ndim != 2 or len(h) != len(probes):
            raise UserError(
                f"the network {self.title} returned values {tuple(q.shape)} and embeddings {tuple(h.shape)} for "
                f"{shape}: return ({len(probes)}, {self.num_actions}) and ({len(probes)}, D)."
            )
        if not (q.dtype == h.dtype == torch.float32):
            raise UserError(f"the network {self.title} returned {q.dtype} and {h.dtype}: return float32.")
        return q, h

    def _find_last_layer(self, q: Tensor, h: Tensor) -> str:
        for name, layer in self.module.named_modules():
            is_candidate = isinstance(layer, nn.Linear) and layer.in_features == h.shape[1]
            if is_candidate and layer.out_features == q.shape[1] and _close(layer(h), q):
                return str(name)
        raise UserError(
            f"the values of the network {self.title} are not one torch.nn.Linear over the embedding that it returns: "
            "return the last layer's input as the embedding, or give the module a method values(embeddings)."
        )

    def _check(self, probes: Tensor, q: Tensor, h: Tensor) -> None:
        """Raise UserError unless the values follow from the embedding, and both from the observation alone."""
        try:
            follows = _close(self.values(h), q)
        except Exception as error:
            raise UserError(f"values of the network {self.title} failed ({reason_of(error)}): fix it.") from error
        if not follows:
            raise UserError(f"the network {self.title} has other values than values(embedding): make them equal.")
        again, fewer = self.module(probes), self.module(probes[:2])  # batch normalisation fails on one
        if not (all(map(_close, again, (q, h))) and all(map(_close, fewer, (q[:2], h[:2])))):
            raise UserError(
                f"the values of the network {self.title} depend on more than the observation (dropout, batch "
                "normalisation, a state): use layers without, such as torch.nn.LayerNorm."
            )
        q.sum().backward()
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad and parameter.grad is None:
                raise UserError(
                    f"the values of the network {self.title} do not depend on its parameter {name}: remove it, or "
                    "freeze it by requires_grad_(False)."
                )
        self.module.zero_grad()


class WithEmbedding(nn.Module):
    """A module that returns values alone, made to return (values, embedding); see `with_embedding`."""

    def __init__(self, module: nn.Module, layer: str) -> None:
        super().__init__()
        layers = {name: each for name, each in module.named_modules() if name}
        if layer not in layers:
            raise UserError(f"{type(module).__name__} has no layer '{layer}': {nearest_name(layer, layers)}")
        self.module = module
        self.layer = layer
        self._last_layer: str | None = None  # found in the first call

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return values, (B, A), and the embedding, (B, D)."""
        if self._last_layer is None:
            self._last_layer = self._find_last_layer(observations)
        calls, values = self._watched([self._last_layer], observations)
        return values, calls[self._last_layer][0]

    def values(self, embeddings: Tensor) -> Tensor:
        """Return the values of embeddings, by the last layer."""
        if self._last_layer is None:
            raise UserError("call the network once before its values: its last layer is not known yet.")
        values: Tensor = self.module.get_submodule(self._last_layer)(embeddings)
        return values

    def extra_repr(self) -> str:
        """Return what `repr` shows."""
        return f"layer={self.layer!r}"

    def _watched(self, names: list[str], observations: Tensor) -> tuple[dict[str, tuple[Tensor, Tensor]], Tensor]:
        """Call the module; return input and output of the layers `names`, and the values.

        Hooks last for one call: a copy of the module would have hooks that write to the original's dict.
        """
        calls: dict[str, tuple[Tensor, Tensor]] = {}

        def watch(name: str) -> torch.utils.hooks.RemovableHandle:
            def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
                calls[name] = (inputs[0], output)

            return self.module.get_submodule(name).register_forward_hook(hook)

        handles = [watch(name) for name in names]
        try:
            values = self.module(observations)
        finally:
            for handle in handles:
                handle.remove()
        return calls, values

    def _find_last_layer(self, observations: Tensor) -> str:
        title = type(self.module).__name__
        linear = [name for name, each in self.module.named_modules() if name and isinstance(each, nn.Linear)]
        calls, values = self._watched([*dict.fromkeys([*linear, self.layer])], observations)
        if not isinstance(values, Tensor):
            raise UserError(
                f"the network {title} returned a {type(values).__name__}: with_embedding is for modules that return a "
                "tensor, the values alone."
            )
        last = [name for name in linear if name in calls and torch.equal(calls[name][1], values)]
        if not last:
            raise UserError(
                f"the values of the network {title} are not the output of a torch.nn.Linear: return (values, "
                "embedding) from forward, and give the module a method values(embeddings)."
            )
        (embedding, _), named = calls[last[-1]], calls.get(self.layer)
        if self.layer == last[-1] or named is None or named[1][0].numel() != embedding.shape[1]:
            raise UserError(
                f"the layer '{self.layer}' is not the one before '{last[-1]}', which takes {embedding.shape[1]} "
                "numbers: name the layer whose output it gets."
            )
        return str(last[-1])


def with_embedding(module: nn.Module, layer: str) -> WithEmbedding:
    """Return `module`, whose output is the values alone, as a network for `train`: it also returns the embedding.

    `layer` names the layer before the last one, as in `module.named_modules()`. The embedding is what the last layer,
    a `torch.nn.Linear`, gets from it: with an activation function in between, its result.
    """
    return WithEmbedding(module, layer)


def _probes(spec: EnvironmentSpec) -> Tensor:
    """Return observations to try a network with; the scale is that of bytes, or about 1."""
    scale = 255 if spec.observation_dtype == np.uint8 else 1
    drawn = np.random.default_rng(0).random((_NUM_PROBES, *spec.observation_shape), np.float32)
    return torch.from_numpy(np.floor(drawn * scale) if scale > 1 else drawn)


def _close(a: Tensor, b: Tensor) -> bool:
    scale = float(b.detach().abs().max())
    return a.shape == b.shape and torch.allclose(a, b, rtol=_RELATIVE, atol=_ABSOLUTE * max(scale, 1e-3))
