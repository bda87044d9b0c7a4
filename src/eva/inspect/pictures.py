"""Draw observations as pictures, and pack pictures into PNG sprite sheets."""

from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eva.inspect.axes import Range
from eva.runs.pictures import paint
from eva.types import EnvironmentSpec, Observations, Pictures

THUMBNAIL_SIZE, PICTURE_SIZE = 42, 200  # pixels of the longer side, at most: of a memory, and of a rendered state
SHEET_COLUMNS, SHEET_ROWS = 16, 16
MOST_FRAME_BYTES = 12_000_000  # of rendered states: with the memories, a page stays below 25 MB
_GREYS = bytes(np.repeat(np.arange(256), 3).tolist())  # a palette: PNG then uses no line filters, which enlarge sprites


class Painter:
    """Draw observations: images as `paint` does, vectors as bars.

    Floats are scaled to the range of `sample`, an image to that of all pixels. Each number of a vector is scaled to its
    `ranges`.
    """

    def __init__(self, spec: EnvironmentSpec, sample: Observations, ranges: Sequence[Range] = ()) -> None:
        self._spec = spec
        self._low, self._high = float(sample.min()), float(sample.max())
        self._ranges = np.array(ranges, np.float64)  # (D, 2)

    def __call__(self, observations: Observations) -> Pictures:
        """Draw n observations."""
        if len(self._spec.observation_shape) == 1:
            return self._bars(observations)
        return paint(self._spec, observations, self._low, self._high)

    def _bars(self, numbers: NDArray[Any]) -> Pictures:
        low, high = self._ranges.T
        filled = np.clip((numbers - low) / (high - low), 0, 1) * THUMBNAIL_SIZE
        rows = np.arange(THUMBNAIL_SIZE)[::-1] + 0.5
        bars = np.where(rows[:, None] < filled[:, None, :], np.uint8(200), np.uint8(40))
        return np.repeat(bars, max(1, THUMBNAIL_SIZE // numbers.shape[1]), axis=2)[..., None]


def thumbnails(pictures: Pictures, size: int = THUMBNAIL_SIZE) -> Pictures:
    """Shrink pictures by a whole factor: each pixel is the mean of a block; incomplete blocks are cut off."""
    _, height, width, channels = pictures.shape
    factor = -(-max(height, width) // size)
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


def limited_sheets(pictures: Pictures, most_bytes: int = MOST_FRAME_BYTES) -> dict[str, Any]:
    """Encode pictures, (n, height, width, channels), halved until they take at most `most_bytes` or are thumbnails."""
    size = max(pictures.shape[1:3])
    while sum(map(len, (encoded := sheets(pictures))["files"])) > most_bytes and size > THUMBNAIL_SIZE:
        size = -(-size // 2)
        pictures = thumbnails(pictures, size)
    return encoded
