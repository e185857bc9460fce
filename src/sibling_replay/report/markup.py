"""A laid-out table as Markdown and as LaTeX; the page has a template of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sibling_replay.artefacts.layout import CLOSE, CONFIDENT, Table, TableCell, TableRow

SOURCES = ("ours", "paper", "apart")
MARKS = {"within": "", "near": "*", "apart": "**", "": ""}
NOTE = (
    "ours and paper: mean ± standard error; apart: ours minus the paper's in combined standard "
    f"errors; * more than {CONFIDENT:g}, ** more than {CLOSE:g}"
)


def markdown(table: Table) -> str:
    heads = [*table.label_heads, *([""] if table.compares else []), *table.heads]
    left = len(table.label_heads) + table.compares
    lines = [_pipes(map(_markdown_text, heads))]
    lines.append(_pipes([":--"] * left + ["--:"] * len(table.heads)))
    for block in table.blocks:
        if block.title:
            lines.append(_pipes([f"**{_markdown_text(block.title)}**"] + [""] * (len(heads) - 1)))
        for row in block.rows:
            lines += [_pipes(map(_markdown_text, line)) for line in _lines(row, table.compares)]
    note = f"\n*{NOTE.replace('*', chr(92) + '*')}*\n" if table.judges else ""
    return "\n".join(lines) + "\n" + note


def latex(table: Table, caption: str, label: str) -> str:
    """A float for `booktabs`."""
    columns = len(table.label_heads) + table.compares + len(table.heads)
    kinds = "l" * (columns - len(table.heads)) + "r" * len(table.heads)
    heads = [*table.label_heads, *([""] if table.compares else []), *table.heads]
    lines = [
        r"\begin{table}[t]",
        r"\centering\small",
        rf"\caption{{{_latex_text(caption + (' ' + NOTE + '.' if table.judges else ''))}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}",
        r"\toprule",
        _row(heads, _latex_text),
    ]
    for block in table.blocks:
        lines.append(r"\midrule")
        if block.title:
            lines.append(rf"\multicolumn{{{columns}}}{{@{{}}l}}{{{_latex_text(block.title)}}} \\")
        for row in block.rows:
            lines += [_row(line, _latex_cell) for line in _lines(row, table.compares)]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


def _lines(row: TableRow, compares: bool) -> Iterator[list[str]]:
    """A row as text: one line, or ours, the paper's and the distance below each other."""
    if not compares:
        yield [*row.labels, *(cell.ours if cell else "" for cell in row.cells)]
        return
    for source in SOURCES:
        texts = [_text(cell, source) if cell else "" for cell in row.cells]
        if source == "ours" or any(texts):
            labels = row.labels if source == "ours" else [""] * len(row.labels)
            yield [*labels, source, *texts]


def _text(cell: TableCell, source: str) -> str:
    text: str = getattr(cell, source)
    return text + MARKS[cell.verdict] if source == "apart" else text


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _row(cells: list[str], escape: Callable[[str], str]) -> str:
    return " & ".join(map(escape, cells)) + r" \\"


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "±": r"$\pm$",
    "−": "$-$",
    "∞": r"$\infty$",
    "<": "$<$",
    ">": "$>$",
}
_NUMBER = re.compile(r"[+−]?(\d|∞)[\d.∞±−+, \[\]]*\*{0,2}")


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex_cell(text: str) -> str:
    """A cell that is a number goes into mathematics as a whole; anything else is text."""
    if not _NUMBER.fullmatch(text):
        return _latex_text(text)
    stars = len(text) - len(text.rstrip("*"))
    body = text.rstrip("*").replace("−", "-").replace("±", r"\pm").replace("∞", r"\infty")
    raised = f"^{{{'*' * stars}}}" if stars else ""
    return f"${body}{raised}$"
