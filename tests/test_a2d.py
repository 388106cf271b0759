"""A2D: its losses by hand, what an ensemble knows, what is trained for which row, and its tables."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers import engine
from helpers.data.examples import Example
from helpers.extractive_qa import count_steps, distributions, likelihood, windows_of
from helpers.models.attention import keep_attention
from helpers.models.encoders import load_tokenizer
from helpers.papers import shared
from helpers.papers.a2d import algorithm, ensemble, losses, tables
from helpers.papers.a2d.mnemonic import NEVER
from helpers.presets.load import load_preset
from helpers.records import Score
from helpers.sequences import make_windows
from helpers.training import Logits, predict

LN3 = math.log(3)
SMALL = {"data.domains": {"encyclopedia": "encyclopedia"}, "data.adversarial": None, "seeds": 1}
ROWS = tuple(algorithm.ABLATIONS)


def small(**changes):
    return load_preset("smoke", "a2d", **{**SMALL, **changes})


def span(start, end):
    return torch.tensor([start]), torch.tensor([end])


def test_confusion_margin_by_hand():
    # Start: 1 - 2 + 0.5 < 0 counts nothing. End: 1 - 1 + 3.
    student = span([9.0, 2.0, 0.5], [9.0, 1.0, 3.0])  # [CLS], where no answer stands, and two tokens
    gold, confusing, none = span(1, 1), span(2, 2), span(0, 0)
    assert losses.confusion_margin(student, gold, confusing).tolist() == [3]
    assert losses.confusion_margin(student, confusing, gold).tolist() == [1 - 0.5 + 2]  # 1 - 3 + 1 < 0
    assert losses.confusion_margin(student, gold, none).tolist() == [0]


def test_attention_distance_by_hand():
    student = torch.tensor([[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])
    teacher = torch.tensor([[[0.25, 0.75], [0.0, 1.0]], [[0.5, 0.5], [0.0, 0.0]]])
    # (1/16 + 1/16 + 1 + 1) / 2, and (1/4 + 1/4) / 2
    assert losses.attention_distance(student, teacher.half()).tolist() == pytest.approx([1.0625, 0.25])


# At temperature 2 the logits 0 and 2 ln 3 mean 1/4 and 3/4, and 5 and 5 mean 1/2 and 1/2.
OUTPUT = SimpleNamespace(
    start_logits=torch.tensor([[0.0, 2 * LN3, 40.0]]),
    end_logits=torch.tensor([[5.0, 5.0, -40.0]]),
    attention=torch.tensor([[[0.5, 0.5]]]),
)
BATCH = dict(zip(("start", "end"), span(1, 0), strict=True))
BATCH |= dict(zip(("teacher_start", "teacher_end"), span([0.5, 0.5, 0.0], [0.2, 0.8, 0.0]), strict=True))
BATCH |= dict(zip(("teacher_confusing_start", "teacher_confusing_end"), span(1, 1), strict=True))
BATCH |= {"attention_mask": torch.tensor([[1, 1, 0]]), "teacher_attention": torch.tensor([[[1.0, 0.0]]])}


def test_joint_loss_by_hand():
    weights = losses.weigh_terms(small())
    assert weights == {"CE": 1.0, "KD": 4.0, "ANS": 0.3, "ATT": 0.1}  # the temperature is 2
    expected = {
        "CE": -math.log(0.9) - math.log(0.5),
        "KD": 4 * (-0.5 * math.log(0.25) - 0.5 * math.log(0.75) - math.log(0.5)),
        "ANS": 0.3 * (1 + 1),  # no margin at all, of start and of end
        "ATT": 0.1 * (0.25 + 0.25) / 2,
    }
    stored = BATCH | {name: value.half() for name, value in BATCH.items() if name in ("teacher_start", "teacher_end")}
    for batch in (BATCH, stored):
        terms = {
            name: float(term)
            for name, term in losses.joint_loss(OUTPUT, batch, weights=weights, temperature=2.0).items()
        }
        assert terms == pytest.approx(expected, rel=1e-6 if batch is BATCH else 1e-3)


def test_smoothed_labels_are_divided_among_the_tokens_that_may_be_answers():
    # [CLS], a token of the question, which RMR never answers with, and two of the passage
    logits, never = torch.tensor([[0.0, NEVER, 0.0, math.log(2)]]), torch.tensor([[0.0, NEVER, 0.0, 0.0]])
    output = SimpleNamespace(start_logits=logits, end_logits=never)
    batch = dict.fromkeys(("start", "end"), torch.tensor([3]))
    batch |= {"attention_mask": torch.ones(1, 4), "segment_ids": torch.tensor([[0, 1, 2, 2]])}
    # Start: 1/4, 1/4, 1/2 with labels of 1/10, 1/10, 8/10. End: 1/3 each.
    expected = 0.2 * math.log(4) + 0.8 * math.log(2) + LN3
    assert losses.smoothed_loss(output, batch, smoothing=0.3)["CE"].item() == pytest.approx(expected)


WORDS = "ada met bela in delta".split()


def windows_for(*gold, **settings):
    """Make windows of "[CLS] who [SEP] ada met bela in delta [SEP]", the passage at 3 to 7."""
    context = " ".join(WORDS)
    begin = context.index(gold[0])
    example = Example("q", "who", context, gold, (begin, begin + len(gold[0])), "q")
    return make_windows([example], load_tokenizer("data/mini"), **settings)


def probabilities(windows, *sides):
    """Start and end probabilities, 0 but as given for each window by word."""
    flat = np.zeros((2, windows.lengths_W.sum()), np.float32)
    offsets = windows.offsets_W + windows.passage_start_W
    firsts = [windows.examples[0].context[: row.chars[0][0]].count(" ") for row in windows.rows]
    for offset, (start, end) in zip(offsets - firsts, sides, strict=True):
        for side, values in zip(flat, (start, end), strict=True):
            for word, value in values.items():
                side[offset + WORDS.index(word)] = value
    return tuple(flat)


# bela .36, bela in delta .24, delta .12, ada met bela .06, ada met bela in delta .04
SPREAD = {"ada": 0.1, "bela": 0.6, "delta": 0.3}, {"bela": 0.6, "delta": 0.4}


def confusing(windows, *sides, top_k=4):
    answers = ensemble.confusing_answers(small(), windows, probabilities(windows, *sides), top_k)
    return [values.tolist() for values in answers]


def test_the_surest_answer_that_shares_no_word_is_the_confusing_one():
    windows = windows_for("bela")
    assert confusing(windows, SPREAD, top_k=3) == [[[7, 7]], [pytest.approx(0.3 * 0.4)]]  # delta, third
    assert confusing(windows, SPREAD, top_k=2) == [[[0, 0]], [0]]


def test_a_piece_of_the_answers_word_confuses_nobody():
    example = Example("q", "who", "Amberton met Tamar", ("Amberton",), (0, 8), "q")
    windows = make_windows([example], load_tokenizer("data/mini"))
    first, last = (int(windows.labels[side][0]) for side in ("start", "end"))
    assert first < last  # the word has several pieces
    other = windows.positions(0, (13, 18))  # Tamar
    sides = np.zeros((2, windows.lengths_W.sum()), np.float32)
    sides[:, last] = sides[0, first] = sides[1, other[1]] = 0.4  # a piece of Amberton is surer than Tamar
    sides[0, other[0]] = 0.2
    positions, confidence = ensemble.confusing_answers(small(), windows, sides, top_k=3)
    assert positions.tolist() == [list(other)] and confidence == [pytest.approx(0.2 * 0.4)]


def test_a_span_is_extended_to_whole_words_where_spaces_are_set():
    assert ensemble.extend_to_words("in Amberton.", (5, 7)) == (3, 11)
    assert ensemble.extend_to_words("Amberton met", (0, 8)) == (0, 8)
    assert ensemble.extend_to_words("他在北京工作", (2, 4)) == (2, 4)


def test_every_window_has_its_own_and_one_without_the_answer_has_none():
    windows = windows_for("delta", max_length=7, stride=2)  # ada met bela, and bela in delta
    assert windows.passage_len_W.tolist() == [3, 3] and windows.labels["start"].tolist() == [0, 5]
    sure = {"ada": 1.0}, {"ada": 1.0}
    positions, confidence = confusing(windows, sure, ({"bela": 0.7, "delta": 0.3}, {"bela": 0.5, "delta": 0.5}))
    # The second window holds bela at 3; bela in delta and delta overlap with gold.
    assert positions == [[0, 0], [3, 3]] and confidence == [0, pytest.approx(0.35)]


def outputs(monkeypatch, windows, temperature, *members):
    """What an ensemble knows whose members have these probabilities and attention, and shifts of their logits."""

    def read(model, windows, precision, attention):
        sides, value, shift = members[model]
        logits = (np.log(np.maximum(side, 1e-30)) + shift for side in probabilities(windows, sides))
        return Logits(*logits, np.full(5, value, np.float32))

    monkeypatch.setattr(ensemble, "predict", read)
    number = len(members)
    return ensemble.join_outputs(small(), range(number), windows, number, temperature, top_k=4)


def test_an_ensemble_knows_the_means_and_the_surest_confusing_answer(monkeypatch):
    windows = windows_for("bela")
    other = {"bela": 0.5, "ada": 0.5}, {"bela": 0.6, "ada": 0.4}  # bela .3, ada .2
    members = (SPREAD, 0.5, 100.0), (other, 0.75, 0.0)
    stored = outputs(monkeypatch, windows, 1.0, *members)
    # (.6 + .5) / 2 and (.1 + .5) / 2; the mean of logits would favour the member whose logits are larger.
    assert stored["start"].tolist() == pytest.approx([0, 0, 0, 0.3, 0, 0.55, 0, 0.15, 0], abs=1e-3)
    assert stored["end"].tolist() == pytest.approx([0, 0, 0, 0.2, 0, 0.6, 0, 0.2, 0], abs=1e-3)
    assert stored["attention"].tolist() == [0.625] * 5
    # One is confused by delta at .12, the other by ada at .2.
    assert (stored["confusing_start"].tolist(), stored["confusing_end"].tolist()) == ([3], [3])
    assert outputs(monkeypatch, windows, 1.0, *members[::-1])["confusing_start"].tolist() == [3]
    assert {stored[name].dtype for name in ("start", "end", "attention")} == {torch.float16}


def test_the_temperature_softens_what_is_stored_and_not_the_confidence(monkeypatch):
    windows = windows_for("bela")
    # Of the starts .64 and .36 the roots are .8 and .6: 4/7 and 3/7 at temperature 2.
    softened = ({"bela": 0.64, "ada": 0.36}, {"bela": 0.64, "ada": 0.36}), 1.0, 0.0
    stored = outputs(monkeypatch, windows, 2.0, softened, softened)
    assert stored["start"][[3, 5]].tolist() == pytest.approx([3 / 7, 4 / 7], abs=1e-3)
    # ada at .36 squared = .13 is surer than delta at .12; softened it would be .18 against .27.
    delta = {"bela": 0.88, "delta": 0.12}, {"delta": 1.0}
    assert outputs(monkeypatch, windows, 2.0, softened, (delta, 1.0, 0.0))["confusing_start"].tolist() == [3]


def terms_of(reader):
    """The terms of Eq. 1 by which a reader trains, with their weights."""
    return reader.loss.keywords["weights"]


def steps_of(reader):
    return reader.data.steps(reader.preset, reader.optim)


def outputs_of(student):
    (outputs,) = student.teacher.outputs
    return outputs


def test_the_rows_of_table_5():
    preset = small(**{"mnemonic.epochs": 4.0})
    students = algorithm.student_trainings(preset, "RMR", 0, ROWS)
    stored, members = outputs_of(students["A2D"]), algorithm.members_of(students["A2D"])
    assert [member.seed for member in members] == [100, 200]
    assert all(member.loss is likelihood and member.teacher is None for member in members)
    assert tuple(students) == ROWS
    weights = {"CE": 1.0, "KD": 4.0, "ANS": 0.3, "ATT": 0.1}
    for student, left_out in zip(students.values(), algorithm.ABLATIONS.values(), strict=True):
        assert terms_of(student) == {name: weight for name, weight in weights.items() if name != left_out}
        assert outputs_of(student) is stored and student.seed == 0 and student.data.selected_by == ("encyclopedia",)
    # The attention alone, half of the time, and then the rest; or the rest with as many steps as others have in all.
    whole = count_steps(preset, ["encyclopedia"], members[0].optim)
    staged, longer = students[algorithm.STAGED], students[algorithm.STAGED_WHOLE]
    assert (
        staged.start is longer.start and terms_of(staged.start) == {"ATT": 0.1} and staged.start.data.selected_by == ()
    )
    assert [steps_of(one) for one in (staged.start, staged, longer)] == [whole // 2, whole - whole // 2, whole]
    assert {steps_of(one) for one in (*members, *students.values())} == {whole, whole - whole // 2}
    assert algorithm.name_student("BERT", "- Vanilla KD") == "BERT, - Vanilla KD"
    assert [algorithm.name_student("RMR", row) for row in ROWS[:2]] == ["RMR + A2D", "- Vanilla KD"]


def test_a_weight_of_zero_is_no_term():
    preset = small(**{"a2d.answer_weight": 0.0, "a2d.attention_weight": 0.0})
    students = algorithm.student_trainings(preset, "RMR", 0, ROWS)
    assert all(set(terms_of(student)) <= {"CE", "KD"} for student in students.values())
    assert students["A2D"].key == students["- ATT"].key == students["- ANS"].key
    assert terms_of(students[algorithm.STAGED].start) == {"ATT": 1.0}  # by itself it needs no weight


def test_a_row_averages_over_the_students_of_an_ensemble():
    models = algorithm.collect_rows(small(), ["RMR"], each=3)
    students = [readers[0] for row, _, _, readers in models if row == "RMR + A2D"]
    assert len({one.key for one in students}) == 3 and len({outputs_of(one).key for one in students}) == 1
    assert students[0].key == algorithm.student_trainings(small(), "RMR", 0)["A2D"].key
    members = algorithm.members_of(students[0])
    assert len({one.seed for one in (*students, *members)}) == 3 + len(members)


def test_a_second_kind_has_the_seeds_of_controls():
    models = algorithm.collect_rows(small(seeds=3, control_seeds=1), ["RMR", "BERT"])
    assert {row: [*seeds] for row, seeds in models.by_row.items() if row in ("RMR", "BERT + A2D")} == {
        "RMR": [0, 1, 2],
        "BERT + A2D": [0],
    }
    later = {"seeds": 3, "control_seeds": 1, "engine.first_seed": 1}
    assert algorithm.list_kinds(small(**later)) == ["RMR"], "claims and baselines are of rows with scores"


def test_longer_trainings_and_other_teachers():
    preset = small(**{"a2d.lengths": [2.0, 1.0, 0.01]})
    (student,) = algorithm.student_trainings(preset, "RMR", 0).values()
    members = algorithm.members_of(student)
    member, models = members[0], algorithm.collect_controls(preset, "RMR")
    readers = {point: models.first(point) for point in models.by_row}
    assert [times for _, times in readers] == [0.01, 1.0, 2.0] * 4
    # One reader is a noisier baseline than the mean of all that are trained.
    of_member = {point: len(of_seed[0]) for point, of_seed in models.by_row.items() if point[0] == "RMR"}
    assert of_member == {("RMR", 0.01): 1, ("RMR", 1.0): len(members), ("RMR", 2.0): 1}
    assert [of.key for (of,) in models.by_row["RMR", 1.0][0].values()] == [of.key for of in members]
    whole = steps_of(member)
    assert {times: steps_of(reader) for (_, times), reader in readers.items()} == {0.01: 1, 1.0: whole, 2.0: 2 * whole}
    # At 1 they are the tables' own readers, so nothing is trained twice.
    assert readers["RMR", 1.0].key == member.key
    assert readers["RMR + A2D", 1.0].key == student.key
    alone, smoothed = readers["RMR + one teacher", 2.0], readers["RMR, smoothed labels", 2.0]
    assert [one.key for one in algorithm.members_of(alone)] == [member.key] and "KD" in terms_of(alone)
    assert smoothed.loss.keywords == {"smoothing": 0.1} and smoothed.teacher is None
    assert {reader.seed for (line, _), reader in readers.items() if line != "RMR"} == {0}
    assert len({reader.key for reader in readers.values()}) == len(readers)


def test_keys_follow_what_a_training_depends_on(tmp_path):
    def keys(kind="RMR", preset=None, **changes):
        (student,) = algorithm.student_trainings(preset or small(**changes), kind, 0).values()
        return algorithm.members_of(student)[0].key, outputs_of(student).key, student.key

    member, stored, student = keys()
    for changes in ({"a2d.temperature": 3.0}, {"a2d.members": 3}, {"a2d.top_k": 2}):
        other = keys(**changes)
        assert other[0] == member and other[1] != stored and other[2] != student
    assert keys(**{"a2d.answer_weight": 0.5})[:2] == (member, stored)  # concerns the student alone
    for idle in ({"training.learning_rate": 5e-3}, {"random_layers": 2}, {"encoder": "data/mini/student"}):
        assert keys(**idle)[0] == member and keys("BERT", **idle)[0] != keys("BERT")[0]
    for change in ({"mnemonic.learning_rate": 5e-3}, {"mnemonic.hidden": 5}, {"mnemonic.batch_size": 3}):
        assert keys(**change)[0] != member and keys("BERT", **change) == keys("BERT")
    one, same, other = (tmp_path / name for name in ("one.txt", "same.txt", "other.txt"))
    for file, number in ((one, 2), (same, 2), (other, 3)):
        file.write_text(f"the 1 {number}\n")
    of_files = [keys(**{"mnemonic.glove": str(file)})[0] for file in (one, same, other)]
    assert of_files[0] == of_files[1] != of_files[2] and member not in of_files  # the content counts, not the place
    pair = {"encyclopedia": "encyclopedia", "search": "search"}
    orders = [
        load_preset("smoke", "a2d", **{"data.domains": dict(order)}) for order in (pair.items(), [*pair.items()][::-1])
    ]
    assert len({keys(preset=preset)[0] for preset in orders}) == 1


@pytest.fixture(scope="module")
def trained(module_results):
    """All rows of Table 5 for RMR, trained once for this module."""
    torch.set_num_threads(1)
    students = algorithm.student_trainings(small(), "RMR", 0, ROWS)
    engine.run((wave for wave in [students.values()]), small().engine)
    return students


def test_a_second_stage_goes_on_in_the_order_of_the_first(trained):
    staged, other = trained[algorithm.STAGED], trained["A2D"]
    plan = [*staged.start.batches().schedule, *staged.batches().schedule]
    assert [index.tolist() for index in plan] == [index.tolist() for index in other.batches().schedule]
    assert staged.start.result()["validation"] == []  # nothing to select by
    assert [one.result()["steps"] for one in (staged.start, staged)] == [len(plan) // 2, len(plan) - len(plan) // 2]


def test_what_is_stored_is_what_the_members_say_and_a_batch_has_it(trained):
    student = trained["A2D"]
    stored, batches, members = outputs_of(student), student.batches(), algorithm.members_of(student)
    windows, (teacher,) = windows_of(stored.preset, ["encyclopedia"], "train"), batches.teachers
    positions = torch.from_numpy(batches.sequences.labels["teacher_confusing_start"])
    assert stored.result()["confused"] == int((positions > 0).sum())
    expected = 0
    for member in members:
        logits = predict(keep_attention(member.load()), windows, "fp32", attention=True)
        expected = expected + distributions(windows, logits, 2.0)[0] / len(members)
    assert np.allclose(teacher.of_tokens["start"].float(), expected, atol=1e-3)
    lengths = np.repeat(windows.question_len_W, windows.passage_len_W)  # each passage token's attention adds up to 1
    assert np.allclose(np.add.reduceat(logits.attention, np.cumsum(lengths) - lengths), 1, atol=1e-4)
    batch = batches.at(0)
    assert torch.equal(batch["teacher_confusing_start"], positions[batch["window"]])
    assert set(trained["- ANS"].loss(OUTPUT, BATCH, 0.0)) == {"CE", "KD", "ATT"}


def test_a_reader_by_itself_has_the_answers_of_every_member(monkeypatch):
    def answer_sets(preset, cells, together):
        assert together
        yield from ()
        return {cell: (name, [[reader.label for reader in readers]]) for cell, (readers, name) in cells.items()}

    monkeypatch.setattr(shared, "answer_sets", answer_sets)
    preset = small()
    texts = engine.run(tables.answer_columns(algorithm.collect_rows(preset, ["RMR"]), tables.ABLATED), preset.engine)
    first, second = (f"RMR, member {n}, seed {n}00" for n in (1, 2))
    assert texts["RMR", "Test", 0] == ("test", [[first], [second]])
    assert texts["RMR (E)", "Test", 0] == ("test", [[first, second]])
    assert len(texts) == 6  # Dev and Test of three rows: the preset has no adversarial questions
    assert engine.run(tables.table2(preset), preset.engine) == {}
    assert engine.run(tables.steps(small(**{"a2d.lengths": []})), preset.engine) == {}


def test_rivals_are_compared_with_every_seed(monkeypatch):
    def score_curves(models):
        yield from ()
        return [Score(method=row, column="Test", seed=seed, value=0.0, x=x) for (row, x), _, seed, _ in models]

    monkeypatch.setattr(tables, "score_curves", score_curves)
    monkeypatch.setattr(tables, "add_notes", lambda models, parts: parts)
    settings = {"a2d.lengths": [1.0, 2.0], "seeds": 3}
    few, none = small(**settings, control_seeds=1), small(**settings, control_seeds=0)
    assert {score.seed for score in engine.run(tables.steps(few), few.engine)["scores"]} == {0, 1, 2}
    assert engine.run(tables.steps(none), none.engine) == {}


def test_students_of_other_ensembles_share_the_members_of_the_tables():
    preset = small(**{"a2d.members": 2})
    (student,) = algorithm.student_trainings(preset, "RMR", 0).values()
    models = algorithm.vary_ensembles(preset, "RMR", "members", [1, 2, 4])
    by_number = {n: models.first(("RMR + A2D", n), 0) for n in (1, 2, 4)}
    assert by_number[2].key == student.key != by_number[4].key
    ensembles = {n: [member.key for member in algorithm.members_of(one)] for n, one in by_number.items()}
    assert ensembles[4][:2] == ensembles[2] and ensembles[2][:1] == ensembles[1]
    assert [member.key for member in models.by_row["RMR (E)", 4][0][algorithm.ALL_DOMAINS]] == ensembles[4]
    models = algorithm.vary_ensembles(preset, "RMR", "temperature", [1, 8])
    hot = models.first(("RMR + A2D", 8), 0)
    assert hot.loss.keywords["temperature"] == 8 and hot.loss.keywords["weights"]["KD"] == 64
    assert [member.key for member in algorithm.members_of(hot)] == ensembles[2]
    assert [*models.by_row][:2] == [("RMR", None), ("RMR (E)", None)]
    assert [one.key for (one,) in models.by_row["RMR", None][0].values()] == ensembles[2]
    (outputs,) = hot.teacher.outputs
    assert outputs.compute.keywords["temperature"] == 8
    assert engine.run(tables.members(small(**{"a2d.member_counts": []})), preset.engine) == {}


def test_the_student_at_the_last_place_is_claimed_to_be_above_that_at_the_first():
    lines = [("RMR", None), *(("RMR + A2D", x) for x in (8.0, 2.0, 1.0))]
    scores = [Score(method=m, column=c, seed=0, value=1.0, x=x) for m, x in lines for c in ("Test", "AddSent")]
    first, second = tables.state_places(scores, "members")
    assert first.text == "RMR + A2D is better with 8 teachers than with 1 on Test"
    assert (first.above, first.below, second.columns) == ("RMR + A2D, 8", "RMR + A2D, 1", ["AddSent"])
    *_, at_the_papers = tables.state_places(scores, "temperature")
    assert (at_the_papers.above, at_the_papers.below, at_the_papers.columns) == ("RMR + A2D, 2", "RMR", ["Test"])
    assert len(tables.state_places([score for score in scores if score.x != 2], "temperature")) == 2
