"""Every seed of a run draws examples of its own, where they are drawn: which parts change, and which stay."""

import json

import pytest
from conftest import write_squad

from helpers.data.load import draws
from helpers.data.load import load as load_examples
from helpers.data.mini import world as mini
from helpers.data.sets import load_adversarial
from helpers.presets.load import load
from helpers.presets.schema import DataSettings, TasksSettings, TextsSettings

PARTS = ("train", "valid", "test")


def preset(**changes):
    """Preset smoke with some sections changed."""
    return load("smoke").model_copy(update=changes)


def differing(given, section):
    """Which parts of a section's first domain another draw changes; none changes its size."""
    drawn = [getattr(given.drawn(seed), section) for seed in (0, 1)]
    first, second = (load_examples(settings, next(iter(settings.named))) for settings in drawn)
    for part in PARTS:
        assert len(getattr(first, part)) == len(getattr(second, part)) > 0
    return [part for part in PARTS if getattr(first, part) != getattr(second, part)]


@pytest.fixture
def folder(tmp_path):
    """A file each of questions, of labelled texts, and of texts as a task."""
    asked = mini.load_domain("news", train_size=60, valid_size=1, test_size=1)
    write_squad(tmp_path / "news/all.json", asked.train)
    lines = [json.dumps({"text": f"text {n}", "label": ("bad", "good")[n % 2]}) for n in range(100)]
    for name in ("books", "mood"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.jsonl").write_text("\n".join(lines))
    return tmp_path


def files(folder, **sizes):
    given = {"source": "files", "folder": str(folder), **sizes}
    return preset(
        data=DataSettings(**given, domains={"news": "news"}, valid_size=8),
        reviews=TextsSettings(**given, domains={"books": "books"}, labels=["bad", "good"]),
        mnli=TextsSettings(),
        tasks=TasksSettings(**given, tasks={"mood": "texts:mood"}),
    )


def test_all_of_the_miniature_world_is_drawn():
    for section in ("data", "reviews", "mnli", "tasks"):
        assert differing(preset(), section) == list(PARTS)
    sets = [load_adversarial(preset().drawn(seed).data)["AddSent"] for seed in (0, 1)]
    assert len(sets[0]) == len(sets[1]) and sets[0] != sets[1]


def test_draws_are_numbered_from_the_first_seed_and_may_be_switched_off():
    assert preset().drawn(0) == preset() and preset().drawn(2).data.draw == 2
    assert load("smoke", **{"data.draw": 40}).drawn(2).data.draw == 42
    assert preset(own_draws=False).drawn(3) == preset(own_draws=False)


def test_of_files_the_test_part_stays(folder):
    cut = files(folder, train_size=20, test_size=9)
    for section in ("data", "reviews", "tasks"):
        assert differing(cut, section) == ["train", "valid"]


def test_of_files_nothing_is_drawn_where_all_is_trained_on(folder):
    assert files(folder).drawn(1) == files(folder)


def test_texts_split_together_keep_their_parts(folder):
    joint = files(folder).model_copy(
        update={"reviews": files(folder, train_size=20).reviews.model_copy(update={"split": "joint"})}
    )
    assert differing(joint, "reviews") == ["train"]


def test_a_draw_has_a_name(folder):
    known = draws(preset(), ["data", "reviews", "tasks"], [0, 1])
    assert set(known) == {"0", "1"} and known["0"] != known["1"]
    assert draws(preset(), ["data"], [0, 1]) != draws(preset(), ["reviews"], [0, 1])
    assert draws(preset(), ["data"], [1])["1"] == draws(preset(), ["data"], [0, 1])["1"]
    assert draws(preset(own_draws=False), ["data"], [0, 1]) == {} == draws(preset(), [], [0, 1])
    assert draws(files(folder), ["data", "mnli"], [0, 1]) == {}
    assert set(draws(files(folder, train_size=20), ["data", "mnli", "reviews", "tasks"], [0, 1])) == {"0", "1"}
