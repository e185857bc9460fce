"""The README's snippet for a host, found by its heading."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def code_below(heading: str, text: str | None = None) -> str:
    """The first Python block below `### heading` and above the next heading."""
    text = README.read_text() if text is None else text
    section = re.search(rf"^### {re.escape(heading)}\n(?P<body>.*?)(?=^##|\Z)", text, re.M | re.S)
    if section is None:
        raise LookupError(f"the README has no heading {heading!r}")
    block = re.search(r"^```python[^\n]*\n(?P<code>.*?)^```", section["body"], re.M | re.S)
    if block is None:
        raise LookupError(f"no Python block below {heading!r}")
    return block["code"]
