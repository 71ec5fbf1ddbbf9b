"""A hook of mkdocs: what pages link to outside of docs/ comes along as text, so that no link of the site is dead; and a
search finds the pages for users before those for developers."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from mkdocs.structure.files import File

_LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(```.*?^```)$", re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Links that leave docs/ lead to copies below source/. A target that does not exist stays, and fails the build."""
    if page.file.src_uri.startswith(("adr/", "dev/")):
        page.meta["search"] = {"boost": 0.1}

    def moved(match: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), match[2]))
        if not place.startswith("../"):
            return match[0]
        copy = f"source/{place.removeprefix('../')}.txt"
        if files.get_file_from_path(copy) is None:
            path = posixpath.join(config.docs_dir, place)
            try:
                with open(path, encoding="utf-8") as file:
                    files.append(File.generated(config, copy, content=file.read()))
            except OSError:
                return match[0]
        return match[1] + posixpath.relpath(copy, posixpath.dirname(page.file.src_uri) or ".")

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)
