"""Comparison frames laid out, and in Markdown and LaTeX."""

from __future__ import annotations

import math
import re

import polars as pl
import pytest
from report_runs import frame_of

from sibling_replay.artefacts import layout
from sibling_replay.artefacts.layout import Count, RowGroup, Shape, Table, TableCell, TableRow
from sibling_replay.report import markup
from sibling_replay.studies import grid as grid_study


def compared(*rows):
    columns = (
        "env",
        "method",
        "metric",
        "seeds",
        "mean",
        "se",
        "paper_mean",
        "paper_se",
        "distance",
    )
    return pl.DataFrame(rows, schema=columns, orient="row")


@pytest.mark.parametrize(
    ("distance", "word"),
    [(None, ""), (0.0, "within"), (-1.96, "within"), (1.97, "near"), (3.0, "near"),
     (-3.01, "apart"), (math.inf, "apart")],
)  # fmt: skip
def test_verdicts(distance, word):
    assert layout.verdict(distance) == word


def test_counting_says_what_is_missing():
    frame = compared(
        ("TwoChains", "PER", "auc_return", 10, 1.0, 0.1, 1.0, 0.1, 0.0),
        ("TwoChains", "PER", "auc_success", 10, 1.0, 0.1, 2.0, 0.1, -2.5),
        ("TwoChains", "PER", "late_return", 10, 1.0, 0.1, 9.0, 0.1, -60.0),
        ("TwoChains", "PER", "late_success", 10, 1.0, 0.1, None, None, None),
    )
    count = layout.count(frame, published=5)
    assert count == Count(within=1, near=1, apart=1, missing=2) and count.compared == 3
    assert count + count == Count(2, 2, 2, 4)


def test_comparison_is_laid_out_as_the_paper_prints_it():
    frame = compared(
        ("TwoChains", "PER", "auc_return", 10, 0.8061, 0.0104, 0.84, 0.02, -1.31),
        ("TwoChains", "PER", "final_return", 10, 0.94, 0.06, 0.88, 0.13, 0.38),
        ("TwoChains", "AVG", "auc_return", 10, 0.9163, 0.0098, 0.95, 0.01, -2.04),
        ("Lake", "PER", "auc_return", 10, -4.148, 2.381, -8.81, 4.69, 0.885),
        ("Lake", "PER", "late_return", 1, 55.2, math.nan, None, None, None),
    )
    words = {"final_return": "late or final", "late_return": "late or final", "auc_return": "AUC"}
    table = layout.comparison(frame, Shape(rows=("method",), block="env", words=words))
    assert table == Table(
        ("method",),
        ("AUC", "late or final"),
        (
            RowGroup(
                "TwoChains",
                (
                    TableRow(
                        ("PER",),
                        (
                            TableCell("0.806 ± 0.010", "0.84 ± 0.02", "−1.3", "within"),
                            TableCell("0.94 ± 0.06", "0.88 ± 0.13", "+0.4", "within"),
                        ),
                    ),
                    TableRow(
                        ("AVG",), (TableCell("0.916 ± 0.010", "0.95 ± 0.01", "−2.0", "near"), None)
                    ),
                ),
            ),
            RowGroup(
                "Lake",
                (
                    TableRow(
                        ("PER",),
                        (
                            TableCell("−4.15 ± 2.38", "−8.81 ± 4.69", "+0.9", "within"),
                            TableCell("55.20"),
                        ),
                    ),
                ),
            ),
        ),
    )


def test_settings_head_blocks_by_name():
    frame = grid_study.compare(frame_of("grid", lambda c: c.env == "TwoChains" and c.seed < 2))
    shape = Shape(rows=("beta",), block="alpha", words={"alpha": "α", "beta": "β"})
    table = layout.comparison(frame, shape)
    assert [block.title for block in table.blocks] == ["α = 0.1", "α = 0.3", "α = 0.6", "α = 1"]
    assert table.label_heads == ("β",) and table.heads == ("per_auc", "sample_auc", "diff")
    difference = table.blocks[0].rows[0].cells[2]
    assert re.fullmatch(r"7\.5\d* ± 0\.0\d* \[.*, .*\]", difference.ours)


def test_intervals_keep_their_ends():
    frame = pl.DataFrame({"method": ["PER", "AVG"], "iqm": [0.81, None], "iqm_low": [0.78, None],
                          "iqm_high": [0.83, None]})  # fmt: skip
    table = layout.intervals(frame, Shape(rows=("method",)), {"iqm": "IQM"})
    assert [row.cells for row in table.blocks[0].rows] == [
        (TableCell("0.810 [0.780, 0.830]"),),
        (None,),
    ]
    assert not table.compares


@pytest.mark.parametrize(
    ("value", "decimals", "sign", "text"),
    [(-0.0004, 2, True, "0.00"), (-1.25, 1, False, "−1.2"), (2.0, 1, True, "+2.0"),
     (math.inf, 1, True, "+∞"), (-math.inf, 1, True, "−∞")],
)  # fmt: skip
def test_numbers(value, decimals, sign, text):
    assert layout.number(value, decimals, sign) == text


SMALL = Table(
    ("method",),
    ("AUC_1 & <b>",),
    (
        RowGroup(
            "α = 0.6",
            (TableRow(("A|B*",), (TableCell("−4.1 ± 2.4", "−8.8 ± 4.7", "+3.2", "apart"),)),),
        ),
        RowGroup("", (TableRow(("C",), (None,)),)),
    ),
)


def test_markdown():
    text = markup.markdown(SMALL)
    assert text.startswith(
        "| method |  | AUC\\_1 & \\<b\\> |\n"
        "| :-- | :-- | --: |\n"
        "| **α = 0.6** |  |  |\n"
        "| A\\|B\\* | ours | −4.1 ± 2.4 |\n"
        "|  | paper | −8.8 ± 4.7 |\n"
        "|  | apart | +3.2\\*\\* |\n"
        "| C | ours |  |\n"
    )
    assert "combined standard errors" in text


def test_latex():
    text = markup.latex(SMALL, "50 % of α", "small")
    assert r"\caption{50 \% of $\alpha$ ours and paper: mean $\pm$ standard error" in text
    assert r"\label{tab:small}" in text and r"\begin{tabular}{@{}llr@{}}" in text
    assert r"method &  & AUC\_1 \& $<$b$>$ \\" in text
    assert r"\multicolumn{3}{@{}l}{$\alpha$ = 0.6} \\" in text
    assert r"A|B* & ours & $-4.1 \pm 2.4$ \\" in text
    assert r" & apart & $+3.2^{**}$ \\" in text
    for line in text.splitlines():  # every row has as many cells as the table has columns
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert len(re.findall(r"(?<!\\)&", line)) == 2


def test_latex_survives_every_special_character():
    hostile = Table(
        ("x",), (r"\ { } $ # ^ _ ~ %",), (RowGroup("", (TableRow(("&",), (TableCell("1"),)),)),)
    )
    text = markup.latex(hostile, "c", "l")
    assert r"\textbackslash{} \{ \} \$ \# \textasciicircum{} \_ \textasciitilde{} \%" in text
