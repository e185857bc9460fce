"""For the reference: options in docstrings become a list.

Our docstrings say `name: what it is`, one below the other, with further lines indented. Read as
Markdown these would run together.
"""

from __future__ import annotations

import re

import griffe

OPTION = re.compile(r"(?P<names>[a-z_]\w*(?:, [a-z_]\w*)*): (?P<text>\S.*)")


def listed(text: str) -> str:
    """A docstring with its options as items of a list."""
    lines: list[str] = []
    inside = False  # a list has begun, and nothing has ended it
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        option = OPTION.fullmatch(line)
        if option and (inside or not before):
            names = ", ".join(f"`{name}`" for name in option["names"].split(", "))
            lines.append(f"* {names}: {option['text']}")
            inside = True
            continue
        inside = inside and line.startswith("    ")
        lines.append(line)
    return "\n".join(lines)


class OptionLists(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **others: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)
