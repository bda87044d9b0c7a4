"""The inspector's page in a real browser, made from real runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from playwright.sync_api import Page as Tab

from eva.inspect.page import inspect_run
from tests.inspector import MAZE, PONG, Page, read_page, trained

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DRAWN = "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
RUNS = {"maze": MAZE, "pong": PONG}
WEIGHT = 0.9


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "no browser to test the page in: install one with 'apt-get install chromium'"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    return {
        name: inspect_run(trained(config, root / name), weight=WEIGHT, max_steps=70).html
        for name, config in RUNS.items()
    }


class Visit:
    """A tab with the page open; what went wrong in it, and what it asked the network for."""

    def __init__(self, tab: Tab, path: Path) -> None:
        self.tab, self.page = tab, read_page(path)
        self.problems: list[str] = []
        self.requests: list[str] = []
        tab.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        tab.on("pageerror", lambda error: self.problems.append(str(error)))
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.goto(path.as_uri())

    @property
    def step(self) -> int:
        return int(self.tab.input_value("#scrubber"))

    def values(self, kind: str) -> np.ndarray:
        cells = self.tab.locator(f"#values tbody td.{kind}")
        return np.array(cells.evaluate_all("cells => cells.map(cell => Number(cell.dataset.value))"))

    def set(self, control: str, value: float) -> None:
        self.tab.fill(f"#{control}", str(value))

    def decision(self, kind: str) -> int:
        return int(self.tab.get_attribute("#decision", f"data-{kind}") or -1)


@pytest.fixture(params=RUNS)
def visit(request: pytest.FixtureRequest, browser: Browser, pages: dict[str, Path]) -> Iterator[Visit]:
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    visit = Visit(tab, pages[request.param])
    yield visit
    assert visit.problems == []
    assert [url for url in visit.requests if not url.startswith(("file:", "data:"))] == []
    tab.close()


def changes(page: Page) -> list[int]:
    return np.flatnonzero(page.values("qTheta").argmax(axis=1) != page.values("qEva").argmax(axis=1)).tolist()


def test_a_visit(visit: Visit) -> None:
    tab, page = visit.tab, visit.page
    changed = changes(page)
    assert len(changed) > 1
    assert visit.step == changed[0], "it opens where the memory first mattered"

    # Scrub: the numbers are those of the step.
    middle = page.num_steps // 2
    visit.set("scrubber", middle)
    assert np.array_equal(visit.values("theta").astype(np.float32), page.values("qTheta")[middle])
    assert np.array_equal(visit.values("np").astype(np.float32), page.values("qNp")[middle])
    assert np.array_equal(visit.values("eva").astype(np.float32), page.values("qEva")[middle])
    entries, distances = page.neighbours(middle)
    cards = tab.locator("#memories > li")
    assert cards.count() == page.meta["numNeighbours"]
    shown = cards.evaluate_all("cards => cards.map(card => [card.dataset.entry, card.dataset.distance].map(Number))")
    told = np.stack([entries, distances], axis=1)[: len(shown)]
    assert np.allclose(shown, told, rtol=1e-6)
    cards.first.locator("summary").click()
    trajectory = page.arrays["entryTrajectories"][entries[0]]
    length = np.diff(page.arrays["trajectoryOffsets"])[trajectory]
    expect(cards.first.locator("tbody tr")).to_have_count(int(length))

    # Jump between changes.
    visit.set("scrubber", 0)
    expected = [step for step in changed if step > 0]
    tab.click("#next")
    assert visit.step == expected[0]
    tab.click("#next")
    assert visit.step == expected[1]
    assert "changed" in tab.inner_text("#decision")
    tab.click("#previous")
    assert visit.step == expected[0]
    assert visit.decision("mixed") != visit.decision("network")

    # Without weight the network decides; with another weight and k, Eq. 1.
    visit.set("weight", 0)
    theta = page.values("qTheta")[expected[0]]
    assert visit.decision("mixed") == visit.decision("network") == theta.argmax()
    assert np.array_equal(visit.values("eva"), theta)
    assert tab.is_disabled("#next")
    for weight, k in ((0.25, 2), (1, 1), (0.6, 2 * page.meta["numNeighbours"])):
        visit.set("weight", weight)
        visit.set("k", k)
        mixed = page.mixed(expected[0], weight, k)
        assert np.allclose(visit.values("eva"), mixed, rtol=1e-5, atol=1e-6)
        assert visit.decision("mixed") == mixed.argmax()
    tab.click("#as-played")
    assert np.array_equal(visit.values("eva").astype(np.float32), page.values("qEva")[expected[0]])


def test_keys_and_play(visit: Visit) -> None:
    tab = visit.tab
    tab.keyboard.press("Home")
    assert visit.step == 0
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowLeft")
    assert visit.step == 1
    tab.keyboard.press("Space")
    assert tab.inner_text("#play") == "Pause"
    expect(tab.locator("#scrubber")).not_to_have_value("1")
    tab.keyboard.press("Space")
    assert tab.inner_text("#play") == "Play"
    paused = visit.step
    tab.wait_for_timeout(400)
    assert visit.step == paused > 1
    tab.keyboard.press("End")
    assert visit.step == visit.page.num_steps - 1


def test_pictures_are_drawn_and_the_page_fits_a_phone(visit: Visit) -> None:
    tab = visit.tab
    for width, scheme in ((360, "dark"), (1600, "light")):
        tab.set_viewport_size({"width": width, "height": 800})
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        for canvas in ("#frame", "#film", "#timeline", "#map", ".self canvas", ".backed"):
            assert tab.locator(canvas).first.evaluate(DRAWN) > 2, canvas
    unnamed = tab.evaluate(
        """[...document.querySelectorAll('button, input, [role=img], [role=group]')].filter(
            e => !(e.ariaLabel || e.textContent.trim() || (e.labels && e.labels.length))).length"""
    )
    assert unnamed == 0
