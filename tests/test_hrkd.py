"""HRKD's plans and trainings on the smallest miniature texts."""

import numpy as np
import pytest
import torch
from conftest import are_alike, waves_of
from sklearn.metrics import accuracy_score
from transformers import AutoModelForSequenceClassification

from helpers.batches.tensors import SequenceTensors
from helpers.data.examples import DataError
from helpers.data.texts import load_texts
from helpers.models.heads import head_of
from helpers.models.pretrained import load_saved
from helpers.papers.hrkd import algorithm, tables, trainings
from helpers.papers.hrkd.algorithm import ALONE, HRKD, META, OURS, PLAIN, ROWS, SINGLE, STUDENTS, TEACHERS
from helpers.presets.load import load
from helpers.tasks import labels
from helpers.tasks.classifiers import Validation, labelling, weights_of
from helpers.training import cached, checkpoints, engine, jobs, once


def smoke(**changes):
    return load("smoke", "hrkd", **{"seeds": 1, **changes})


@pytest.fixture(scope="module")
def trained(module_results):
    """All rows on reviews, one seed."""
    return tables.methods(smoke(), "reviews")


def plan_of(preset, rows=ROWS, corpus="reviews"):
    """The waves of a plan as if all were trained."""
    return waves_of(algorithm.compared(preset, corpus, 0, rows))


def test_rows_are_the_paper_s_and_a_student_alone():
    waves, rows = plan_of(smoke())
    assert len(ROWS) == 12 and set(rows) == {*TEACHERS, *STUDENTS, PLAIN, OURS, ALONE}
    (wave,) = waves
    students = {model.key for row in (*STUDENTS, PLAIN, OURS) for model in rows[row].values()}
    # three domains: single 3, the four others 1 each, the student alone; then 4 rows with a student a domain, and 2
    assert len({model.key for model in wave} - students) == 3 + 4 + 1 and len(students) == 4 * 3 + 2
    assert {model.key for model in rows[SINGLE].values()} == {
        m.key for m in wave if m.label.startswith(SINGLE) and "→" not in m.label
    }
    for row in STUDENTS:
        assert [list(model.domains) for model in rows[row].values()] == [["books"], ["films"], ["kitchen"]]
    for row in (PLAIN, OURS, ALONE, HRKD):
        assert len({model.key for model in rows[row].values()}) == 1
    teacher = next(iter(rows[HRKD].values()))
    assert {next(iter(rows[row].values())).teacher for row in (PLAIN, OURS)} == {teacher.key}


def test_every_model_of_several_domains_has_the_same_steps_and_texts():
    _, rows = plan_of(smoke())
    teachers = [next(iter(rows[row].values())) for row in TEACHERS[1:]]
    # one epoch of 3 × 16 texts, 12 a step; in turns a domain's are 12 and 4
    assert [model.steps for model in teachers] == [4, 6, 4, 4]
    for model in teachers:
        batches = model.batches()
        assert sum(map(batches.size, range(len(batches)))) * (3 if model.order == "together" else 1) == 48
    assert {model.steps for model in rows[SINGLE].values()} == {4}
    assert {model.batches().size(0) for model in rows[SINGLE].values()} == {4}


def test_a_turn_is_one_domain_s_and_a_joint_step_has_all():
    _, rows = plan_of(smoke())
    for row, expected in {TEACHERS[2]: {1}, HRKD: {3}, TEACHERS[1]: {2, 3}}.items():
        batches = next(iter(rows[row].values())).batches()
        seen = {len(set(batches.at(n)["domain"].tolist())) for n in range(len(batches))}
        assert seen <= expected, row


def test_keys_name_what_weights_depend_on():
    preset = smoke()

    def key(row, **changes):
        return next(iter(plan_of(smoke(**changes), (row,))[1][row].values())).key

    assert key(OURS) == key(OURS, **{"reviews.test_size": 5}) != key(PLAIN)
    for name, value in {"hrkd.steer": False, "hrkd.train_graph": False, "hrkd.heads": 1}.items():
        assert key(OURS, **{name: value}) != key(OURS) and key(PLAIN, **{name: value}) == key(PLAIN), name
    for name, value in {
        "hrkd.padding": True,
        "hrkd.attention": "probabilities",
        "hrkd.reviews_learning_rate": 1.0,
    }.items():
        assert key(PLAIN, **{name: value}) != key(PLAIN), name
    assert key(HRKD, **{"hrkd.epochs": 2.0}) == key(HRKD) and key(ALONE, **{"hrkd.epochs": 2.0}) != key(ALONE)
    rows = {row: made for (row, _), made in ((k, list(drawn(plan))) for k, plan in algorithm.ablations(preset).items())}
    assert rows["HRKD"][-1].key == key(OURS) and rows["- Domain Rel."][-1].key == key(PLAIN)
    assert len({made[-1].key for made in rows.values()}) == len(rows) == 11


def drawn(plan):
    """All tasks of a plan whose tasks need no results."""
    for wave in plan:
        yield from wave


def test_few_texts_are_the_first_of_many():
    preset = smoke()
    few = load_texts(algorithm.reduced(preset, "mnli", 0.25).mnli)
    many = load_texts(preset.mnli)
    for name, domain in few.items():
        assert domain.train == many[name].train[:4] and domain.test == many[name].test
    plans = algorithm.few_shot(preset)
    assert {share for share, _ in plans} == {0.25, 1.0}


def test_figure_2_with_one_share_says_nothing_of_few_and_many(trained):
    preset = smoke(**{"hrkd.few_shot": "reviews"})
    both = [claim.text for claim in tables.figure2(preset, {0.1: trained, 1.0: trained})["claims"]]
    assert both[0] == "HRKD gains more with few texts than with many" and len(both) == 3
    assert [claim.text for claim in tables.figure2(preset, {0.1: trained})["claims"]] == both[1:]


def test_too_few_texts_for_a_step_are_refused():
    with pytest.raises(DataError, match="make no step of 4: raise epochs, or give more texts"):
        plan_of(smoke(**{"hrkd.epochs": 0.1}))


def test_accuracy_is_sklearn_s_on_the_saved_predictions(trained):
    parts = tables.scores(trained, "reviews")
    known = load_texts(smoke().reviews)
    for row, seed, domain, model in trained.models():
        said = labelling(model).result()[domain]
        expected = 100 * accuracy_score([text.label for text in known[domain].test], said)
        (score,) = [s for s in parts["scores"] if (s.method, s.column, s.seed) == (row, domain, seed)]
        assert score.value == pytest.approx(expected)
        assert np.mean(parts["examples"][f"{row}|{domain}|{seed}"]) == pytest.approx(expected)


def test_a_saved_student_gives_the_same_logits_through_transformers_alone(trained):
    model = trained.rows[OURS][0]["films"]
    theirs = AutoModelForSequenceClassification.from_pretrained(model.folder()).eval()
    batch = SequenceTensors(labels.sequences_of(model.texts, model.preset.encoder, "films", "test")).gather(
        np.arange(8)
    )
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.inference_mode():
        logits = theirs(**inputs).logits
        own = head_of(theirs, "films")(**inputs).logits
        ours = load_saved(model.folder(), "labels")(**inputs).logits
    assert are_alike(logits, ours) and logits.shape == (8, 6)
    assert torch.allclose(own, labels.own_logits(ours, batch["domain"], 2))
    assert theirs.config.id2label[2] == "films negative" and theirs.config.heads == ["books", "films", "kitchen"]


def test_each_domain_keeps_the_weights_that_were_best_on_it(trained):
    model = trained.rows[OURS][0]["films"]
    for name in model.domains:
        assert weights_of(model.folder().parent, name).is_file()
    history = [found["domains"] for _, _, found in model.result()["validation"]]
    assert len(history) == 2 and set(history[0]) == {"books", "films", "kitchen"}
    best = model.result()["best"]
    assert best == pytest.approx(max(np.mean([*scores.values()]) for scores in history))
    task = labelling(model, of_domains=True)
    engine.run([task], model.preset.engine)
    assert {name: len(said) for name, said in task.result().items()} == dict.fromkeys(model.domains, 8)


def test_a_killed_training_with_damaged_weights_of_a_domain_starts_again(results, monkeypatch, capsys):
    def killed(self, model):
        if evaluated:
            raise KeyboardInterrupt
        evaluated.append(evaluate(self, model))
        return evaluated[0]

    preset = smoke(**{"training.checkpoint_minutes": 0.0, "training.evaluations": 2})
    model = algorithm.by_labels(preset, "reviews", 0, HRKD, ["books", "films", "kitchen"])["books"]
    evaluate, evaluated, folder = Validation.__call__, [], model.checkpoint().parent
    monkeypatch.setattr(Validation, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        model.fit()
    monkeypatch.setattr(Validation, "__call__", evaluate)
    assert model.checkpoint().exists() and Validation(model, lambda model: model).best == evaluated[0][1]["domains"]
    file = weights_of(folder, "films")
    file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1]))
    assert once.fit(model) is None and "films.safetensors is damaged" in capsys.readouterr().out
    assert len(model.result()["validation"]) == 2 and checkpoints.load_tensors(file)


def test_ratios_are_traced_and_stored_with_the_student(trained):
    model = trained.rows[OURS][0]["films"]
    ratios = np.asarray(model.result()["validation"][-1][2]["ratios"])
    assert ratios.shape == (2, 3) and np.allclose(ratios.sum(1), 1, atol=1e-3)
    learner = model.related()
    assert not learner.training and learner.relations is not None
    assert "ratios" not in trained.rows[PLAIN][0]["films"].result()["validation"][-1][2]


def test_meta_teacher_keeps_its_view_of_domains(trained):
    model = trained.rows[META][0]["films"]
    assert (model.folder().parent / "view.safetensors").is_file()
    assert trained.rows[STUDENTS[3]][0]["films"].meta and model.heads == [""]


def test_a_second_run_trains_nothing(trained, monkeypatch):
    monkeypatch.setattr(once, "fit", lambda *_: pytest.fail("trained again"))
    assert tables.methods(smoke(), "reviews").rows.keys() == trained.rows.keys()


def test_students_of_other_sizes_are_planned_with_the_tables():
    preset = smoke(seeds=2, **{"hrkd.sizes": [1, 2]})
    assert [key for key in algorithm.main_plans(preset) if key[0] == "layers"] == [
        ("layers", layers, seed) for layers in (1, 2) for seed in (0, 1)
    ]
    (student,) = {model.key: model for model in waves_of(algorithm.sized(preset)[2, 1])[1][OURS].values()}.values()
    assert (student.preset.hrkd.student, student.settings["start"], student.seed) == ("", {"layers": 2}, 1)
    without = preset.model_copy(update={"reviews": preset.reviews.model_copy(update={"source": "files", "folder": ""})})
    assert not any(key[0] == "layers" for key in algorithm.main_plans(without))


def test_other_rows_can_have_fewer_seeds():
    plans = algorithm.plans(smoke(seeds=3, **{"hrkd.other_seeds": 1}))
    assert len(plans) == 2 * 3
    sizes = {key: len(list(next(plan))) for key, plan in plans.items()}
    assert sizes["reviews", 0] > sizes["reviews", 1] == sizes["reviews", 2]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        *((HRKD, "best-films.safetensors"), (OURS, "relations.safetensors"), (META, "view.safetensors")),
        *((HRKD, "model/config.json"), (HRKD, "model/tokenizer.json"), (HRKD, "job.pkl"), (HRKD, jobs.SEAL)),
    ],
)
def test_damage_is_noticed_wherever_it_is(trained, row, name, monkeypatch):
    model = trained.rows[row][0]["films"]
    path = model.folder().parent / name
    monkeypatch.setattr(once, "_checked", set())
    assert engine.is_done(model)
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-8])
        monkeypatch.setattr(once, "_checked", set())
        assert not engine.is_done(model, say=False)
        path.unlink()
        assert not engine.is_done(model, say=False)
    finally:
        path.write_bytes(content)


def test_projections_begin_alike_with_relations_and_without():
    preset = smoke(**{"hrkd.student": "data/mini/student"})
    _, rows = plan_of(preset, (PLAIN, OURS))
    plain, ours = (next(iter(rows[row].values())) for row in (PLAIN, OURS))
    learners = [each.learner(trainings.student_of(preset, 0, 6, 48), 128) for each in (plain, ours)]
    assert len(learners[0].projections) == 2 and learners[0].relations is None is not learners[1].relations
    for one, other in zip(*(learner.projections for learner in learners), strict=True):
        assert torch.equal(one.weight, other.weight)


def test_metas_view_of_domains_follows_the_seed(results, monkeypatch):
    views = []

    def stop(model, *_, **__):
        views.append(model.view.inner.weight.detach().clone())
        raise KeyboardInterrupt

    monkeypatch.setattr(cached, "fit", stop)
    for seed in (0, 1):
        model = algorithm.by_labels(smoke(), "reviews", seed, META, ["books", "films", "kitchen"])["books"]
        with pytest.raises(KeyboardInterrupt):
            type(model).fit.__wrapped__(model) if hasattr(type(model).fit, "__wrapped__") else model.fit()
    assert not torch.equal(*views)
