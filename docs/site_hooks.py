"""Hooks of the site that mkdocs.yml describes: pages from outside docs/, and links that leave docs/."""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that are pages too, and their names on the site."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
INDENT = re.compile(r"^( +)(?=\S)", re.MULTILINE)  # GitHub indents the content of lists by 2, Python-Markdown by 4
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite relative links, which are those of the repository, and lists for the site."""
    uri = page.file.src_uri
    folder = "" if uri in PAGES.values() else posixpath.join("docs", posixpath.dirname(uri))

    def rewritten(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        if not (ROOT / path).exists():
            raise PluginError(f"{uri} links to {match[1]}, which does not exist.")
        on_site = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if on_site is None:
            return address(path, config.repo_url)
        return posixpath.relpath(on_site, posixpath.dirname(uri) or ".")

    parts = FENCE.split(markdown)  # every second part is fenced code
    parts[::2] = [INDENT.sub(r"\1\1", LINK.sub(rewritten, text)) for text in parts[::2]]
    return "".join(parts)


def address(path: str, repository: str | None) -> str:
    """Return the address of a file or folder: in the repository on the web, or without one in this checkout."""
    if not repository:
        return (ROOT / path).as_uri()
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{repository.rstrip('/')}/{kind}/{os.environ.get('GITHUB_SHA', 'HEAD')}/{path}"
