"""Configurations: defaults, files and overrides merge; wrong ones are refused with a hint; dumps read."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.config import check_numbers, dump_config, load_config
from gravityocr.errors import ConfigError


@dataclass(frozen=True)
class Optimiser:
    lr: float = 2e-5
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float | None = 1.0


@dataclass(frozen=True)
class Source:
    name: str
    share: float = 1.0


@dataclass(frozen=True)
class Run:
    name: str = "nano"
    n_steps: int = 40_000
    resume: bool = False
    schedule: Literal["uniform", "all"] = "uniform"
    out_dir: Path = Path("runs/nano")
    stop: int | None = None
    widths: tuple[int, ...] = (256, 512)
    sources: tuple[Source, ...] = (Source("docs"),)
    shares: dict[str, float] = field(default_factory=lambda: {"text": 0.5, "table": 0.5})
    optimiser: Optimiser = Optimiser()
    vision: Optimiser = Optimiser(lr=2e-6, clip=None)

    def __post_init__(self) -> None:
        if self.n_steps < 1:
            raise ValueError(f"n_steps is {self.n_steps}; it must be at least 1")


@dataclass(frozen=True)
class Needy:
    data: str
    out: str
    n: int = 1


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_alone() -> None:
    assert load_config(Run) == Run()


def test_a_file_is_merged_table_by_table_over_the_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, "n_steps = 5\n[vision]\nbetas = [0.8, 0.9]\n[shares]\nformula = 1\n")
    config = load_config(Run, path)
    assert config.n_steps == 5
    # The field's own default (lr 2e-6, no clip) is what the table is merged over, not the class's.
    assert config.vision == Optimiser(lr=2e-6, betas=(0.8, 0.9), clip=None)
    assert config.shares == {"text": 0.5, "table": 0.5, "formula": 1.0}
    assert config.optimiser == Optimiser()
    assert Run().shares == {"text": 0.5, "table": 0.5}


def test_overrides_win_over_the_file_and_the_last_one_over_the_others(tmp_path: Path) -> None:
    path = write(tmp_path, "n_steps = 5\nname = 'a'\n[optimiser]\nlr = 1e-3\n")
    config = load_config(Run, path, ["n_steps=6", "n_steps=7", "optimiser.clip=0.5", "vision.lr=1"])
    assert (config.n_steps, config.name) == (7, "a")
    assert config.optimiser == Optimiser(lr=1e-3, clip=0.5)
    assert config.vision.lr == 1.0
    assert isinstance(config.vision.lr, float)


@pytest.mark.parametrize(
    ("override", "name", "expected"),
    [
        ("name=2024", "name", "2024"),
        ("name=2024-01-01", "name", "2024-01-01"),
        ("name=two words", "name", "two words"),
        ("name='quoted'", "name", "quoted"),
        ("name=a=b", "name", "a=b"),
        ("name=", "name", ""),
        ("schedule=all", "schedule", "all"),
        ("resume=true", "resume", True),
        ("out_dir=/tmp/x", "out_dir", Path("/tmp/x")),
        ("stop=none", "stop", None),
        ("stop = 3", "stop", 3),
        ("widths=[1, 2, 3]", "widths", (1, 2, 3)),
        ("sources=[{name = 'x', share = 2}]", "sources", (Source("x", 2.0),)),
        ("optimiser={lr = 1.0, clip = 'none'}", "optimiser", Optimiser(lr=1.0, clip=None)),
        ("shares.text=1", "shares", {"text": 1.0, "table": 0.5}),
    ],
)
def test_the_field_decides_how_an_override_is_read(override: str, name: str, expected: object) -> None:
    assert getattr(load_config(Run, None, [override]), name) == expected


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("n_step = 1", ["unknown key 'n_step'", "did you mean 'n_steps'?"]),
        ("zzz = 1", ["unknown key 'zzz'", "known here", "schedule"]),
        ("[optimiser]\nlearning = 1", ["unknown key 'optimiser.learning'"]),
        ("[optimizer]\nlr = 1", ["unknown key 'optimizer'", "did you mean 'optimiser'?"]),
        ("n_steps = '5'", ["'n_steps' must be an integer, not '5'"]),
        ("n_steps = 5.0", ["'n_steps' must be an integer"]),
        ("n_steps = true", ["'n_steps' must be an integer"]),
        ("resume = 1", ["'resume' must be true or false"]),
        ("name = 1", ["'name' must be a string"]),
        ("stop = 'never'", ["'stop' must be an integer"]),
        ("schedule = 'uniforn'", ["'schedule' is 'uniforn'", "did you mean 'uniform'?", "all"]),
        ("widths = 5", ["'widths' must be a list"]),
        ("widths = [1, 'b']", ["'widths[1]' must be an integer"]),
        ("optimiser = 1", ["'optimiser' must be a table"]),
        ("sources = [{share = 1}]", ["'sources[0].name' has no default"]),
        ("[optimiser]\nbetas = [1, 2, 3]", ["'optimiser.betas' needs 2 values, not 3"]),
        ("n_steps = 0", ["must be at least 1"]),
        ("n_steps = ", ["not valid TOML"]),
    ],
)
def test_a_wrong_file_names_itself_the_key_and_the_remedy(tmp_path: Path, toml: str, words: list[str]) -> None:
    path = write(tmp_path, toml)
    with pytest.raises(ConfigError) as caught:
        load_config(Run, path)
    assert all(word in str(caught.value) for word in [str(path), *words]), str(caught.value)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("n_steps", ["section.key=value"]),
        ("=3", ["section.key=value"]),
        ("optimiser..lr=3", ["section.key=value"]),
        ("n_step=3", ["unknown key 'n_step'", "did you mean 'n_steps'?"]),
        ("optimiser.lrr=3", ["unknown key 'optimiser.lrr'", "did you mean 'lr'?"]),
        ("n_steps=many", ["'n_steps' must be an integer, not 'many'"]),
        ("name.first=3", ["'name' must be a string"]),
        ("optimiser=3", ["'optimiser' must be a table"]),
        ("resume=True", ["'resume' must be true or false"]),
    ],
)
def test_a_wrong_override_names_itself(override: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(Run, None, ["n_steps=4", override])
    assert all(word in str(caught.value) for word in words), str(caught.value)
    if not override.startswith("name."):
        assert f"--set {override}" in str(caught.value)


def test_required_fields_may_come_from_the_file_and_the_overrides_together(tmp_path: Path) -> None:
    path = write(tmp_path, "data = 'd'")
    assert load_config(Needy, path, ["out=o", "n=2"]) == Needy("d", "o", 2)
    with pytest.raises(ConfigError, match="'out' has no default; set it"):
        load_config(Needy, path)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_bytes(b"\xff")])
def test_an_unreadable_file_is_a_config_error(tmp_path: Path, make) -> None:
    path = tmp_path / "x.toml"
    make(path)
    with pytest.raises(ConfigError, match=r"x\.toml"):
        load_config(Run, path)


def test_a_dump_is_plain_toml_with_floats_as_python_prints_them() -> None:
    text = dump_config(Run())
    assert "lr = 2e-05\n" in text
    assert "lr = 2e-06\n" in text
    assert tomllib.loads(text)["optimiser"] == {"lr": 2e-5, "betas": [0.9, 0.999], "clip": 1.0}
    assert 'stop = "none"\n' in text


def test_a_none_survives_even_where_the_default_is_another(tmp_path: Path) -> None:
    config = Run(optimiser=Optimiser(clip=None))
    assert load_config(Run, write(tmp_path, dump_config(config))) == config


def test_a_value_without_a_toml_form_is_refused() -> None:
    with pytest.raises(ConfigError, match="no TOML form"):
        dump_config(Run(name=3j))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Limited:
    n: int = 1
    share: float = 0.5
    sizes: tuple[int, ...] = (1, 2)
    stop: int | None = None

    def __post_init__(self) -> None:
        check_numbers(self, "limited.", ("stop",), n=(1, 9), share=(0.0, 1.0), sizes=(1, 9), stop=(1, 9))


def test_numbers_within_their_limits_pass() -> None:
    for share in (0, 0.0, 1, 1.0):
        assert Limited(9, share, (), 1).share == share


@pytest.mark.parametrize(
    ("name", "value"),
    [("n", wrong) for wrong in (0, 10, True, 1.0, "1", None, math.nan, 10**400)]
    + [("share", wrong) for wrong in (-0.1, 1.1, math.nan, math.inf, -math.inf, True, "0", None)]
    + [("sizes", wrong) for wrong in ((1, 0), (1.0,), (True,), [1], "1", None)]
    + [("stop", wrong) for wrong in (0, 1.0, True)],
)
def test_numbers_out_of_their_limits_are_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"limited\.{name} is .*choose an? (integer|number) from"):
        Limited(**{name: value})  # type: ignore[arg-type]


optimisers = st.builds(
    Optimiser,
    lr=st.floats(allow_nan=False),
    betas=st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)),
    clip=st.none() | st.floats(allow_nan=False),
)
texts = st.text(st.characters(exclude_categories=["Cs"]))
runs = st.builds(
    Run,
    name=texts,
    n_steps=st.integers(1, 2**40),
    resume=st.booleans(),
    schedule=st.sampled_from(["uniform", "all"]),
    stop=st.none() | st.integers(),
    widths=st.lists(st.integers()).map(tuple),
    sources=st.lists(st.builds(Source, texts, st.floats(allow_nan=False))).map(tuple),
    shares=st.dictionaries(texts, st.floats(allow_nan=False)).map(lambda more: {"text": 0.5, "table": 0.5} | more),
    optimiser=optimisers,
    vision=optimisers,
)


@given(runs)
def test_whatever_is_dumped_reads_back_equal(tmp_path_factory, config: Run) -> None:
    path = tmp_path_factory.mktemp("dump") / "run.toml"
    path.write_text(dump_config(config), encoding="utf-8", newline="")
    assert load_config(Run, path) == config


def test_nan_reads_back() -> None:
    text = dump_config(Source("x", math.nan))
    assert math.isnan(tomllib.loads(text)["share"])


@pytest.mark.parametrize(
    "override",
    [
        "n_steps=" + "9" * 5000,
        "n_steps=0x" + "f" * 5000,
        "optimiser.lr=1" + "0" * 400,
        "optimiser.lr=" + "[" * 3000,
        "optimiser.lr=" + "[" * 3000 + "]" * 3000,
        "optimiser=" + "{a=" * 3000,
        "optimiser=" + "{a=" * 300 + "1" + "}" * 300,
        ".".join("a" * 3000) + "=1",
    ],
)
def test_long_and_deep_values_are_usage_errors_of_readable_length(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(Run, overrides=[override])
    assert len(str(caught.value)) < 1000
    with pytest.raises(ConfigError):
        load_config(Run, overrides=[override, override])


@pytest.mark.parametrize("text", ["n_steps = " + "9" * 5000, "widths = " + "[" * 3000, "optimiser = " + "{a=" * 3000])
def test_long_and_deep_files_are_usage_errors(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"run\.toml"):
        load_config(Run, tmp_path / "run.toml")
