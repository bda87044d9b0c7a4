"""The documentation as a site: every page is in the navigation, links lead somewhere, and pages fit on a phone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mkdocs.exceptions import PluginError
from playwright.sync_api import Browser

from docs.site_hooks import PAGES, ROOT, address, on_page_markdown
from tests.helpers.browser import chromium

REPOSITORY = "https://example.com/eva"
INCLUDED = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


def rewritten(markdown: str, page: str = "api.md", repository: str = REPOSITORY) -> str:
    """Return what the site's Markdown is for a page's text."""
    here: Any = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    return on_page_markdown(markdown, here, SimpleNamespace(repo_url=repository), None)


def test_navigation_lists_every_page_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\ntheme:")[0]
    listed = re.findall(r": ([\w-]+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted([*PAGES.values(), *(path.name for path in (ROOT / "docs").glob("*.md"))])


def test_links_lead_to_pages_or_to_the_repository() -> None:
    assert (
        rewritten("[a](paper.md#p5) [b](#here) [c](https://x.org/y)")
        == "[a](paper.md#p5) [b](#here) [c](https://x.org/y)"
    )
    assert (
        rewritten("[a](docs/paper.md#p5) ![b](docs/images/demo.png)", "index.md")
        == "[a](paper.md#p5) ![b](images/demo.png)"
    )
    assert rewritten("[a](../README.md) [b](../CHANGELOG.md)") == "[a](index.md) [b](changelog.md)"
    assert rewritten("[a](../src/eva/types.py#L3)") == f"[a]({REPOSITORY}/blob/HEAD/src/eva/types.py#L3)"
    assert rewritten("[a](results)", "index.md") == f"[a]({REPOSITORY}/tree/HEAD/results)"
    assert rewritten("```\n[a](nothing)\n```\n") == "```\n[a](nothing)\n```\n"
    with pytest.raises(PluginError, match="nothing\\.md, which does not exist"):
        rewritten("[a](nothing.md)")


def test_links_name_the_published_commit_and_without_repository_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", "abc")
    assert address("README.md", REPOSITORY) == f"{REPOSITORY}/blob/abc/README.md"
    assert address("README.md", "") == (ROOT / "README.md").as_uri()


def test_content_of_lists_is_indented_for_python_markdown() -> None:
    assert rewritten("- a\n\n  b\n") == "- a\n\n    b\n"


def test_included_files_are_run_by_a_test() -> None:
    included = [name for page in (ROOT / "docs").glob("*.md") for name in INCLUDED.findall(page.read_text())]
    assert "examples/own_dqn.py" in included
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in included if Path(name).name not in tests] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    addresses = {"REPOSITORY_URL": REPOSITORY, "SITE_URL": "https://example.com/", "GITHUB_SHA": "abc"}
    environment = os.environ | addresses | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.mark.slow
def test_site_includes_scripts_and_names_no_file_of_this_machine(site: Path) -> None:
    pages = {path.name: path.read_text() for path in site.glob("*.html")}
    assert len(pages) > 20
    assert [name for name, text in pages.items() if "file://" in text or str(ROOT) in text] == []
    assert [
        name
        for name, text in pages.items()
        if re.search(r"<(script|link|img)[^>]+(src|href)=.?https?:(?!//example)", text)
    ] == []
    assert f"{REPOSITORY}/blob/abc/examples/eva_single_file.py" in pages["howto.html"]
    assert "trajectory_centric_planning" in pages["howto.html"]
    assert not list(site.rglob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_width_and_show_no_markup(site: Path, browser: Browser, width: int) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 850})
    for path in sorted(site.glob("*.html")):
        tab.goto(path.as_uri())
        assert tab.evaluate("document.scrollingElement.scrollWidth") <= width, path.name
        paragraphs = tab.locator(".md-content article :is(p, li)").all_text_contents()
        assert path.name == "404.html" or len(paragraphs) > 5
        markup = [text for text in paragraphs if re.search(r"\]\(|--8<--|\n\s*(- |\|)", text)]
        assert markup == [], path.name
