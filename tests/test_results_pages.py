"""The tables of the README and of the site are those of the committed results."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest

from sibling_replay.artefacts.statistics import paired_interval
from sibling_replay.running import store
from sibling_replay.studies import all_studies, learning, pendulum, study_named
from sibling_replay.studies.keys import declared as keys_declared
from sibling_replay.studies.keys import tables as keys_tables
from sibling_replay.studies.minatar import tables as minatar_tables
from sibling_replay.studies.minatar.encoders import no_support
from sibling_replay.studies.rivals import limits, networks
from sibling_replay.studies.rivals import tables as rivals_tables
from sibling_replay.studies.study import Source
from support.minatar_frames import encoder_row, row, scored, stack

ROOT = Path(__file__).parent.parent
INTERVAL = re.compile(r"[+−-]\d+\.\d+ \[[+−-]\d+\.\d+, [+−-]\d+\.\d+\]")
sys.path.insert(0, str(ROOT / "docs"))

import site_blocks  # noqa: E402
import write_results  # noqa: E402


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
    assert {"main comparison", "speed"} <= set(shown), "no block of results on this page"
    assert write_results.fill(text, contents) == text, "run python docs/write_results.py"


def test_figures_in_sentences_are_those_of_the_committed_results() -> None:
    """What the study of key maps found, where it is told in words."""
    frame = store.load_runs(ROOT / "results" / "keys.parquet")
    told = {row["hypothesis"][:2] + row["env"]: row["ours"] for row in keys_tables.verdicts(frame)
            if row["metric"] == "evidence"}  # fmt: skip
    readme, keys, beyond = (
        " ".join((ROOT / page).read_text().split())
        for page in ("README.md", "docs/use/keys.md", "docs/reproduce/beyond.md")
    )
    for page in (readme, keys):
        assert told["H1CartPole-v1"] in page and told["H1Acrobot-v1"] in page
    runs = store.load_runs(ROOT / "results" / "pendulum.parquet")
    said = keys_tables.verdicts(runs, "algorithm", pendulum.SETTINGS, pendulum.SEEDS)
    control = {row["hypothesis"][:2] + row["algorithm"]: row["ours"] for row in said
               if row["metric"] == "evidence"}  # fmt: skip
    for page in (readme, keys, beyond):
        assert control["H1SAC"] in page and control["H1TD3"] in page
    assert f"SAMPLE with `Auto` {control['H2SAC']} and {control['H2TD3']} times" in beyond
    late = {
        algorithm: np.mean(keys_tables.late_ratio(keys_tables.of_replay(cell, keys_declared.PER)))
        for algorithm in pendulum.SETTINGS
        for cell in [runs.filter(algorithm=algorithm, condition="mp-tail")]
    }
    assert f"{late['SAC']:.1f} times (SAC) and {late['TD3']:.1f} times (TD3)" in beyond
    ratios = [
        np.mean(keys_tables.late_ratio(keys_tables.of_replay(cell, replay)))
        for env in ("CartPole-v1", "Acrobot-v1")
        for cell in [frame.filter(env=env, condition="mp-tail")]
        for replay in (keys_declared.PER, keys_declared.AUTO)
    ]
    per_cart, auto_cart, per_acrobot, auto_acrobot = ratios
    per = f"{per_cart:.1f} times as often as they are stored in CartPole and {per_acrobot:.1f}"
    assert per in keys and f"`Auto` {auto_cart:.2f} and {auto_acrobot:.2f} times" in keys
    per = f"the rare outcome {per_cart:.1f} times (CartPole) and {per_acrobot:.1f} times (Acrobot)"
    assert per in beyond and f"`Auto` {auto_cart:.2f} and {auto_acrobot:.2f} times" in beyond
    frames = study_named("keys").frames(Source(ROOT / "results", collected=True))
    pixels = keys_tables.pixel_rows(frames[keys_tables.PIXEL_FRAME])
    aucs = {
        name: np.mean([float(r["ours"]) for r in pixels
                       if r["metric"] == "AUC return" and name in r["replay"]])
        for name in ("kmeans", "VQ-VAE", "PER")
    }  # fmt: skip
    assert f"has an AUC of {aucs['kmeans']:.1f} and PER {aucs['PER']:.1f}" in keys
    assert f"AUC {aucs['kmeans']:.1f} beside {aucs['VQ-VAE']:.1f}" in beyond


def test_steps_in_sentences_are_those_of_the_learning_runs() -> None:
    """How soon `DQN` learns beside SB3, where it is told in words."""
    rows = learning.rows(store.load_runs(ROOT / "results" / "learning.parquet"))
    told = {(row["env"], row["learner"], row["metric"]): row["ours"] for row in rows}
    page = (ROOT / "docs/use/dqn.md").read_text()
    for env in learning.SETTINGS:
        ours, theirs = (
            (told[env, who, "steps to it"], told[env, who, "CPU seconds to it"])
            for who in ("DQN, uniform", "SB3, uniform")
        )
        apart = f"after {int(ours[0]):,} steps beside {int(theirs[0]):,}"
        assert f"{apart}, in {ours[1]} s beside {theirs[1]}" in page


def test_differences_in_sentences_are_those_of_the_papers_runs() -> None:
    """What *When it helps* says of FrozenLake-H100/H300."""
    lake = store.load_runs(ROOT / "results" / "exact.parquet").filter(env="FrozenLake-H100/H300")
    auc = {
        method: lake.filter(method=method).sort("seed")["auc_return"].to_numpy()
        for method in ("SAMPLE", "PER", "DDQN")
    }
    page = (ROOT / "docs/understand/when.md").read_text()
    for other in ("PER", "DDQN"):
        gap = paired_interval(auc["SAMPLE"] - auc[other], 1)
        assert f"{gap.value:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]" in page


def test_gains_in_sentences_are_those_of_the_bench() -> None:
    """Every interval of *Which replay?*, and of the sentences on the bench elsewhere."""
    frame = store.load_runs(ROOT / "results" / "rivals.parquet")
    latent = store.load_runs(ROOT / "results" / "rivals-networks.parquet")
    rows = [*rivals_tables.verdict_rows(frame), *rivals_tables.pair_rows(frame)]
    rows += [*rivals_tables.advice_rows(frame, latent), *networks.rows(latent)]
    rows += limits.verdict_rows(store.load_runs(ROOT / "results" / "rivals-limits.parquet"), frame)
    known = {found for row in rows for found in INTERVAL.findall(row["ours"])}
    told = (ROOT / "docs/which.md").read_text()
    for page in ("README.md", "docs/understand/when.md"):
        told += next(
            line for line in (ROOT / page).read_text().splitlines()
            if "he bench](" in line and INTERVAL.search(line.partition("he bench](")[2])
        ).partition("he bench](")[2]  # fmt: skip
    said = [interval.replace("-", "−") for interval in INTERVAL.findall(told)]  # as tables have it
    assert len(said) > 12 and set(said) <= known, set(said) - known


def test_minatar_is_written_as_far_as_there_are_results(tmp_path: Path) -> None:
    assert write_results.latent(tmp_path) == {}
    scored().write_parquet(tmp_path / "minatar.parquet")
    assert list(write_results.latent(tmp_path)) == ["minatar", "tail"]
    encoders = pl.DataFrame([encoder_row("Breakout", 16)], schema=no_support().schema)
    encoders.write_csv(tmp_path / "vqvae.csv")
    contents = write_results.latent(tmp_path)
    assert list(contents) == ["minatar", "tail", "vqvae"]
    page = "".join(f"<!-- {name} -->\n<!-- /{name} -->\n" for name in contents)
    assert contents["minatar"] in write_results.fill(page, contents)


def test_minatar_rows_say_how_long_and_how_many() -> None:
    one = row("SpaceInvaders", "PER", 0, 2.0, "clean")
    text = write_results.minatar(minatar_tables.compare_auc(stack(scored(), one)))
    assert text.splitlines()[2:] == [
        "| game | rewards | whose, steps, seeds | DDQN | PER | SAMPLE | SAMPLE − PER | "
        "SAMPLE − DDQN |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
        "| Breakout | mp-tail | ours, 200,000, 1 |  | 2.00 |  |  |  |",
        "|  |  | paper, 5,000,000, 5 |  | 14.69 ± 0.23 |  |  |  |",
        "| SpaceInvaders | clean | ours, 200,000, 1 |  | 2.00 |  |  |  |",
        "|  |  | paper, 5,000,000, 5 |  | 67.92 ± 3.30 |  |  |  |",
        "| SpaceInvaders | mp-tail | ours, 200,000, 2 | 7.50 ± 1.50 | 3.00 ± 0.00 | "
        "12.00 ± 3.00 | 9.00 ± 3.00 | 4.50 ± 1.50 |",
        "|  |  | paper, 5,000,000, 5 | 73.87 ± 1.72 | 19.62 ± 0.63 | 75.64 ± 0.67 | "
        "56.02 ± 1.04 | 1.77 ± 1.51 |",
    ]


def test_the_tails_effect_is_of_both_conditions() -> None:
    clean = (row("SpaceInvaders", "PER", seed, 13.0 + 10 * seed, "clean") for seed in (0, 1))
    frame = stack(scored(), *clean, row("SpaceInvaders", "SAMPLE", 1, 16.0, "clean"))
    text = write_results.tail(minatar_tables.tail_effect(frame))
    assert text.splitlines()[2:] == [
        "| game | whose, steps, seeds | DDQN | PER | SAMPLE |",
        "| --- | --- | ---: | ---: | ---: |",
        "| SpaceInvaders | ours, 200,000, 1 to 2 |  | -15.00 ± 5.00 | -1.00 |",
        "|  | paper, 5,000,000, 5 |  | -48.30 | -3.54 |",
    ]


def test_encoders_stand_beside_the_papers() -> None:
    rows = [encoder_row("Breakout", 16, paper_perplexity=8.7, updates=2_000)]
    text = write_results.vqvae(pl.DataFrame(rows, schema=no_support().schema))
    assert text.startswith("On 100,000 transitions")
    assert text.splitlines()[-1] == (
        "| Breakout | 2x1, 16 | 0 | 2,000 | 0.030 | 9.0 (8.7) | 0.123 | 102 | 0.950 |"
    )


PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_blocks_of_the_site_are_known() -> None:
    """Every name a page asks for is one that the build knows; and pages ask for all benchmarks."""
    names = {name for page in PAGES for name in site_blocks.names_in(page.read_text())}
    kinds: dict[str, set[str]] = {}
    for name in names:
        kind, colon, what = name.partition(": ")
        kinds.setdefault(kind if colon else "", set()).add(what if colon else name)
    written = set(write_results.blocks())
    assert kinds.pop("") == written, "README blocks that no page shows, or names that are no block"
    assert kinds.pop("report") <= set(site_blocks.entries())
    assert kinds.pop("benchmark") == {path.stem for path in (ROOT / "benchmarks").glob("*.md")}
    assert kinds.pop("file") == {"CHANGELOG.md"}
    assert all((ROOT / path).is_file() for path in kinds.pop("source"))
    assert kinds.pop("state") <= set(all_studies())
    assert "diagnose" in kinds.pop("help") and kinds == {}


def test_how_much_of_a_study_is_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [run.id for run in study_named("testing").declared]
    for there, said in (
        (0, "It has not been run yet"),
        (3, f"3 of {len(runs)} runs are there"),
        (len(runs), f"All {len(runs)} runs of it are there."),
    ):
        frame = pl.DataFrame({"run": runs[:there]}, schema={"run": pl.String})
        monkeypatch.setattr(site_blocks, "all_frames", lambda frame=frame: {"testing": frame})
        assert said in site_blocks.state_of("testing")


def test_a_page_is_filled() -> None:
    page = "a\n\n<!-- benchmark: replay -->\n<!-- /benchmark: replay -->\n\nb\n"
    text = site_blocks.filled(page)
    assert text.startswith("a\n\n") and text.endswith("\n\nb\n") and "## Whole cycles" in text
    with pytest.raises(KeyError):
        site_blocks.filled("<!-- report: none -->\n<!-- /report: none -->")


def test_what_has_no_runs_says_how_to_make_them() -> None:
    assert site_blocks.benchmark("nothing") == "*Not run yet:* `make bench-nothing`"
    frames = {study: frame.clear() for study, frame in site_blocks.all_frames().items()}
    with mock.patch.object(site_blocks, "all_frames", lambda: frames):
        for name in ("exact-results", "tabular-metrics"):
            text = site_blocks.report_block(name, "../")
            assert "\n\n*Not run yet:* `sibling-replay reproduce exact" in text
        assert site_blocks.figure_png("exact-results") is None
    shown = site_blocks.report_block("exact-results", "../")
    assert "![Exact-group results](../figures/exact-results.png)" in shown


def test_help_is_what_the_command_prints() -> None:
    assert site_blocks.help_of("diagnose").startswith("usage: sibling-replay diagnose")
    assert "\x1b" not in site_blocks.help_of("table")
