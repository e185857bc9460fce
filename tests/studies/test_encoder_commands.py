"""The encoders of the MinAtar study: which are taken, inspected, recommended, refused."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sibling_replay import cli
from sibling_replay.checkpoint import StateError
from sibling_replay.grouping.vqvae.encoder import FrozenEncoder, Weights
from sibling_replay.grouping.vqvae.files import (
    EncoderConfig,
    EncoderFile,
    encoder_files,
    load_encoder,
    save_encoder,
)
from sibling_replay.grouping.vqvae.support import CodeSupport
from sibling_replay.studies import study_named
from sibling_replay.studies.minatar.encoders import (
    Inspection,
    inspect,
    read_support,
    recommend,
    support_frame,
)
from sibling_replay.studies.minatar.study import encoder_lines
from sibling_replay.studies.study import Choice


def inspection(
    loss: float, supported: float, median: float, codes: int, keys: int = 9
) -> Inspection:
    file = encoder_file(EncoderConfig("Breakout", codes=codes), loss)
    sizes = (1.0, 2.0, 3.0, 4.0, 5.0)
    return Inspection(file, CodeSupport(1000, 5.0, 0.5, median, supported, sizes, codes, keys))


def encoder_file(config: EncoderConfig, loss: float) -> EncoderFile:
    rng = np.random.default_rng(0)
    shapes = ((3, 3, 4, 8), (8,), (3, 3, 8, 8), (8,), (8, 4), (4,), (config.codes, 4))
    weights = Weights(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    return EncoderFile(FrozenEncoder(weights, config.grid), config, "data", loss)


def test_the_finest_encoder_with_enough_support_is_recommended() -> None:
    coarse = inspection(0.06, 0.99, 400, 8)
    good = inspection(0.03, 0.80, 40, 16)
    thin = inspection(0.02, 0.60, 40, 32)
    rare = inspection(0.01, 0.90, 5, 256)
    assert recommend([coarse, good, thin, rare]) is good
    assert recommend([thin, rare]) is rare
    other = replace(rare, file=replace(rare.file, config=replace(rare.file.config, loss="mse")))
    with pytest.raises(ValueError, match="of one loss"):
        recommend([good, other])  # nats and squares
    frame = support_frame([coarse, good])
    assert frame["paper_perplexity"].to_list() == [None, 8.7]
    assert frame["frac_ge_100"].to_list() == [0.99, 0.8]


def test_an_encoder_of_one_code_is_never_recommended() -> None:
    """All that an action did is its group: large, and no siblings."""
    collapsed = inspection(0.01, 1.0, 16_000, 8, keys=1)
    good, thin = inspection(0.03, 0.80, 40, 16), inspection(0.02, 0.10, 2, 32)
    assert recommend([collapsed, good]) is good
    assert recommend([collapsed, thin]) is thin
    assert recommend([collapsed, collapsed]) is None


def test_a_sweep_of_collapsed_encoders_says_so(tmp_path: Path, capsys, monkeypatch) -> None:
    config = EncoderConfig("Breakout", (1, 1), 4)
    file = encoder_file(config, 0.5)
    far = file.encoder.weights.codebook.copy()
    far[1:] += 1e6
    encoder = FrozenEncoder(file.encoder.weights._replace(codebook=far), (1, 1))
    save_encoder(tmp_path / f"{config.name}.npz", replace(file, encoder=encoder))
    with pytest.raises(SystemExit) as end:
        cli.main(["vqvae", "sweep", "--game", "Breakout", "--grids", "1x1", "--codes", "4",
                  "--transitions", "300", "--out", str(tmp_path)])  # fmt: skip
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "collapsed to one code: Breakout-1x1-4-bce-seed0" in said
    assert "recommended: none of loss bce" in said


def test_a_damaged_encoder_is_called_an_encoder(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    save_encoder(path, encoder_file(EncoderConfig("Breakout"), 0.5))
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(StateError, match=r"mine\.npz is not a complete encoder file .*copy it"):
        load_encoder(path)


def encoders_said(*games: str, place: Path | None, methods=("SAMPLE", "PER")) -> list[str]:
    options = {} if place is None else {"encoders": place}
    choice = Choice(envs=games, methods=methods, settings={"steps": 100}, options=options)
    return encoder_lines(choice, study_named("minatar").runs(choice))


def test_the_encoders_of_a_study_are_said(tmp_path: Path) -> None:
    place = tmp_path / "encoders"
    place.mkdir()
    mine = encoder_file(EncoderConfig("Breakout", codes=8, seed=4), 0.5)
    save_encoder(place / "mine.npz", mine)
    digest, shipped = mine.encoder.digest, encoder_files()["Freeway"].encoder.digest
    own = f"encoder Breakout-2x1-8-bce-seed4: 2x1 codes of 8, bce, digest {digest} (of {place})"
    package = (
        f"encoder Freeway-2x1-16-bce-seed0: 2x1 codes of 16, bce, digest {shipped} (of the package"
    )
    assert encoders_said("Breakout", "Freeway", place=place) == [
        own, f"{package}, as {place} has none of Freeway)"
    ]  # fmt: skip
    assert encoders_said("Freeway", place=None) == [f"{package})"]
    file = place / "mine.npz"
    assert encoders_said("Breakout", place=file) == [own.replace(str(place), str(file))]
    with pytest.raises(ValueError, match="no encoder of Freeway is there"):
        encoders_said("Freeway", place=place)
    with pytest.raises(ValueError, match="no chosen run has any"):
        encoders_said("Breakout", place=place, methods=("PER",))

    save_encoder(place / "copy.npz", mine)  # the same one twice is one
    assert encoders_said("Breakout", place=place) == [own]
    other = EncoderConfig("Breakout", codes=16)
    save_encoder(place / "other.npz", encoder_file(other, 0.5))  # of the paper's form: no matter
    with pytest.raises(
        ValueError, match=r"several encoders of Breakout \(.*other\.npz\): leave one"
    ):
        encoders_said("Breakout", place=place)


def test_inspect_prints_draws_and_writes(tmp_path: Path, capsys) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "encoder.npz"
    save_encoder(path, encoder_file(EncoderConfig("Breakout"), 0.5))
    with pytest.raises(SystemExit) as end:
        cli.main(["vqvae", "inspect", str(path), "--transitions", "800", "--pictures",
                  str(tmp_path / "pictures"), "--csv", str(tmp_path / "table.csv")])  # fmt: skip
    assert end.value.code == 0
    assert "Breakout" in capsys.readouterr().out
    for name in ("Breakout-2x1-16-bce-seed0.png", "Breakout-2x1-16-bce-seed0-support.png"):
        assert (tmp_path / "pictures" / name).stat().st_size > 5_000
    frame = read_support(tmp_path / "table.csv")
    assert frame.select("paper_median_bucket", "transitions").rows() == [(156.0, 800)]

    for codes, transitions in ((8, 500), (16, 700)):  # another, and the same again
        save_encoder(path, encoder_file(EncoderConfig("Breakout", codes=codes), 0.5))
        with pytest.raises(SystemExit) as end:
            cli.main(["vqvae", "inspect", str(path), "--transitions", str(transitions), "--csv",
                      str(tmp_path / "table.csv")])  # fmt: skip
        assert end.value.code == 0
    frame = read_support(tmp_path / "table.csv")
    assert frame.select("codebook", "transitions").rows() == [(8, 500), (16, 700)]


def test_a_sweep_trains_compares_and_recommends(tmp_path: Path, capsys) -> None:
    pytest.importorskip("torch")
    command = ["vqvae", "sweep", "--game", "Breakout", "--grids", "1x1", "2x1", "--codes", "4", "8",
               "--observations", "600", "--updates", "3", "--transitions", "500",
               "--loss", "bce", "mse", "--out", str(tmp_path)]  # fmt: skip
    said = []
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            cli.main(command)
        assert end.value.code == 0
        said.append(re.sub(r"\s+", " ", capsys.readouterr().out))
    names = {
        f"Breakout-{grid}-{codes}-{loss}-seed0"
        for grid, codes, loss in product(("1x1", "2x1"), (4, 8), ("bce", "mse"))
    }
    assert {path.stem for path in tmp_path.glob("*.npz")} == names
    assert all(f"{name}: update 3 of 3" in said[0] for name in names)
    assert "update" not in said[1]  # what is finished is not trained again
    recommended = [re.findall(r"recommended: ([\w-]+)", one) for one in said]
    assert recommended[0] == recommended[1]
    assert {name.split("-")[3] for name in recommended[0]} == {"bce", "mse"}  # one of each
    assert names.issuperset(recommended[0])


def test_inspection_counts_the_sample() -> None:
    from sibling_replay.grouping.vqvae.observations import collect_observations

    data = collect_observations("Breakout", 1_000, seed=3)
    found = inspect(encoder_file(EncoderConfig("Breakout"), 0.5), data).support
    assert found.transitions == 1_000 and 1 <= found.perplexity <= 16
