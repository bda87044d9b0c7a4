"""Record an episode as a video: MP4 (H.264, which browsers play), through ffmpeg, or GIF, through Pillow."""

import subprocess
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Protocol

import numpy as np
from PIL import Image

from eva.errors import UserError
from eva.files import check_writable, write_whole
from eva.runs.pictures import enlarged, paint
from eva.types import Observations, Pictured, Pictures, VectorEnvironment

LEAST_SIDE = 400  # small pictures are enlarged until their longer side has about this many pixels
MOST_GIF_PICTURES = 1_000  # later ones are left out: Pillow keeps all of them in memory
_FRAMES_PER_SECOND = 10.0  # of environments that are not `Pictured`


class Video:
    """A file that is written when the `with` block ends without an error; nothing is written before.

    Pictures are those of the environment if it is `Pictured`, otherwise its observations, enlarged.
    """

    def __init__(self, path: Path) -> None:
        """Raise UserError if the file's suffix is unknown, a package is missing, or it cannot be written."""
        if path.suffix not in _ENCODERS:
            raise UserError(f"a video must end in {' or '.join(_ENCODERS)}, unlike '{path.name}': choose another name.")
        if path.suffix == ".mp4":
            _ffmpeg()
        check_writable(path)
        self._path = path
        self._encoder: _Encoder | None = None
        self._shape: tuple[int, ...] = ()
        self._range = (np.inf, -np.inf)

    def __enter__(self) -> "Video":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._encoder is None:
            return
        content = self._encoder.finish(keep=kind is None)
        if kind is None:
            write_whole(self._path, content)

    def add(self, environment: VectorEnvironment, observation: Observations) -> None:
        """Add a picture of the first environment's state, whose observation this is."""
        picture = self._picture(environment, observation)
        if self._encoder is None:
            is_pictured = isinstance(environment, Pictured) and environment.picture is not None
            speed = environment.frames_per_second if is_pictured else _FRAMES_PER_SECOND  # type: ignore[attr-defined]
            self._shape = picture.shape
            self._encoder = _ENCODERS[self._path.suffix](picture.shape[1], picture.shape[0], speed)
        if picture.shape != self._shape:
            raise UserError(f"a picture has the shape {picture.shape}, the first one {self._shape}: fix render().")
        self._encoder.add(picture)

    def _picture(self, environment: VectorEnvironment, observation: Observations) -> Pictures:
        """Return a picture, (height, width, 3), with even sides, which H.264 needs."""
        picture = environment.picture if isinstance(environment, Pictured) else None
        if picture is None:
            picture = self._painted(environment, observation)
        picture = enlarged(picture, LEAST_SIDE)
        height, width, _ = picture.shape
        even: Pictures = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        return even

    def _painted(self, environment: VectorEnvironment, observation: Observations) -> Pictures:
        """Draw an observation; floats are scaled to the range of those so far."""
        spec = environment.spec
        if len(spec.observation_shape) != 3:
            reason = environment.no_picture if isinstance(environment, Pictured) else "it cannot draw"
            raise UserError(
                f"there is nothing to record: the observations are vectors, and the environment gives no picture "
                f"({reason.rstrip('.')}); implement render() for the render mode rgb_array, or record no video."
            )
        self._range = min(self._range[0], float(observation.min())), max(self._range[1], float(observation.max()))
        picture = paint(spec, observation[None], *self._range)[0]
        coloured: Pictures = picture.repeat(3 // picture.shape[2], axis=2)  # grey to RGB
        return coloured


class _Encoder(Protocol):
    def __init__(self, width: int, height: int, frames_per_second: float) -> None: ...

    def add(self, picture: Pictures) -> None: ...

    def finish(self, *, keep: bool) -> bytes:
        """Return the file's content, or give it up; call it once."""


class _Mp4:
    """H.264 by ffmpeg, one thread. The same pictures give the same bytes."""

    def __init__(self, width: int, height: int, frames_per_second: float) -> None:
        self._folder = TemporaryDirectory()
        self._out = Path(self._folder.name, "video.mp4")
        self._errors = TemporaryFile()  # noqa: SIM115  (closed in `finish`)
        raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{frames_per_second:g}"]
        coded = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-preset", "veryfast", "-threads", "1"]
        plain = ["-movflags", "+faststart", "-fflags", "+bitexact", "-flags:v", "+bitexact"]
        command = [_ffmpeg(), "-loglevel", "error", "-nostdin", *raw, "-i", "-", *coded, *plain, str(self._out)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._errors)

    def add(self, picture: Pictures) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(picture.tobytes())
        except BrokenPipeError:
            raise self._failed() from None

    def finish(self, *, keep: bool) -> bytes:
        assert self._process.stdin is not None
        with self._folder, self._errors:
            if not keep:
                self._process.kill()
            try:
                self._process.communicate()  # closes its input and waits
            except BrokenPipeError:
                self._process.wait()
            if not keep:
                return b""
            if self._process.returncode != 0:
                raise self._failed()
            return self._out.read_bytes()

    def _failed(self) -> UserError:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return UserError(f"ffmpeg failed ({' '.join(lines).strip()[:300]}): free disk space, or choose a .gif file.")


class _Gif:
    """The first `MOST_GIF_PICTURES` pictures, repeated forever."""

    def __init__(self, width: int, height: int, frames_per_second: float) -> None:
        self._milliseconds = max(20, round(1000 / frames_per_second))  # browsers slow down GIFs with shorter ones
        self._images: list[Image.Image] = []

    def add(self, picture: Pictures) -> None:
        if len(self._images) < MOST_GIF_PICTURES:
            self._images.append(Image.fromarray(picture).quantize(dither=Image.Dither.NONE))

    def finish(self, *, keep: bool) -> bytes:
        if not keep:
            return b""
        file, (first, *others) = BytesIO(), self._images
        first.save(file, "GIF", save_all=True, append_images=others, duration=self._milliseconds, loop=0)
        return file.getvalue()


_ENCODERS: dict[str, Any] = {".mp4": _Mp4, ".gif": _Gif}


def _ffmpeg() -> str:
    """Return the path of the ffmpeg that the package imageio-ffmpeg brings."""
    try:
        import imageio_ffmpeg
    except ImportError:
        raise UserError(
            "MP4 needs a package that is missing (imageio_ffmpeg): run pip install "
            '"ephemeral-value-adjustments[video]", or record a .gif file or no video.'
        ) from None
    path: str = imageio_ffmpeg.get_ffmpeg_exe()
    return path
