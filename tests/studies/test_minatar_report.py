"""The MinAtar part of the report: its figures, tables, gaps and counts, from hand-made runs."""

from __future__ import annotations

import json

import polars as pl
import pytest
from report_runs import NOTHING

from sibling_replay.artefacts.layout import Count, TableCell
from sibling_replay.envs import GAMES
from sibling_replay.report import build, markup, page, plotly_ink
from sibling_replay.running import store
from sibling_replay.studies.minatar import figures as minatar_figures
from sibling_replay.studies.minatar.coverage import PAPER_STEPS
from sibling_replay.studies.minatar.encoders import no_support, read_support
from sibling_replay.studies.minatar.entries import LATENT
from sibling_replay.studies.minatar.needs import EncoderNeeds, MinAtarNeeds, RateNeeds
from sibling_replay.studies.minatar.runs import PER_RATES, SEEDS
from sibling_replay.training.minatar.config import CONDITIONS, MINATAR_METHODS
from support.minatar_frames import SHORT, encoder_row, row, scored, stack, trial
from support.studies import load_frames

SHORTER = "ours: 200,000 steps, paper: 5,000,000"


def encoders(*rows: dict) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=no_support().schema)


@pytest.fixture(scope="module")
def frames():
    best = [trial("Freeway", "PER", rate, -rate) for rate in PER_RATES]
    return {
        **NOTHING,
        "minatar": stack(scored(), scored("clean")),
        "minatar-rates": stack(*best),
        "vqvae": encoders(
            encoder_row("Breakout", 16, paper_perplexity=8.7),
            encoder_row("SpaceInvaders", 32, seed=1),
        ),
    }


@pytest.fixture(scope="module")
def report(frames):
    return build.build(frames, "sibling-replay report")


def artefact(report, name):
    (found,) = [one for one in report.artefacts if one.entry.name == name]
    return found


def test_the_tail_table_is_the_papers_with_ours_not_judged(report):
    made = artefact(report, "minatar-tail")
    table = made.table
    assert table.label_heads == ("game", "seeds")
    assert table.heads == ("DDQN", "PER", "SAMPLE", "SAMPLE − PER", "SAMPLE − DDQN")
    (block,) = table.blocks
    assert block.title == SHORTER
    breakout, space = block.rows
    assert breakout.labels == ("Breakout", "1")
    assert breakout.cells == (None, TableCell("2.00", "14.69 ± 0.23"), None, None, None)
    assert space.cells[2:4] == (
        TableCell("12.00 ± 3.00", "75.64 ± 0.67"),
        TableCell("9.00 ± 3.00", "56.02 ± 1.04"),
    )
    assert table.compares and not table.judges
    assert made.count == Count(missing=25)
    text = markup.markdown(table)
    assert SHORTER in text and "apart" not in text and "combined" not in text
    assert "combined" not in markup.latex(table, "c", "l")


def test_columns_keep_the_papers_order_whatever_comes_first():
    frame = stack(row("Asterix", "SAMPLE", 0, 1.0), scored())
    made = artefact(build.build({**NOTHING, "minatar": frame}, ""), "minatar-tail")
    assert made.table.heads[:3] == ("DDQN", "PER", "SAMPLE")


def test_the_clean_table_has_the_methods_alone(report):
    made = artefact(report, "minatar-clean")
    assert made.table.heads == ("DDQN", "PER", "SAMPLE")
    assert made.table.blocks[0].rows[1].cells[0] == TableCell("7.50 ± 1.50", "83.39 ± 3.02")
    assert made.count == Count(missing=15)


def test_paired_intervals_stand_beside_the_papers_and_are_not_counted_twice(report):
    made = artefact(report, "minatar-paired")
    (line,) = made.table.blocks[0].rows
    assert line.labels == ("SpaceInvaders", "2")
    assert line.cells[0] == TableCell("+9.00 [−29.12, 47.12]", "+56.02 [53.14, 58.90]")
    assert made.count == Count()


def test_the_tails_effect_is_shown_and_not_counted():
    clean = (row("SpaceInvaders", "PER", seed, 13.0 + 10 * seed, "clean") for seed in (0, 1))
    frame = stack(scored(), *clean, row("SpaceInvaders", "SAMPLE", 1, 16.0, "clean"))
    made = artefact(build.build({**NOTHING, "minatar": frame}, ""), "minatar-effect")
    (line,) = made.table.blocks[0].rows
    assert made.table.heads == ("PER", "SAMPLE") and line.labels == ("SpaceInvaders",)
    assert line.cells == (TableCell("−15.00 ± 5.00 (2)", "−48.30"), TableCell("−1.00 (1)", "−3.54"))
    assert made.count == Count()


def test_runs_of_the_papers_length_are_judged_and_counted():
    frame = stack(scored(), scored(steps=PAPER_STEPS))
    made = artefact(build.build({**NOTHING, "minatar": frame}, ""), "minatar-tail")
    whole, short = made.table.blocks
    assert (whole.title, short.title) == ("5,000,000 steps, as the paper", SHORTER)
    space = whole.rows[1].cells
    assert [cell.verdict for cell in space] == ["apart"] * 4 + ["within"]
    assert all(cell.verdict == "" for line in short.rows for cell in line.cells if cell)
    # Breakout's one run has no error: shown, and counted as missing
    assert made.count == Count(within=1, apart=4, missing=20)


def test_learning_rates(report):
    used, selected = artefact(report, "minatar-rates").table.blocks
    assert used.title == f"used; {SHORTER}" and selected.title == f"selected; {SHORTER}"
    assert used.rows[1].cells == (
        TableCell("3e-5", "3e-5"), TableCell("7.5e-6", "7.5e-6"), TableCell("3e-5", "3e-5"),
    )  # fmt: skip
    assert selected.rows[0].cells == (None, TableCell("1.875e-6", "1.875e-6"), None)


def test_the_encoder_table_says_what_each_was_made_with(report):
    made = artefact(report, "vqvae-grouping")
    assert made.table.label_heads == ("game", "grid, K", "loss", "seed", "updates")
    (block,) = made.table.blocks
    assert block.title == "100,000 transitions of random play"
    first, second = block.rows
    assert first.labels == ("Breakout", "2x1, 16", "bce", "0", "100,000")
    assert [cell.ours for cell in first.cells] == ["0.030", "9.0", "0.123", "102", "0.950"]
    assert [cell.paper for cell in first.cells] == ["", "8.7", "", "", ""]
    assert second.labels[3] == "1"
    assert made.gap.lines == ("no inspected encoder of Asterix, Freeway, Seaquest",)


def test_a_sample_of_another_size_is_named():
    few = {**NOTHING, "vqvae": encoders(encoder_row("Breakout", 16, transitions=800))}
    (block,) = artefact(build.build(few, ""), "vqvae-grouping").table.blocks
    assert block.title == "800 transitions of random play (paper: about 100,000)"


def test_gaps_name_length_runs_and_command(frames):
    gap = MinAtarNeeds(("mp-tail",)).gap(frames)
    assert gap.lines == (
        f"{SHORTER} (Asterix, Freeway, Seaquest, mp-tail: none; Breakout, mp-tail: DDQN 0 of 5 "
        "seeds, PER 1 of 5 seeds, SAMPLE 0 of 5 seeds; SpaceInvaders, mp-tail: 2 of 5 seeds)",
    )
    assert gap.command == "sibling-replay reproduce minatar --condition mp-tail"
    assert not gap.everything
    nothing = MinAtarNeeds().gap(NOTHING)
    assert nothing.everything and nothing.lines == ("none of 150 runs",)
    assert nothing.command == "sibling-replay reproduce minatar"
    bare = {**NOTHING, "minatar": row("Breakout", "PER", 0, 1.0, diagnostics_every=0)}
    assert MinAtarNeeds(("mp-tail",), diagnostics=True).gap(bare).everything
    assert RateNeeds().gap(frames).lines[0] == "Asterix: no run of DDQN, PER, SAMPLE"
    assert RateNeeds().gap(NOTHING).everything and EncoderNeeds().gap(NOTHING).everything


def test_the_whole_study_has_no_gap():
    rows = [
        row(game, method, seed, 1.0, condition, steps=PAPER_STEPS)
        for game in GAMES
        for method in MINATAR_METHODS
        for seed in SEEDS
        for condition in CONDITIONS
    ]
    whole = {**NOTHING, "minatar": stack(*rows)}
    assert MinAtarNeeds().gap(whole) is None and MinAtarNeeds().done(whole) == 150
    assert RateNeeds().gap(whole) is None
    lacking = {**NOTHING, "minatar": stack(*rows[1:])}  # the first is clean Asterix, DDQN, seed 0
    gap = MinAtarNeeds().gap(lacking)
    assert gap.lines == ("5,000,000 steps, as the paper (Asterix, clean: DDQN 4 of 5 seeds)",)
    assert gap.command == "sibling-replay reproduce minatar --game Asterix"


def test_curves_are_at_the_evaluations_with_both_conditions_in_a_row(frames):
    figure = minatar_figures.minatar_curves(frames["minatar"])
    assert [panel.title for panel in figure.panels] == [
        "Breakout, clean, 200,000 steps", "Breakout, mp-tail, 200,000 steps",
        "SpaceInvaders, clean, 200,000 steps", "SpaceInvaders, mp-tail, 200,000 steps",
    ]  # fmt: skip
    assert figure.columns == 2 and figure.note == "Ours: 200,000 steps, paper: 5,000,000."
    ddqn, per, sample = figure.panels[3].curves
    assert ddqn.x == (50_000.0, 100_000.0, 150_000.0, 200_000.0)
    assert ddqn.y == pytest.approx([10.0] * 4) and ddqn.se == pytest.approx([2.0] * 4)  # 8 and 12
    assert (per.style, sample.style) == ("PER", "SAMPLE")
    assert figure.panels[3].x_range == (0.0, SHORT)


def test_diagnostics_are_of_the_late_window_under_mp_tail(frames):
    figure = minatar_figures.minatar_diagnostics(frames["minatar"])
    assert [panel.y_label for panel in figure.panels[:3]] == [
        "IS-weight ESS", "TD-error std", "action L1",
    ]  # fmt: skip
    assert len(figure.panels) == 6 and figure.columns == 3
    ess = figure.panels[3]
    assert ess.title == "SpaceInvaders, 200,000 steps"
    assert [mark.seeds for mark in ess.marks] == [(30.0, 31.0)] * 3
    assert figure.note.startswith("Late window: the final 40,000 steps. Ours: 200,000")


def test_action_l1_averages_frequencies_before_it_takes_the_distance():
    """Gaps that change their sign within the late window cancel; rows without gaps have the mean of
    the windows' distances."""
    old = row("Breakout", "PER", 0, 1.0)
    late = SHORT - 1_000, SHORT
    recorded = {
        "step": late, "action_l1": (0.4, 0.2),
        "action_gap_0": (0.2, -0.1), "action_gap_1": (-0.2, 0.1),
    }  # fmt: skip
    new = old.with_columns(
        pl.Series(f"diagnostic/{name}", [list(values)]) for name, values in recorded.items()
    )
    assert minatar_figures.late_action_l1(new) == pytest.approx([0.1])  # not 0.3
    both = stack(new, old)
    assert minatar_figures.late_action_l1(both) == pytest.approx([0.1, 0.25])


def test_windows_without_an_update_do_not_count():
    """Of so short a run the late window is everything, also what was before the first update."""
    brief = row("Breakout", "PER", 0, 1.0, steps=6_000)
    figure = minatar_figures.minatar_diagnostics(brief)
    assert figure.panels[0].marks[0].seeds == ((1000.0 + 30.0) / 2,)
    assert "the final 6,000 steps" in figure.note


def test_lengths_have_panels_of_their_own(frames):
    long = row("Breakout", "PER", 1, 7.5, steps=PAPER_STEPS)
    figure = minatar_figures.minatar_curves(stack(frames["minatar"], long))
    assert figure.panels[0].title == "Breakout, mp-tail" and len(figure.panels) == 5
    assert figure.panels[0].curves[0].y == pytest.approx([10.0] * 4)
    assert "5,000,000 steps, as the paper; ours: 200,000 steps" in figure.note


@pytest.mark.parametrize(
    "build_figure", [minatar_figures.minatar_curves, minatar_figures.minatar_diagnostics]
)
def test_figures_are_what_plotly_accepts_and_have_descriptions(build_figure, frames):
    assert build_figure(store.no_runs()) is None
    figure = build_figure(frames["minatar"])
    for panel, drawn in zip(figure.panels, plotly_ink.specifications(figure), strict=True):
        assert "nan" not in panel.describe()
        json.dumps(drawn, allow_nan=False)


def test_the_page_says_how_long_our_runs_are(report):
    text = page.render(report)
    parts = text.split("<article ")
    for entry in LATENT.entries:
        (part,) = [part for part in parts if part.startswith(f'id="{entry.name}"')]
        if entry.name != "vqvae-grouping":
            assert SHORTER in part.replace("Ours:", "ours:"), entry.name
    assert "0 of 150 runs, 14 of another length" in text
    assert "No published mean has been compared yet" in text


def test_encoder_tables_are_read_back_and_others_refused(tmp_path, frames):
    path = tmp_path / "vqvae.csv"
    frames["vqvae"].write_csv(path)
    assert read_support(path).equals(frames["vqvae"])
    assert load_frames(tmp_path, collected=True)["vqvae"].equals(frames["vqvae"])
    path.write_text("game,seed\nBreakout,0\n")
    with pytest.raises(store.StoreError, match="not made by `vqvae inspect --csv`"):
        load_frames(tmp_path, collected=False)
    path.write_text("")
    with pytest.raises(store.StoreError, match="not a readable CSV"):
        load_frames(tmp_path, collected=True)


def test_unlike_runs_are_refused_before_anything_is_written(tmp_path):
    other = row("SpaceInvaders", "SAMPLE", 0, 1.0, encoder="f" * 32)
    stack(scored(), other).write_parquet(tmp_path / "minatar.parquet")
    with pytest.raises(ValueError, match="differ in encoder"):
        load_frames(tmp_path, collected=True)
