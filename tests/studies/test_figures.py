"""Figures as data: exact numbers from runs that are known, and the same ink every time."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from report_runs import frame_of

from sibling_replay.artefacts import seeds
from sibling_replay.artefacts.panels import (
    Estimate,
    Figure,
    HeatPanel,
    LegendLine,
    LinePanel,
    Mark,
    PointPanel,
)
from sibling_replay.report import matplotlib_ink, places, plotly_ink
from sibling_replay.report.style import STYLES
from sibling_replay.running import store
from sibling_replay.studies import exact as exact_study
from sibling_replay.studies import grid as grid_study
from sibling_replay.studies.grid import ALPHAS as GRID_ALPHAS
from sibling_replay.studies.grid import BETAS as GRID_BETAS

SE = math.sqrt(np.var(np.arange(10), ddof=1) / 10)  # of ten levels one apart


@pytest.fixture(scope="module")
def exact():
    return frame_of("exact")


@pytest.fixture(scope="module")
def grid():
    return frame_of("grid")


EXACT = (
    exact_study.exact_results,
    exact_study.lake_curves,
    exact_study.lake_late,
    exact_study.exact_diagnostics,
    exact_study.lake_auc,
)
GRID = (grid_study.matched_grid, grid_study.outcome_grid, grid_study.bandit_distortion)


def test_exact_results_hold_seeds_means_and_the_papers_numbers(exact):
    figure = exact_study.exact_results(exact)
    assert [(p.title, p.y_label) for p in figure.panels] == [
        ("OutlierBandit", "AUC return"),
        ("TwoChains", "AUC return"),
        ("FrozenLake-H100/H300", "AUC return"),
        ("OutlierBandit", "final success"),
        ("TwoChains", "final success"),
        ("FrozenLake-H100/H300", "late success"),
    ]
    auc = figure.panels[1]
    assert [mark.style for mark in auc.marks] == ["DDQN", "PER", "SAMPLE", "MODEL", "AVG"]
    per = auc.marks[1]
    # at one level from T/4 to T, the area over T is three quarters of the level
    assert per.seeds == tuple(0.75 * (11 + seed) for seed in range(10))
    assert per.ours.mean == pytest.approx(0.75 * 15.5)
    assert per.ours.se == pytest.approx(0.75 * SE)
    assert per.paper == Estimate(0.84, 0.02)
    late = figure.panels[5].marks[-1]
    assert (late.style, late.paper) == ("AVG-g2", Estimate(0.832, 0.021))
    assert late.seeds == tuple(seed / 10 for seed in range(1, 11))


def test_late_windows_leave_out_the_first_half(exact):
    figure = exact_study.lake_late(exact)
    assert [panel.y_label for panel in figure.panels] == [
        "late return", "late success", "IS-weight ESS", "TD-error std",
    ]  # fmt: skip
    sample = figure.panels[2].marks[2]
    assert sample.seeds == tuple(21.0 + seed for seed in range(1, 11))  # no 1000 among them
    assert sample.paper is None


def test_exact_diagnostics_cover_environments_and_methods(exact):
    figure = exact_study.exact_diagnostics(exact)
    assert len(figure.panels) == 9
    assert [panel.log for panel in figure.panels] == [False] * 6 + [True] * 3


def test_both_schedules_and_both_subsets(exact):
    figure = exact_study.lake_auc(exact)
    for panel in figure.panels:
        assert [mark.style for mark in panel.marks][-2:] == ["AVG-g2", "AVG-g4"]
    mild = {mark.style: mark.paper for mark in figure.panels[1].marks}
    assert mild["AVG-g2"] == Estimate(13.47, None) and mild["PER"] is None


def test_curves_average_seeds_in_common_windows(exact):
    figure = exact_study.lake_curves(exact)
    assert [panel.title for panel in figure.panels] == ["FrozenLake-H100/H300", "FrozenLake-H50"]
    per = figure.panels[0].curves[1]
    assert per.style == "PER" and figure.panels[0].x_range == (0.0, 500_000.0)
    assert per.x == (122_500.0, 247_500.0, 372_500.0, 497_500.0)  # windows that hold evaluations
    assert per.y == pytest.approx([16.5] * 4) and per.se == pytest.approx([SE] * 4)


def test_windows_are_half_open_and_average():
    step, value = np.array([1.0, 10.0, 11.0, 40.0]), np.array([1.0, 3.0, 8.0, 5.0])
    found = seeds.windowed(step, value, horizon=40, windows=4)
    assert found.tolist()[:2] == [2.0, 8.0] and math.isnan(found[2]) and found[3] == 5.0


def test_a_mean_curve_uses_the_seeds_that_are_there():
    nan = math.nan
    runs = [np.array([1.0, 2.0, nan]), np.array([3.0, nan, nan])]
    curve = seeds.mean_curve("PER", "PER", [10.0, 20.0, 30.0], runs)
    assert curve.x == (10.0, 20.0) and curve.y == (2.0, 2.0)
    assert curve.se[0] == pytest.approx(1.0) and math.isnan(curve.se[1])


def test_matched_grid_is_paired_and_shares_its_shading_with_the_paper(grid):
    figure = grid_study.matched_grid(grid)
    assert figure.columns == 3 and len(figure.panels) == 6
    ours, paper = figure.panels[0], figure.panels[3]
    assert (ours.title, paper.title) == ("OutlierBandit, ours", "OutlierBandit, paper")
    assert ours.rows == ("0.1", "0.3", "0.6", "1") and ours.columns == ("0", "0.4", "0.7", "1")
    for row in ours.cells:
        for cell in row:  # each SAMPLE run is ten above its PER partner: no spread at all
            assert cell.mean == pytest.approx(7.5) and cell.se == pytest.approx(0.0, abs=1e-12)
    alpha, beta = GRID_ALPHAS.index(0.6), GRID_BETAS.index(0.4)
    assert paper.cells[alpha][beta].mean == 0.954
    assert paper.cells[alpha][beta].se == pytest.approx(0.017, abs=5e-4)  # as the text prints it
    assert ours.limit == paper.limit == pytest.approx(7.5)


def test_a_cell_that_was_not_run_is_empty():
    some = frame_of("grid", lambda c: c.env == "TwoChains" and c.alpha == 0.3)
    figure = grid_study.matched_grid(some)
    assert len(figure.panels) == 2
    assert figure.panels[0].cells[0] == (None,) * 4 and None not in figure.panels[0].cells[1]
    assert figure.panels[1].cells[0][0] is not None  # the paper's is known all the same


def test_outcome_grid_averages_checkpoints_then_seeds(grid):
    figure = grid_study.outcome_grid(grid)
    assert len(figure.panels) == 6 and figure.columns == 3
    tv, shift = figure.panels[0], figure.panels[3]
    assert [curve.label for curve in tv.curves] == [f"PER, α = {a:g}" for a in GRID_ALPHAS]
    assert tv.curves[0].x == GRID_BETAS
    assert tv.curves[0].y == pytest.approx([(1000 + 15.5) / 2] * 4)
    assert tv.curves[0].se == pytest.approx([SE / 2] * 4)
    assert tv.levels[0].y == 0.0 and "identity" in tv.levels[0].label
    printed = shift.curves[-1]
    assert (printed.style, printed.x, printed.y, printed.se) == ("paper", (0.4,), (2.36,), (0.06,))


def test_bandit_distortion_reads_the_rare_reward_from_the_environment(grid):
    figure = grid_study.bandit_distortion(grid)
    share, shift = figure.panels
    assert [curve.style for curve in share.curves] == ["PER", "stored"]
    assert share.curves[0].y == pytest.approx([0.1, 0.1])
    assert share.curves[1].y == pytest.approx([0.01, 0.01])
    assert shift.curves[0].y == pytest.approx([9.0, 9.0])  # 100 (0.10 - 0.01)
    assert shift.curves[1].y == pytest.approx([4.0, 4.0])  # 100 (0.05 - 0.01)
    assert [level.y for level in shift.levels] == [0.0, 6.197, 2.378]


@pytest.mark.parametrize("build", [*EXACT, *GRID])
def test_nothing_run_gives_no_figure(build):
    assert build(store.no_runs()) is None


@pytest.mark.parametrize("build", [exact_study.exact_diagnostics])
def test_runs_without_diagnostics_give_no_diagnostics(build):
    assert build(frame_of("exact", lambda c: c.method == "PER", diagnostics=False)) is None


@pytest.mark.parametrize("build", [*EXACT, *GRID])
def test_every_drawn_name_has_a_look_and_a_description(build, exact, grid):
    figure = build(exact if build in EXACT else grid)
    for entry in figure.legend():
        assert entry.style in STYLES
    for panel in figure.panels:
        said = panel.describe()
        assert panel.title in said and said.endswith(".") and "nan" not in said


@pytest.mark.parametrize("build", [*EXACT, *GRID])
def test_specifications_are_what_plotly_accepts(build, exact, grid):
    """Plotly validates every property; colours are variables of the page until it is drawn."""
    from plotly.graph_objects import Figure as PlotlyFigure

    figure = build(exact if build in EXACT else grid)
    specifications = plotly_ink.specifications(figure)
    assert len(specifications) == len(figure.panels)
    for specification in specifications:
        text = json.dumps(specification, allow_nan=False)
        assert '"--' in text
        PlotlyFigure(_coloured(specification))


def _coloured(part):
    if isinstance(part, str) and part.startswith("--"):
        return "#123456"
    if isinstance(part, dict):
        return {key: _coloured(value) for key, value in part.items()}
    return [_coloured(value) for value in part] if isinstance(part, list) else part


def small_figure() -> Figure:
    mark = Mark("PER", (1.0, 2.0, 6.0), Estimate(2.5, 0.5))
    heat = HeatPanel(
        "map", "β", "α", ("0",), ("1", "2"), ((Estimate(-1.0, 0.25),), (None,)), 2.0, "A − B"
    )
    curve = seeds.mean_curve("SAMPLE", "SAMPLE", [1e3, 2e3], [np.array([1.0, 2.0])])
    return Figure((PointPanel("p", "score", (mark,)), LinePanel("l", "x", "y", (curve,)), heat), 3)


def test_ink_carries_the_numbers():
    points, lines, heat = plotly_ink.specifications(small_figure())
    dots, mean, paper = points["data"]
    assert dots["y"] == [1.0, 2.0, 6.0] and mean["y"] == [3.0] and paper["y"] == [2.5]
    assert mean["error_y"]["array"] == [pytest.approx(math.sqrt(7 / 3))]
    assert "paper: 2.5 ± 0.5" in paper["hovertemplate"]
    assert lines["data"][1]["customdata"] == ["one seed", "one seed"]
    assert heat["data"][0]["z"] == [[-1.0], [None]]
    assert heat["data"][0]["text"] == [["−1.000<br>±0.250"], [""]]


def test_files_are_the_same_bytes_and_say_nothing_of_the_machine(tmp_path):
    first = matplotlib_ink.save(small_figure(), tmp_path / "a", "figure")
    again = matplotlib_ink.save(small_figure(), tmp_path / "b", "figure")
    assert [path.name for path in first] == ["figure.pdf", "figure.png"]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert len(one.read_bytes()) > 5_000
    assert first[0].read_bytes().startswith(b"%PDF")
    for word in (b"CreationDate", b"Matplotlib", str(tmp_path).encode()):
        assert word not in first[0].read_bytes() + first[1].read_bytes()


def test_legend_names_each_thing_once(grid):
    legend = grid_study.outcome_grid(grid).legend()
    assert len(legend) == len(set(legend)) == 6
    assert LegendLine("paper", "paper, α = 0.6", "point") in legend


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.8, 9.0, [1, 2, 5]), (0.7, 3000.0, [1, 10, 100, 1000]), (2.0, 30.0, [2, 5, 10, 20])],
)
def test_log_ticks(low, high, ticks):
    assert places.log_ticks(low, high) == ticks


@pytest.mark.parametrize(
    ("cell", "limit", "text"),
    [
        (Estimate(0.954, 0.017), 0.975, "+0.954 ±0.017"),
        (Estimate(-0.0001, 0.004), 0.975, "0.000 ±0.004"),
        (Estimate(-9.57, 5.07), 21.4, "−9.57 ±5.07"),
        (Estimate(1.9), 21.4, "+1.90"),
    ],
)
def test_cells_print_as_many_digits_as_their_map_needs(cell, limit, text):
    panel = HeatPanel("map", "β", "α", ("0",), ("1",), ((cell,),), limit, "A − B")
    assert places.cell_text(cell, panel, " ") == text
