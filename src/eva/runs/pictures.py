"""Pictures of observations that are images, and enlarged ones."""

import colorsys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eva.agent.network import is_channels_last
from eva.types import EnvironmentSpec, Observations, Pictures


def channel_colours(num: int) -> Pictures:
    """Return a colour for each channel, (C, 3): hues around the circle, every second one darker."""
    shares = [colorsys.hsv_to_rgb(i / num, 0.7, 0.7 if i % 2 else 1.0) for i in range(num)]
    colours: Pictures = (np.array(shares) * 255).round().astype(np.uint8)
    return colours


def legend(spec: EnvironmentSpec) -> dict[str, str]:
    """Return the colour of each plane by its name, as in CSS; empty if observations are no planes."""
    colours = channel_colours(len(spec.plane_names))
    return {
        name.replace("_", " "): "#" + bytes(colour).hex()
        for name, colour in zip(spec.plane_names, colours, strict=True)
    }


def paint(spec: EnvironmentSpec, observations: Observations, low: float, high: float) -> Pictures:
    """Draw n observations that are images: grey and RGB ones unchanged, the newest frame of a stack.

    Images with another number of channels, and planes of 0 and 1, have a colour for each channel: a pixel has the
    colour of its largest value, of the last one if several are equal, and is as bright as that value. Of floats, `low`
    is black and `high` white.
    """
    shape, num_stacked = spec.observation_shape, spec.num_stacked
    frames = observations[:, -(shape[0] // num_stacked) :] if num_stacked > 1 else observations
    images = frames if is_channels_last(frames.shape[1:]) else np.moveaxis(frames, 1, 3)
    if images.dtype == np.uint8:
        low, high = (0.0, 1.0) if spec.plane_names else (0.0, 255.0)
    if images.shape[3] not in (1, 3) or spec.plane_names:
        return _coloured(images, low, high)
    if images.dtype == np.uint8:
        return images
    shades: Pictures = (_shades(images, low, high) * 255).round().astype(np.uint8)
    return shades


def enlarged(picture: Pictures, least: int) -> Pictures:
    """Enlarge a picture, (height, width, C), by a whole factor until its longer side has about `least` pixels."""
    factor = max(1, round(least / max(picture.shape[:2])))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


def _shades(images: NDArray[Any], low: float, high: float) -> NDArray[Any]:
    """Return brightness from 0 to 1."""
    shades: NDArray[Any] = np.clip((images - low) / max(high - low, 1e-9), 0, 1)
    return shades


def _coloured(images: NDArray[Any], low: float, high: float) -> Pictures:
    num = images.shape[3]
    colours, pictures = channel_colours(num), np.empty((*images.shape[:3], 3), np.uint8)
    for picture, image in zip(pictures, images, strict=True):  # one by one: all shades at once would not fit
        shades = _shades(image, low, high)
        largest = num - 1 - shades[..., ::-1].argmax(axis=2)
        picture[:] = (colours[largest] * shades.max(axis=2, keepdims=True)).round()
    return pictures
