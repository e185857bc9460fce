"""The tables of the README and of REPRODUCING.md are those of the committed results."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("write_results", ROOT / "docs" / "write_results.py")
assert spec is not None and spec.loader is not None
write_results = importlib.util.module_from_spec(spec)
spec.loader.exec_module(write_results)


def test_a_block_is_replaced_and_the_rest_kept() -> None:
    text = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n"
    assert (
        write_results.fill(text, {"x": "new", "y": "no"}) == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"
    )


@pytest.mark.parametrize("page", write_results.PAGES)
def test_pages_show_the_committed_results(page: str) -> None:
    contents = write_results.blocks()
    text = (ROOT / page).read_text()
    shown = [name for name in contents if f"<!-- {name} -->" in text]
    assert shown, "no block of results on this page"
    assert write_results.fill(text, contents) == text, "run python docs/write_results.py"
