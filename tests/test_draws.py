"""Every seed of a run draws examples of its own, where they are drawn: which parts change, and which stay."""

import json

import pytest
from conftest import write_squad

from helpers.data import domains, tasks, texts
from helpers.data.adversarial import load_adversarial
from helpers.data.mini import domains as mini
from helpers.data.sections import draws
from helpers.data.sets import question_set
from helpers.papers import reading
from helpers.papers.a2d import algorithm as a2d
from helpers.papers.a2d import tables as a2d_tables
from helpers.papers.imm import algorithm as imm
from helpers.papers.imm import tables as imm_tables
from helpers.papers.mtdnn import algorithm as mtdnn
from helpers.papers.mtdnn import tables as mtdnn_tables
from helpers.papers.rows import Trained
from helpers.presets.load import load
from helpers.presets.schema import DataSettings, TasksSettings, TextsSettings
from helpers.tasks import kinds
from helpers.tasks.kinds import Reply
from helpers.training.engine import replay

PARTS = ("train", "valid", "test")


def preset(**changes):
    """Preset smoke with some sections changed."""
    return load("smoke").model_copy(update=changes)


def differing(loader, given, name):
    """Which parts another draw changes; none changes its size."""
    first, second = (loader(getattr(given.drawn(seed), name)) for seed in (0, 1))
    for part in PARTS:
        assert len(getattr(first, part)) == len(getattr(second, part)) > 0
    return [part for part in PARTS if getattr(first, part) != getattr(second, part)]


def questions(data):
    return domains.load_one(data, next(iter(data.domains)))


def labelled(settings):
    return next(iter(texts.load_texts(settings).values()))


def task(settings):
    return tasks.load_task(settings, next(iter(settings.tasks)))


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
    for loader, name in ((questions, "data"), (labelled, "reviews"), (labelled, "mnli"), (task, "tasks")):
        assert differing(loader, preset(), name) == list(PARTS)
    sets = [load_adversarial(preset().drawn(seed).data)["AddSent"] for seed in (0, 1)]
    assert len(sets[0]) == len(sets[1]) and sets[0] != sets[1]


def test_draws_are_numbered_from_the_first_seed_and_may_be_switched_off():
    assert preset().drawn(0) == preset() and preset().drawn(2).data.draw == 2
    assert load("smoke", **{"data.draw": 40}).drawn(2).data.draw == 42
    assert preset(own_draws=False).drawn(3) == preset(own_draws=False)


def test_of_files_the_test_part_stays(folder):
    cut = files(folder, train_size=20)
    for loader, name in ((questions, "data"), (labelled, "reviews"), (task, "tasks")):
        assert differing(loader, cut, name) == ["train", "valid"]


def test_of_files_nothing_is_drawn_where_all_is_trained_on(folder):
    assert files(folder).drawn(1) == files(folder)


def test_texts_split_together_keep_their_parts(folder):
    joint = files(folder).model_copy(
        update={"reviews": files(folder, train_size=20).reviews.model_copy(update={"split": "joint"})}
    )
    assert differing(labelled, joint, "reviews") == ["train"]


def test_a_draw_has_a_name(folder):
    known = draws(preset(), ["data", "reviews", "tasks"], [0, 1])
    assert set(known) == {"0", "1"} and known["0"] != known["1"]
    assert draws(preset(), ["data"], [0, 1]) != draws(preset(), ["reviews"], [0, 1])
    assert draws(preset(), ["data"], [1])["1"] == draws(preset(), ["data"], [0, 1])["1"]
    assert draws(preset(own_draws=False), ["data"], [0, 1]) == {} == draws(preset(), [], [0, 1])
    assert draws(files(folder), ["data", "mnli"], [0, 1]) == {}
    assert set(draws(files(folder, train_size=20), ["data", "mnli", "reviews", "tasks"], [0, 1])) == {"0", "1"}


# --------------------------------------------------------- readers that answer their own seed's questions rightly: 100


def rightly(preset, asked, after=None):
    """Right answers, in the place of what readers say, to the questions of the preset that each is asked by."""
    return {
        key: {name: [e.answers[0] for e in question_set(task.preset.data, name)] for name in task.questions}
        for key, task in asked.items()
    }


def planned(plan):
    """What a plan returns, nothing trained."""
    return replay(plan, lambda task: True)


def all_right(parts):
    return {score.value for score in parts["scores"]} == {100.0} and {s.seed for s in parts["scores"]} == {0, 1}


def test_a_seeds_readers_are_scored_on_its_own_test_questions(monkeypatch):
    monkeypatch.setattr(imm_tables, "ask", rightly)
    given = load("smoke", "imm", seeds=2)
    trained = Trained.of(given, ["Single", "Mix"])
    for seed in (0, 1):
        models = planned(imm.baselines(given.drawn(seed), seed)).value
        for row in trained.rows:
            trained.add(row, seed, models[row], {})
    parts = imm_tables.scores_by_domain(trained)
    assert all_right(parts) and "examples" not in parts
    monkeypatch.setattr(trained, "preset", given.model_copy(update={"own_draws": False}))
    assert not all_right(imm_tables.scores_by_domain(trained))


def test_an_ensembles_answers_are_scored_on_its_own_test_questions(monkeypatch):
    monkeypatch.setattr(reading, "ask", rightly)
    given = load("smoke", "a2d", seeds=2)
    runs = {key: planned(plan).value for key, plan in a2d.plans(given, "BERT").items()}
    sets = ["Dev", "Test", "AddSent"]
    parts = a2d_tables.scores(given, a2d_tables.answered(given, a2d.rows_of(runs), sets), sets)
    assert all_right(parts) and "examples" not in parts


def test_replies_are_scored_on_their_own_test_questions():
    given = load("smoke", "mtdnn", seeds=2)
    task = mtdnn_tables.questions(given)

    def said(model):
        parts = {part: kinds.examples_of(model.preset, task, part) for part in ("valid", "test")}
        return {
            part: [Reply(*((e.answers[0], -1.0) if e.answers else ("x", 1.0))) for e in examples]
            for part, examples in parts.items()
        }

    models = {seed: planned(plan).value for seed, plan in mtdnn.plans(given).items()}
    replies = {(row, seed): said(model) for seed, rows in models.items() for row, model in rows.items()}
    assert all_right(mtdnn_tables.scores(given, replies, {"QA": "QA"}))
