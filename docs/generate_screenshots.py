"""Take the inspector's screenshots in docs/images/ of two finished runs: make screenshots MAZE=RUN PONG=RUN."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from eva.inspect.page import inspect_run
from tests.helpers.browser import chromium

TARGET = Path(__file__).with_name("images")
SCHEMES = {"maze": "light", "pong": "dark"}
SIZE = {"width": 1280, "height": 1780}
WEIGHT = 0.4

# Show the change with the largest gain in Q_EVA, among changes whose action was taken.
GO_TO_THE_LARGEST_CHANGE = """() => {
  const gain = (step) => {
    const { theta, eva } = valuesAt(step, data.weight, data.numNeighbours);
    return greedy(eva) === data.actions[step] ? eva[greedy(eva)] - eva[greedy(theta)] : 0;
  };
  go([...current.changed].reduce((best, step) => (gain(step) > gain(best) ? step : best), current.step));
}"""


def main(maze: str, pong: str) -> None:
    """Play an episode with each run and take a screenshot of its page."""
    with chromium() as browser, TemporaryDirectory() as folder:
        for (name, scheme), run in zip(SCHEMES.items(), (maze, pong), strict=True):
            inspection = inspect_run(run, weight=WEIGHT, out=Path(folder) / f"{name}.html")
            tab = browser.new_page(viewport=SIZE, color_scheme=scheme)
            tab.goto(inspection.html.as_uri())
            tab.evaluate(GO_TO_THE_LARGEST_CHANGE)
            tab.wait_for_timeout(500)  # pictures are decoded on first use
            tab.screenshot(path=TARGET / f"inspector-{name}.png")
            print(f"{name}: {inspection.summary}")


if __name__ == "__main__":
    main(*sys.argv[1:])
