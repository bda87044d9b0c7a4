"""The inspector's page of real runs, tested in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect
from playwright.sync_api import Page as Tab

from eva.inspect.page import inspect_run
from tests.helpers.agents import changed
from tests.helpers.browser import chromium
from tests.helpers.inspector import MAZE, PONG, Page, read_page, trained

DRAWN = "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
RUNS = {"maze": MAZE, "pong": PONG}
WEIGHT = 0.9
CONTRAST = """([selector, behind]) => {
  const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const luminance = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const parts = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
    const linear = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const [text, back] = [[selector, 'color'], [behind, 'background-color']].map(
    ([which, property]) => luminance(getComputedStyle(document.querySelector(which))[property]));
  return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
}"""  # contrast of a text and its background, as defined by WCAG
TEXTS = [".hint", "thead .theta", "thead .np", "thead .eva", ".outcome .theta", ".outcome .eva", "figcaption", ".scale"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    return {
        name: inspect_run(trained(config, root / name), weight=WEIGHT, max_steps=70).html
        for name, config in RUNS.items()
    }


class Visit:
    """A tab with the page open, its errors and its network requests."""

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


def test_controls_show_the_values_of_the_step(visit: Visit) -> None:
    tab, page = visit.tab, visit.page
    changed = changes(page)
    assert len(changed) > 1
    assert visit.step == changed[0], "it opens at the first change"

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
    expected_cards = np.stack([entries, distances], axis=1)[: len(shown)]
    assert np.allclose(shown, expected_cards, rtol=1e-6)
    for rank, entry in enumerate(entries[: len(shown)]):
        check_pictures(cards.nth(rank), page, entry)
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
    assert tab.get_attribute("#decision", "data-kind") == "changed"
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
        all_mixed = np.array([page.mixed(step, weight, k) for step in range(page.num_steps)])
        num_changed = (page.values("qTheta").argmax(axis=1) != all_mixed.argmax(axis=1)).sum()
        assert f"would change {num_changed} of {page.num_steps} decisions" in tab.inner_text("#what-if")
    tab.click("#as-played")
    assert np.array_equal(visit.values("eva").astype(np.float32), page.values("qEva")[expected[0]])


def check_pictures(card: Locator, page: Page, entry: int) -> None:
    """Check that up to eight steps are shown in order, each once, with the recalled one outlined."""
    trajectory = page.arrays["entryTrajectories"][entry]
    length = np.diff(page.arrays["trajectoryOffsets"])[trajectory]
    labels = card.locator("figure canvas").evaluate_all("canvases => canvases.map(canvas => canvas.ariaLabel)")
    steps = [int(re.search(r"step (\d+) of", label)[1]) - 1 for label in labels]
    assert steps == sorted(set(steps))
    assert len(steps) == min(length, 8)
    own = page.arrays["entrySteps"][entry]
    assert card.locator("figure.self canvas").get_attribute("aria-label") == (
        f"The remembered state, step {own + 1} of {length}"
    )
    assert steps.count(own) == 1
    assert own == length - 1 or steps[-1] == length - 1, "the last step is always shown"


def test_keyboard_playback_and_clicks(visit: Visit) -> None:
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

    # A slider keeps the keys that move it, and no others.
    tab.focus("#weight")
    tab.keyboard.press("ArrowLeft")
    assert float(tab.input_value("#weight")) == pytest.approx(WEIGHT - 0.01)
    assert visit.step == visit.page.num_steps - 1
    tab.keyboard.press("p")
    assert visit.step < visit.page.num_steps - 1
    tab.focus("#scrubber")
    tab.keyboard.press("Space")
    assert tab.inner_text("#play") == "Pause"
    tab.keyboard.press("Space")

    # Film strip and timeline can be clicked.
    tab.keyboard.press("Home")
    tab.click("#film", position={"x": 2, "y": 20})
    assert visit.step == 0
    width = tab.locator("#timeline").bounding_box()["width"]
    tab.click("#timeline", position={"x": width - 10, "y": 50})
    assert visit.step == visit.page.num_steps - 1


def test_page_is_legible_on_small_and_wide_screens_in_light_and_dark(visit: Visit) -> None:
    tab = visit.tab
    for width, scheme in ((375, "dark"), (375, "light"), (1920, "light"), (1920, "dark")):
        tab.set_viewport_size({"width": width, "height": 800})
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        for canvas in ("#frame", "#film", "#timeline", "#map", ".self canvas", ".backed"):
            assert tab.locator(canvas).first.evaluate(DRAWN) > 2, canvas
        for text in TEXTS:
            assert tab.evaluate(CONTRAST, [text, "section"]) >= 4.5, (text, scheme)
        assert tab.evaluate(CONTRAST, [".badge", ".badge"]) >= 4.5, scheme
        for control in ("#play", "#previous", "#next", "#where"):
            box = tab.locator(control).bounding_box()
            assert box["x"] + box["width"] <= width
            assert box["y"] + box["height"] <= 800
        assert tab.locator("#where").bounding_box()["height"] < 30, "on one line"


def test_long_action_names_fit_a_phone(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    path.write_text(pages["maze"].read_text().replace('"left"', '"up right fire, and then some more of it"'))
    tab = browser.new_page(viewport={"width": 375, "height": 800})
    visit = Visit(tab, path)
    assert tab.evaluate("document.documentElement.scrollWidth") == 375
    assert visit.problems == []
    tab.close()


def test_all_controls_have_accessible_names(visit: Visit) -> None:
    tab = visit.tab
    for role, name in (
        ("slider", "Step of the episode"),
        ("slider", "Weight of the memory"),
        ("slider", "Neighbours averaged, k"),
        ("button", "Play"),
        ("button", "Previous change"),
        ("button", "Next change"),
        ("table", "Decision"),
        ("region", "What it was reminded of"),
        ("img", re.compile(r"What the agent sees at step \d+ of \d+")),
        ("img", re.compile(r"Timeline: return .* after \d+ steps")),
        ("img", re.compile(r"Map of the memory: the present state and \d+ recalled ones")),
    ):
        expect(tab.get_by_role(role, name=name)).to_have_count(1)
    unnamed = tab.evaluate(
        """[...document.querySelectorAll('button, input, canvas:not([aria-hidden]), [role=group]')].filter(
            e => !(e.ariaLabel || e.textContent.trim() || (e.labels && e.labels.length))).length"""
    )
    assert unnamed == 0
    step = visit.step
    spoken = tab.get_attribute("#scrubber", "aria-valuetext")
    assert spoken.startswith(f"step {step + 1} of {visit.page.num_steps}, return ")
    assert spoken.endswith(", the memory changes the decision")


def test_pages_without_memories_explain_why(browser: Browser, tmp_path: Path) -> None:
    runs = {
        "empty": (changed(MAZE, steps=1), {"max_steps": 20}, "the memory is empty"),
        "weight 0": (changed(MAZE, steps=300), {"weight": 0.0, "max_steps": 20}, "Run eva inspect with --weight 0.4"),
        "one step": (changed(MAZE, steps=300), {"max_steps": 1}, "no plan was made before it was over"),
    }
    for name, (config, options, note) in runs.items():
        path = inspect_run(trained(config, tmp_path / name), **options).html
        tab = browser.new_page()
        visit = Visit(tab, path)
        tab.keyboard.press("End")
        assert visit.step == visit.page.num_steps - 1 == options["max_steps"] - 1
        assert note in tab.inner_text("#memories-note")
        assert tab.is_disabled("#weight")
        assert tab.is_disabled("#k")
        assert tab.is_disabled("#next")
        assert np.array_equal(visit.values("eva"), visit.page.values("qTheta")[-1])
        assert tab.locator(".scale").is_visible() == (name != "empty")
        assert visit.problems == []
        tab.close()


def test_network_decides_when_k_exceeds_the_value_buffer(browser: Browser, tmp_path: Path) -> None:
    config = changed(MAZE, steps=300, eva={"num_trajectories": 1, "trajectory_length": 7, "plan_period_steps": 50})
    run = trained(config, tmp_path / "run")
    for seed in range(10):  # until the first recalled trajectory has its full length
        tab = browser.new_page()
        visit = Visit(tab, inspect_run(run, seed=seed, weight=WEIGHT, max_steps=20).html)
        held = len(visit.page.neighbours(1)[0])
        if held == 7:
            break
        tab.close()
    assert visit.page.meta["numNeighbours"] <= held == 7
    visit.set("scrubber", 1)
    assert int(tab.get_attribute("#k", "max")) == held
    for k in (held - 1, held):
        visit.set("k", k)
        assert np.allclose(visit.values("eva"), visit.page.mixed(1, WEIGHT, k), rtol=1e-5, atol=1e-6)
    tab.evaluate("k => mix(current.weight, k)", held + 1)
    assert np.array_equal(visit.values("eva"), visit.page.values("qTheta")[1])
    assert f"holds only {held} entries here" in tab.inner_text("#memories-note")
    assert visit.problems == []
    tab.close()


@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desktop"])
def test_vectors_show_named_numbers_and_the_rendered_state(browser: Browser, tmp_path: Path, width: int) -> None:
    config = changed(MAZE, steps=200, environment={"id": "CartPole-v1"})
    path = inspect_run(trained(config, tmp_path / "run"), weight=WEIGHT, max_steps=30).html
    tab = browser.new_page(viewport={"width": width, "height": 900})
    visit = Visit(tab, path)
    visit.set("scrubber", 7)
    rows = tab.locator("#axes tbody tr")
    names = ["cart position", "cart velocity *", "pole angle", "pole angular velocity *"]
    assert rows.locator("th").all_inner_texts() == names
    values = [float(cell.get_attribute("data-value") or "nan") for cell in rows.locator("td[data-value]").all()]
    assert np.array_equal(np.array(values, np.float32), visit.page.arrays["observations"].reshape(-1, 4)[7])
    assert tab.locator("#frame").evaluate("canvas => canvas.width") == 200
    expect(tab.locator("#memories .numbers").first).to_contain_text("cart position")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.problems == []
    tab.close()
