"""Draw observations as pictures, and pack pictures into PNG sprite sheets."""

import colorsys
from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eva.agent.network import is_channels_last
from eva.types import EnvironmentSpec, Observations

Pictures = NDArray[np.uint8]
"""(n, height, width, channels), with one channel (grey) or three."""

THUMBNAIL_SIZE = 42  # pixels of the longer side, at most
SHEET_COLUMNS, SHEET_ROWS = 16, 16
_GREYS = bytes(np.repeat(np.arange(256), 3).tolist())  # a palette: PNG then uses no line filters, which enlarge sprites


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


class Painter:
    """Draw observations: grey and RGB images unchanged, the newest frame of a stack, vectors as bars.

    Images with another number of channels, and planes of 0 and 1, have a colour for each channel: a pixel has the
    colour of its largest value, of the last one if several are equal, and is as bright as that value. Floats are scaled
    to the range of `sample`: each number of a vector to its own, an image to that of all pixels.
    """

    def __init__(self, spec: EnvironmentSpec, sample: Observations) -> None:
        self._spec = spec
        numbers = sample.reshape(len(sample), -1)
        self._low = numbers.min(axis=0).astype(np.float64)
        self._high = numbers.max(axis=0).astype(np.float64)

    def __call__(self, observations: Observations) -> Pictures:
        """Draw n observations."""
        shape, num_stacked = self._spec.observation_shape, self._spec.num_stacked
        if len(shape) == 1:
            return self._bars(observations)
        frames = observations[:, -(shape[0] // num_stacked) :] if num_stacked > 1 else observations
        images = frames if is_channels_last(frames.shape[1:]) else np.moveaxis(frames, 1, 3)
        if images.shape[3] not in (1, 3) or self._spec.plane_names:
            return self._coloured(images)
        if images.dtype == np.uint8:
            return images
        shades: Pictures = (self._shades(images) * 255).round().astype(np.uint8)
        return shades

    def _shades(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return brightness from 0 to 1; of floats, the smallest value is black and the largest white."""
        if self._spec.plane_names:
            return images
        low, high = (0.0, 255.0) if images.dtype == np.uint8 else (float(self._low.min()), float(self._high.max()))
        shades: NDArray[Any] = np.clip((images - low) / max(high - low, 1e-9), 0, 1)
        return shades

    def _coloured(self, images: NDArray[Any]) -> Pictures:
        num = images.shape[3]
        colours, pictures = channel_colours(num), np.empty((*images.shape[:3], 3), np.uint8)
        for picture, image in zip(pictures, images, strict=True):  # one by one: all shades at once would not fit
            shades = self._shades(image)
            largest = num - 1 - shades[..., ::-1].argmax(axis=2)
            picture[:] = (colours[largest] * shades.max(axis=2, keepdims=True)).round()
        return pictures

    def _bars(self, numbers: NDArray[Any]) -> Pictures:
        span = np.where(self._high > self._low, self._high - self._low, 1)
        filled = np.clip((numbers - self._low) / span, 0, 1) * THUMBNAIL_SIZE
        rows = np.arange(THUMBNAIL_SIZE)[::-1] + 0.5
        bars = np.where(rows[:, None] < filled[:, None, :], np.uint8(200), np.uint8(40))
        return np.repeat(bars, max(1, THUMBNAIL_SIZE // numbers.shape[1]), axis=2)[..., None]


def thumbnails(pictures: Pictures) -> Pictures:
    """Shrink pictures by a whole factor: each pixel is the mean of a block; incomplete blocks are cut off."""
    _, height, width, channels = pictures.shape
    factor = -(-max(height, width) // THUMBNAIL_SIZE)
    rows, columns = max(1, height // factor), max(1, width // factor)
    cut = pictures[:, : rows * factor, : columns * factor]
    blocks = cut.reshape(len(pictures), rows, cut.shape[1] // rows, columns, cut.shape[2] // columns, channels)
    shrunk: Pictures = blocks.mean(axis=(2, 4)).round().astype(np.uint8)
    return shrunk


def sheets(pictures: Pictures) -> dict[str, Any]:
    """Encode pictures for the page: PNG sheets of 16 by 16 pictures, row by row, in base64."""
    num, height, width, channels = pictures.shape
    per_sheet = SHEET_COLUMNS * SHEET_ROWS
    files = []
    for begin in range(0, num, per_sheet):
        part = pictures[begin : begin + per_sheet]
        rows = -(-len(part) // SHEET_COLUMNS)
        grid = np.zeros((rows * SHEET_COLUMNS, height, width, channels), np.uint8)
        grid[: len(part)] = part
        pixels = grid.reshape(rows, SHEET_COLUMNS, height, width, channels).swapaxes(1, 2)
        pixels = pixels.reshape(rows * height, SHEET_COLUMNS * width, channels)
        image, png = Image.fromarray(pixels if channels == 3 else pixels[..., 0]), BytesIO()
        if channels == 1:
            image.putpalette(_GREYS)
        image.save(png, "PNG", optimize=True)
        files.append(b64encode(png.getvalue()).decode())
    return {"width": width, "height": height, "columns": SHEET_COLUMNS, "perSheet": per_sheet, "files": files}
