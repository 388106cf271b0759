"""A2D's wiring: what is trained for which row, what is shared, and what becomes of damaged stores."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import flip, waves_of

from helpers.data.sets import question_set
from helpers.papers.a2d import algorithm, trainings
from helpers.presets.load import PresetError, load
from helpers.results import records
from helpers.tasks import ensembles
from helpers.tasks.answering import answering
from helpers.tasks.spans import budget, distributions
from helpers.tasks.views import read
from helpers.training import engine, once
from helpers.training.checkpoints import DamagedFile, load_tensors, save_tensors

SMALL = {"data.domains": {"encyclopedia": "encyclopedia"}, "data.adversarial": None, "seeds": 1, "data.narrative": ""}
ROWS = tuple(algorithm.ABLATIONS)
SIDES = ("start", "end")


def small(**changes):
    return load("smoke", "a2d", **SMALL, **changes)


@pytest.fixture
def preset(results, monkeypatch):
    monkeypatch.setattr(once, "_checked", set())
    return small()


def waves(preset, rows=ROWS, kind="RMR"):
    """All waves of a plan, nothing trained, and what it returns."""
    return waves_of(algorithm.distillation(preset, kind, 0, rows))


def key(task):
    return task.key


def test_the_rows_of_table_5(results):
    preset = small(**{"training.epochs": 4.0})
    [tasks], done = waves(preset)
    members, knowledge, first, students = tasks[:-8], *tasks[-8:-6], tasks[-6:]
    assert len({key(one) for one in members}) == preset.a2d.members and members == done.members
    assert knowledge.members == [key(one) for one in members]
    assert all(one.terms == {"CE": 1.0} and one.members == [] for one in members)
    weights = {"CE": 1.0, "KD": 4.0, "ANS": 0.3, "ATT": 0.1}
    left_out = {"A2D": "", "- Vanilla KD": "KD", "- ATT": "ATT", "- ANS": "ANS", "- Joint Training": "ATT"}
    left_out["- Joint Training, full second stage"] = "ATT"
    assert list(done.students) == list(left_out)
    for row, student in done.students.items():
        assert student.terms == {name: weight for name, weight in weights.items() if name != left_out[row]}
        assert [key(one) for one in student.outputs()] == [key(knowledge)] and student.temperature == 2.0
        assert student.settings == members[0].settings
    assert list(done.students.values()) == students
    assert budget(preset) > 6
    # the attention alone, half of the time, and then the rest
    staged = done.students["- Joint Training"]
    assert first.terms == {"ATT": 0.1} and first.start == "" and staged.start == key(first)
    assert first.steps == budget(preset) // 2 == staged.first_step and first.steps + staged.steps == budget(preset)
    # and the same with as many steps of the rest as others have in all
    longer = done.students["- Joint Training, full second stage"]
    assert longer.start == key(first) and longer.first_step == first.steps and longer.steps == budget(preset)
    others = [one for one in [*members, *students] if one not in (staged, longer)]
    assert all(one.steps == budget(preset) and one.start == "" for one in others)


def test_a_weight_of_zero_is_no_term(results):
    _, done = waves(small(**{"a2d.answer_weight": 0.0, "a2d.attention_weight": 0.0}))
    assert all(set(student.terms) <= {"CE", "KD"} for student in done.students.values())
    assert key(done.students["A2D"]) == key(done.students["- ATT"]) == key(done.students["- ANS"])
    assert done.stages[0].terms == {"ATT": 1.0}  # by itself it needs no weight


def test_the_temperatures_and_the_papers_weights_are_tried(results):
    preset = small(**{"a2d.temperature": 3.0, "a2d.answer_weight": 1.0, "a2d.attention_weight": 0.5})
    tried = {name: one.a2d for name, one in algorithm.weights_tried(preset, "1 2.5").items()}
    assert list(tried) == [
        "tau 1, gamma 1, delta 0.5",
        "tau 2.5, gamma 1, delta 0.5",
        "tau 2, gamma 0.3, delta 0.1",
    ]
    assert [s.temperature for s in tried.values()] == [1.0, 2.5, 2.0]
    assert all(s.members == preset.a2d.members for s in tried.values())
    assert algorithm.weights_tried(small(), "2") == {}  # the paper's, which are the preset's own


@pytest.mark.parametrize("wrong", ["1 x", "0", "1,2", "nan"])
def test_what_is_no_temperature_is_refused(preset, wrong):
    with pytest.raises(algorithm.ChoiceError, match=f"temperatures is '{wrong}'; write numbers above 0"):
        algorithm.weight_plans(preset, "RMR", wrong)


def test_what_a_notebook_needs_counts_both_stages(stored):
    plans = algorithm.all_plans(stored.preset, "RMR")
    keys = {key(task) for plan in plans.values() for task in engine.replay(plan).tasks}
    trained = {key(one) for one in (*stored.done.members, *stored.done.students.values(), *stored.done.stages)}
    assert trained <= keys and len(stored.done.stages) == 1


def test_longer_trainings_and_other_teachers(results):
    preset = small(**{"a2d.lengths": [2.0, 1.0, 0.01]})
    ((*members, knowledge, student), (same, alone, *readers)), done = waves_of(algorithm.longer(preset, "RMR", 0))
    assert list(done.values()) == list(readers) and len(readers) == 4 * 3
    whole = budget(preset)
    assert {times: reader.steps for (_, times), reader in done.items()} == {0.01: 1, 1.0: whole, 2.0: 2 * whole}
    # at 1 the tables' own readers, so that nothing is trained twice
    assert key(done["RMR", 1.0]) == key(members[0]) and key(done["RMR + A2D", 1.0]) == key(student)
    assert {key(done[line, 1.0]) for line in ("RMR", "RMR + A2D")} <= {
        key(one) for wave in waves(preset)[0] for one in wave
    }
    assert alone.members == [key(members[0])] and knowledge.members == [key(member) for member in members]
    assert key(same) == key(knowledge)
    one = done["RMR + one teacher", 2.0]
    assert one.members == alone.members and (one.terms, one.temperature) == (student.terms, student.temperature)
    smoothed = done["RMR, smoothed labels", 2.0]
    assert smoothed.smoothing == 0.1 and smoothed.terms == {"CE": 1.0} and smoothed.members == []
    assert all(reader.smoothing == 0 for (line, _), reader in done.items() if "smoothed" not in line)
    # all but the member start from the student's weights and read in its order
    assert {reader.seed for (line, _), reader in done.items() if line != "RMR"} == {student.seed}
    assert len({key(reader) for reader in readers}) == len(readers)


def test_without_lengths_nothing_is_longer(results):
    assert algorithm.longer_plans(small(**{"a2d.lengths": []}), "RMR") == {}
    assert [*algorithm.longer_plans(small(), "RMR")] == [("longer", 0)]
    with pytest.raises(PresetError, match=r"a2d\.lengths"):
        small(**{"a2d.lengths": [1, 0]})


def test_an_odd_budget_is_divided_without_loss(preset):
    odd = next(p for e in (1.0, 1.2, 1.4, 1.6) if budget(p := small(**{"training.epochs": e})) % 2)
    _, done = waves(odd)
    (first,) = done.stages
    assert first.steps + 1 == done.students["- Joint Training"].steps and first.steps * 2 + 1 == budget(odd)


def test_a_students_key_follows_its_teacher_and_a_single_readers_does_not(preset):
    def keys(**changes):
        _, done = waves(small(**changes), ("A2D",))
        return [key(one) for one in done.members], key(done.knowledge), key(done.students["A2D"])

    members, knowledge, student = keys()
    assert keys() == (members, knowledge, student)
    for changes in ({"a2d.temperature": 3.0}, {"a2d.members": 3}, {"a2d.top_k": 2}):
        others, other_knowledge, other_student = keys(**changes)
        assert others[:2] == members and other_knowledge != knowledge and other_student != student
    # the weights concern the student alone
    assert keys(**{"a2d.answer_weight": 0.5})[:2] == (members, knowledge)
    assert keys(**{"a2d.answer_weight": 0.5})[2] != student
    assert not set(keys(**{"mnemonic.hidden": 6})[0]) & set(members)
    _, bert = waves(preset, ("A2D",), "BERT")
    _, same = waves(small(**{"mnemonic.hidden": 6}), ("A2D",), "BERT")
    assert key(bert.students["A2D"]) == key(same.students["A2D"]) != student


@pytest.fixture(scope="module")
def trained(module_results):
    """All rows of Table 5 for RMR, trained once for this module."""
    preset = small()
    outcome = engine.run_plans({0: algorithm.distillation(preset, "RMR", 0, ROWS)}, preset.engine)[0]
    return SimpleNamespace(folder=module_results, preset=preset, done=outcome.value, tasks=outcome.tasks)


@pytest.fixture
def stored(trained, monkeypatch):
    """The same, with nothing looked at yet."""
    monkeypatch.setattr(once, "_checked", set())
    return trained


def times(folder):
    found = [*folder.rglob("*.safetensors"), *folder.rglob("job.pkl")]
    return {path: path.stat().st_mtime_ns for path in found}


def test_all_rows_are_trained_and_a_second_run_trains_nothing(stored):
    members = stored.preset.a2d.members
    assert len(stored.tasks) == members + 1 + 1 + len(ROWS)
    whole = budget(stored.preset)
    for row, student in stored.done.students.items():
        assert student.result()["steps"] == (whole if row != "- Joint Training" else whole - whole // 2)
    assert len({student.result()["weights"] for student in stored.done.students.values()}) == len(ROWS)
    first = next(task for task in stored.tasks if "first stage" in task.label)
    assert first.result()["validation"] == []  # nothing to select by
    staged, other = (stored.done.students[row].batches() for row in ("- Joint Training", "A2D"))
    halves = [*first.batches().plan, *staged.plan]  # the second goes on where the first ended
    assert [index.tolist() for index in halves] == [index.tolist() for index in other.plan]
    before = times(stored.folder)
    assert len([path for path in before if path.name == "model.safetensors"]) == members + 1 + len(ROWS)
    again = engine.run_plans({0: algorithm.distillation(stored.preset, "RMR", 0, ROWS)}, stored.preset.engine)[0]
    assert times(stored.folder) == before and len(again.tasks) == len(stored.tasks)


def test_an_example_has_the_probabilities_and_terms_of_its_students_loss(stored):
    students, preset = stored.done.students, stored.done.students["A2D"].preset
    known = students["A2D"].outputs()[0].stored()
    windows = trainings.training_windows(preset)
    row = int(np.flatnonzero(known["confusing_start"])[0])
    first = int(windows.lengths_W[:row].sum())
    places = [windows.labels["start"][row], windows.labels["end"][row], *(known[f"confusing_{s}"][row] for s in SIDES)]
    expected = [float(known[side][first + int(at)]) for side, at in zip([*SIDES, *SIDES], places, strict=True)]
    table = trainings.example(students["A2D"]).data
    assert table.loc["teacher"].iloc[:4].tolist() == pytest.approx(expected)
    assert list(table.columns[4:]) == ["CE", "KD", "ANS", "ATT"] and table.iloc[1:].notna().all(axis=None)
    logits, _ = read(students["A2D"].load(key(students["A2D"])), windows, preset.training.precision)
    sides = zip(distributions(windows, logits), places[:2], strict=True)
    likelihood = -sum(np.log(side[first + int(at)]) for side, at in sides)
    assert table.loc["student after", "CE"] == pytest.approx(likelihood, abs=2e-3)
    assert table.loc["student before", "CE"] != pytest.approx(likelihood, abs=2e-3)
    assert list(trainings.example(students["- ATT"]).data.columns[4:]) == ["CE", "KD", "ANS"]
    assert list(trainings.example(students["- ANS"]).data.columns[2:]) == ["CE", "KD", "ATT"]


def test_what_is_stored_is_what_the_members_say(stored):
    knowledge, preset = stored.done.knowledge, stored.preset
    windows = trainings.training_windows(preset)
    tensors = knowledge.stored()
    assert knowledge.result() == {
        "windows": len(windows),
        "confused": int((tensors["confusing_start"] > 0).sum()),
        "bytes": sum(values.numel() * values.element_size() for values in tensors.values()),
    }
    expected = 0
    for member in stored.done.members:
        logits, attention = read(member.load(key(member)), windows, "fp32")
        expected = expected + distributions(windows, logits, preset.a2d.temperature)[0] / preset.a2d.members
    assert np.allclose(tensors["start"].float(), expected, atol=1e-3)
    firsts = np.cumsum(windows.lengths_W) - windows.lengths_W
    assert np.allclose(np.add.reduceat(tensors["end"].float().numpy(), firsts), 1, atol=2e-3)
    # each passage token's attention sums to 1 over its question
    asked = np.repeat(windows.first_count_W, windows.count_W)
    assert np.allclose(np.add.reduceat(attention, np.cumsum(asked) - asked), 1, atol=1e-4)


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def other_windows(path):
    tensors, facts = load_tensors(path)
    save_tensors(path, tensors, {**facts, "windows": "others"}, "ensemble's outputs")


@pytest.mark.parametrize(
    ("damage", "said"),
    [(flip, "is damaged"), (cut, "cannot be read"), (other_windows, "holds another teacher's outputs")],
)
def test_damaged_knowledge_is_named_and_made_again(stored, capsys, damage, said):
    knowledge = stored.done.knowledge
    path = knowledge.infra.uid_folder() / "knowledge.safetensors"
    whole = {name: values.clone() for name, values in load_tensors(path)[0].items()}  # not the file's own memory
    assert engine.is_done(knowledge)
    damage(path)
    once._checked.clear()
    with pytest.raises(DamagedFile, match=rf"knowledge\.safetensors {said}"):
        knowledge.stored()
    assert not engine.is_done(knowledge)
    assert "knowledge.safetensors is damaged" in capsys.readouterr().out
    engine.run([knowledge], stored.preset.engine)
    assert engine.is_done(knowledge)
    again, _ = load_tensors(path)
    assert all(torch.equal(values, again[name]) for name, values in whole.items())


def test_a_disk_that_is_too_small_is_named_before_anything_is_computed(preset, monkeypatch):
    knowledge = waves(preset)[1].knowledge  # its members are not trained, and not asked for
    needed = ensembles.knowledge_bytes(trainings.training_windows(preset))
    monkeypatch.setattr(ensembles.shutil, "disk_usage", lambda folder: SimpleNamespace(free=needed - 1))
    with pytest.raises(OSError, match=r"the ensemble's outputs on \d+ windows take \d+ MB, .* has \d+ MB: free some"):
        knowledge.fit()
    monkeypatch.setattr(ensembles.shutil, "disk_usage", lambda folder: SimpleNamespace(free=needed))
    with pytest.raises(Exception, match="cannot be loaded"):
        engine.run([knowledge], preset.engine)


def test_several_answer_together_by_the_mean_of_their_distributions(stored):
    preset, members = stored.preset, stored.done.members
    task = answering(preset, members, ["test"], together=True)
    engine.run([task], preset.engine)
    texts, test = task.result()["test"], question_set(preset.data, "test")
    assert len(texts) == len(test) and all(text in e.context for text, e in zip(texts, test, strict=True))


def test_the_papers_numbers_may_have_several_metrics():
    values = {(row.method, row.column, row.metric): row.value for row in records.printed("a2d/table1")}
    assert len(values) == 3 * 2 * 2
    assert values["RMR + A2D", "Test", "F1"] == 88.1 and values["RMR + A2D", "Test", "EM"] == 81.5
    assert {row.metric for row in records.printed("imm/table1")} == {"F1"} and records.printed("a2d/none") == []
