"""Every seed of a run draws examples of its own, where they are drawn: which parts change, and which stay."""

import json

import pytest
from qa_files import write_examples

from helpers.data.load import load as load_examples
from helpers.data.load import load_adversarial
from helpers.data.mini import world as mini
from helpers.notebooks.session import identify_draws
from helpers.presets.load import PresetError, load_preset
from helpers.presets.schema import DataSettings, TasksSettings, TextsSettings

PARTS = ("train", "valid", "test")


SMOKE = load_preset("smoke")


def differing(preset, section):
    """Which parts of a section's first domain another draw changes; none changes its size."""
    drawn = [getattr(preset.for_seed(seed), section) for seed in (0, 1)]
    first, second = (load_examples(settings, next(iter(settings.named))) for settings in drawn)
    for part in PARTS:
        assert len(getattr(first, part)) == len(getattr(second, part)) > 0
    return [part for part in PARTS if getattr(first, part) != getattr(second, part)]


@pytest.fixture
def folder(tmp_path):
    """A file each of questions, of labelled texts, and of texts as a task."""
    questions = mini.load_domain("news", train_size=60, valid_size=1, test_size=1)
    write_examples(tmp_path / "news/all.json", questions.train)
    lines = [json.dumps({"text": f"text {n}", "label": ("bad", "good")[n % 2]}) for n in range(100)]
    for name in ("books", "mood"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.jsonl").write_text("\n".join(lines))
    return tmp_path


def files(folder, **sizes):
    where = {"source": "files", "folder": str(folder), **sizes}
    sections = {
        "data": DataSettings(**where, domains={"news": "news"}, valid_size=8),
        "reviews": TextsSettings(**where, domains={"books": "books"}, labels=["bad", "good"]),
        "mnli": TextsSettings(),
        "tasks": TasksSettings(**where, tasks={"mood": "texts:mood"}),
    }
    return SMOKE.model_copy(update=sections)


def test_all_of_the_miniature_world_is_drawn():
    for section in ("data", "reviews", "mnli", "tasks"):
        assert differing(SMOKE, section) == list(PARTS)
    sets = [load_adversarial(SMOKE.for_seed(seed).data)["AddSent"] for seed in (0, 1)]
    assert len(sets[0]) == len(sets[1]) and sets[0] != sets[1]


def test_draws_are_numbered_from_the_first_seed():
    assert SMOKE.for_seed(0) == SMOKE and SMOKE.for_seed(2).data.draw == 2
    assert SMOKE.changed("data", draw=40).for_seed(2).data.draw == 42


def test_seeds_behind_the_presets_last_are_further_ones():
    def numbers(**engine):
        return [
            *load_preset("smoke", seeds=3, **{f"engine.{key}": value for key, value in engine.items()}).seed_numbers
        ]

    assert numbers() == [0, 1, 2] and numbers(max_seeds=2) == [0, 1]
    assert numbers(first_seed=1) == [1, 2] and numbers(first_seed=2, max_seeds=5) == [2]
    assert numbers(first_seed=3, max_seeds=2) == [3, 4]
    with pytest.raises(
        PresetError, match=r"^preset smoke: engine.first_seed: expected at most 2; lower it, or set eng"
    ):
        numbers(first_seed=3)


def test_of_files_the_test_part_stays_and_nothing_is_drawn_where_all_is_trained_on(folder):
    cut = files(folder, train_size=20, test_size=9)
    for section in ("data", "reviews", "tasks"):
        assert differing(cut, section) == ["train", "valid"]
    assert differing(cut.changed("reviews", split="joint"), "reviews") == ["train"]  # this split never changes
    assert files(folder).for_seed(1) == files(folder)


def test_a_draw_has_a_name(folder):
    names = identify_draws(SMOKE, ["data", "reviews", "tasks"], [0, 1])
    assert set(names) == {"0", "1"} and names["0"] != names["1"]
    assert identify_draws(SMOKE, ["data"], [0, 1]) != identify_draws(SMOKE, ["reviews"], [0, 1])
    assert identify_draws(SMOKE, ["data"], [1])["1"] == identify_draws(SMOKE, ["data"], [0, 1])["1"]
    assert identify_draws(SMOKE, [], [0, 1]) == {}
    assert identify_draws(files(folder), ["data", "mnli"], [0, 1]) == {}
    assert set(identify_draws(files(folder, train_size=20), ["data", "mnli", "reviews", "tasks"], [0, 1])) == {"0", "1"}
