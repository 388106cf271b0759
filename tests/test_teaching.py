"""Teachers from elsewhere: their outputs on a student's windows, questions without answers, and the table."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from conftest import plan_of
from encoder_kinds import KINDS, ROOM, make_tokenizer
from qa_files import MINE, write_examples

from helpers import engine
from helpers.answering import load_reader
from helpers.batches import Batches
from helpers.data.load import load
from helpers.data.mini import world
from helpers.data.questions import read_questions
from helpers.data.unlabelled import load_unlabelled
from helpers.errors import EncoderError, UserError
from helpers.extractive_qa import SIDES, likelihood, windows_of
from helpers.models.attention import keep_attention
from helpers.models.encoders import load_encoder, load_tokenizer, save_encoder
from helpers.notebooks.session import ParameterError, Session, preset_for, settle
from helpers.papers.a2d.ensemble import join_outputs
from helpers.papers.a2d.losses import joint_loss
from helpers.papers.shared import Models
from helpers.papers.your_domains import comparison, tables, teachers, teaching
from helpers.presets.schema import UnlabelledSettings
from helpers.training import StoredTeacher

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
NOTEBOOK = "18_your_domains"


@pytest.fixture(scope="module")
def files(module_results):
    """Files with answers, and without: questions of one domain, some of them its test questions, and of another."""
    folder = module_results / "mine"
    news, trivia, search = (world.load_domain(name, train_size=60).train for name in ("news", "trivia", "search"))
    write_examples(folder / "labelled/news.json", news[:40])
    write_examples(folder / "labelled/trivia.json", trivia[:40])
    write_examples(folder / "unlabelled/news.json", news)
    rows = [{"question": example.question, "context": example.context} for example in search]
    (folder / "unlabelled/search.json").write_text(json.dumps(rows))
    (folder / "mine.toml").write_text(MINE)
    return folder


@pytest.fixture(scope="module")
def readers(module_results):
    """Two untrained readers: one with the student's tokenizer, one with a byte-level BPE."""
    torch.set_num_threads(1)
    texts = [text for e in world.load_domain("news", train_size=60).train for text in (e.question, e.context)]
    tokenizer, (name, _, changes) = make_tokenizer("roberta", texts), KINDS["roberta"]
    settings = {"vocab_size": len(tokenizer), "max_position_embeddings": ROOM, **SIZES, **changes}
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**settings)
    models = {
        "alike": (load_encoder("data/mini", seed=3, random_layers=1), load_tokenizer("data/mini")),
        "other": (transformers.AutoModelForQuestionAnswering.from_config(config), tokenizer),
    }
    for place, (model, its_tokenizer) in models.items():
        model.config.update({"windows": {"max_length": 96, "stride": 32}, "precision": "fp32"})
        save_encoder(model, its_tokenizer, module_results / place)
    return {place: str(module_results / place) for place in models}


@pytest.fixture(scope="module")
def preset(files, readers):
    """The preset of files with answers and without, taught by the reader of another tokenizer."""
    return make_preset(files, teacher=readers["other"], labelled="labelled", unlabelled="unlabelled")


def make_preset(files, teacher, **folders):
    return settle_mine(files, teacher, **folders)[0]


def settle_mine(files, teacher, labelled="", unlabelled=""):
    settings = {"data.folder": labelled and str(files / labelled), "teacher": teacher, "training.epochs": 1.0}
    settings |= {"data.unlabelled": unlabelled and str(files / unlabelled), "methods": "Single"}
    return settle(NOTEBOOK, str(files / "mine.toml"), {key: value for key, value in settings.items() if value}, {})


def test_a_teacher_with_the_student_s_tokenizer_teaches_exactly_as_a_stored_ensemble_does(preset, readers):
    windows, tokenizer = windows_of(preset, ["news"], "train"), load_tokenizer(preset.encoder)
    (teacher,) = teachers.list_teachers(preset.model_copy(update={"teacher": readers["alike"]}))
    carried = teachers.carry(teacher.load(), windows, tokenizer, temperature=2.0)
    stored = join_outputs(preset, [keep_attention(teacher.load().model)], windows, 1, 2.0, 1)
    assert carried.cut == 0 and carried.dropped == pytest.approx(0, abs=1e-6)
    losses, rng = [], np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(2, len(windows), 96)).astype(np.float32))
    output = SimpleNamespace(start_logits=logits[0], end_logits=logits[1])
    halves = {side: torch.from_numpy(values).half() for side, values in carried.sides.items()}
    for sides in ({side: stored[side] for side in SIDES}, halves):
        batches = Batches(windows, [np.arange(len(windows))])
        teachers.StoredTeachers((SimpleNamespace(tensors=sides.copy),)).add_to(batches, None)
        batch = batches.at(0, multiple=96)
        losses.append(joint_loss(output, batch, weights={"CE": 1.0, "KD": 4.0}, temperature=2.0)["KD"])
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=1e-6) and losses[0] > 1


def test_a_teacher_that_is_sure_of_every_answer_teaches_what_the_labels_teach(preset):
    training = teaching.taught_training(preset, 0)
    windows = windows_of(preset, ["news"], "train")
    sides = {side: torch.zeros(int(windows.lengths_W.sum())) for side in SIDES}
    for side, values in sides.items():
        values[torch.from_numpy(windows.offsets_W + windows.labels[side])] = 1
    batch = Batches(windows, [np.arange(len(windows))], [StoredTeacher(windows, sides)]).at(0)
    logits = torch.randn(2, *batch["input_ids"].shape, generator=torch.Generator().manual_seed(0))
    terms = training.loss(SimpleNamespace(start_logits=logits[0], end_logits=logits[1]), batch)
    assert terms["KD"].item() == pytest.approx(terms["CE"].item(), rel=1e-6) and terms["CE"] > 1


def test_a_teacher_of_another_tokenizer_gives_distributions_on_the_student_s_windows(preset, readers):
    windows, tokenizer = windows_of(preset, ["news"], "train"), load_tokenizer(preset.encoder)
    both = preset.model_copy(update={"teacher": f"{readers['other']} {readers['alike']}"})
    outputs = [
        teachers.TeacherOutputs(
            preset=preset, label="", teachers=teachers.list_teachers(each), domain="news", temperature=2.0
        )
        for each in (preset, both)
    ]
    for task in outputs:
        engine.run(plan_of(task), preset.engine)
        result = task.result()
        assert result["windows"] == len(windows) and 0 < result["dropped"] < 0.05
    for side in SIDES:
        alone, mean = (task.tensors()[side].float().numpy() for task in outputs)
        sums = np.add.reduceat(alone, windows.offsets_W)
        assert sums == pytest.approx(np.ones(len(windows)), abs=1e-2)  # float16
        alike = teachers.carry(outputs[1].teachers[1].load(), windows, tokenizer, 2.0).sides[side]
        assert mean == pytest.approx((alone + alike) / 2, abs=2e-4)


def test_windows_that_a_teacher_cannot_read_as_a_whole_are_counted(preset):
    (teacher,) = teachers.list_teachers(preset)
    domain = load(preset.data, "news")
    longer = preset.changed("windows", max_length=160, stride=120)
    examples = [replace(e, context=" ".join([e.context] * 3), span=None, answers=()) for e in domain.train[:4]]
    windows = teachers.windows_over(longer, examples)
    carried = teachers.carry(teacher.load(), windows, load_tokenizer(preset.encoder))
    assert 0 < carried.cut <= len(windows)


def test_further_questions_leave_out_those_that_validate_and_test(preset):
    examples, notes = load_unlabelled(preset.data)
    assert set(examples) == {"news", "search"} and not any(e.answers or e.span for e in examples["news"])
    domain = load(preset.data, "news")
    held_out = {(e.question, e.context) for e in domain.valid + domain.test}
    assert held_out.isdisjoint((e.question, e.context) for e in examples["news"])
    assert any("unlabelled news" in note and "are left out" in note for note in notes)


def test_answers_are_not_read_and_those_in_files_are_counted(tmp_path):
    (tmp_path / "bare.csv").write_text("question,context\nWho?,Ann leads Gamma.\n")
    (tmp_path / "full.jsonl").write_text(json.dumps({"question": "Who?", "context": "Ann.", "answers": ["Ann"]}))
    read = [read_questions(tmp_path / name, is_labelled=False) for name in ("bare.csv", "full.jsonl")]
    assert [record.example.answers for records, _ in read for record in records] == [(), ()]
    assert [notes for _, notes in read] == [[], ["full.jsonl: 1 questions have answers, which are not read"]]


def test_questions_without_answers_weigh_nothing_in_the_likelihood(preset):
    training = teaching.taught_training(preset, 0)
    batches = training.data.batches(preset, training.optim, 0)
    labelled = sum(len(windows_of(preset, [name], "train")) for name in ("news", "trivia"))
    weight_W = batches.sequences.labels["weight"]
    assert weight_W.tolist() == [1.0] * labelled + [0.0] * (len(weight_W) - labelled)
    outputs = training.teacher.outputs
    assert [(o.domain, o.is_labelled) for o in outputs] == [
        ("news", True), ("trivia", True), ("news", False), ("search", False),
    ]  # fmt: skip
    assert sum(len(o.windows()) for o in outputs) == len(batches.sequences)
    assert {int(window) for batch in batches.schedule for window in batch} == set(range(len(batches.sequences)))
    model = training.build().eval()
    unlabelled = Batches(batches.sequences, [np.flatnonzero(weight_W == 0)[:4]]).at(0)
    output = model(**{name: unlabelled[name] for name in ("input_ids", "attention_mask", "token_type_ids")})
    assert likelihood(output, unlabelled)["likelihood"] == 0
    longer, mix = teaching.longer_training(preset, 0), teaching.untaught_training(preset, 0)
    steps = [len(one.batches()) for one in (mix, longer)]
    assert steps[0] < steps[1] == pytest.approx(len(batches), abs=1)


def test_the_table_has_teacher_and_students_with_sizes_and_times(preset):
    models = engine.run(comparison.train_readers(preset), preset.engine)
    assert list(models.by_row) == ["Single", teaching.TAUGHT]
    parts = engine.run(teaching.table(models), preset.engine)
    record = Session(preset, {}, "mine").save("imm/your_teacher", **parts)
    f1, em, size, time = record.by_metric()
    assert f1.rows == ["Teacher", "Mix", "Taught", "Mix, as many steps"] and f1.unit == "F1"
    assert f1.columns == em.columns == ["news", "trivia"]
    assert {score.value > 0 for score in (*size.scores, *time.scores)} == {True}
    assert [metric.unit for metric in (size, time)] == ["million parameters", "ms per question"]
    text = "\n".join(record.notes)
    assert "% of the teacher's probability fell on no token" in text and "without answers: news" in text
    side_by_side = engine.run(tables.table(models), preset.engine)
    assert {score.method for score in side_by_side["scores"]} == {"Single", "Taught", comparison.BEST}


def test_without_any_answer_the_teacher_s_count(files, readers):
    preset = make_preset(files, readers["other"], unlabelled="unlabelled")
    assert isinstance(preset.data, UnlabelledSettings) and list(preset.data.domains) == ["news", "search"]
    assert "unlabelled" in settle_mine(files, readers["other"], unlabelled="unlabelled")[1]  # the name of the run
    models = engine.run(comparison.train_readers(preset), preset.engine)
    domain = load(models.preset.data, "search")
    assert len(domain.test) == 12 and all(len(e.answers) == 1 for e in domain.train + domain.valid + domain.test)
    teacher = teachers.list_teachers(preset)[0].load()
    first = domain.valid[0]
    assert teacher.answer(first.question, first.context).text.strip() == first.answers[0]
    parts = engine.run(teaching.table(models), preset.engine)
    scores = [s.value for s in parts["scores"] if s.method == "Teacher" and s.metric == "F1"]
    assert scores == [100.0, 100.0]
    assert any(note.startswith("no question has an answer in its file") for note in parts["notes"])


def test_students_start_as_all_readers_do(preset):
    models, started = Models(preset), preset.model_copy(update={"encoder": "data/mini/large"})
    models.add(teaching.TAUGHT, 0, teaching.taught(started.for_seed(0), 0, models))
    students = teaching.collect_students(models)
    assert {member.preset.encoder for *_, (member,) in students} == {"data/mini/large"}


def test_several_teachers_keep_their_threshold_of_no_answer(preset, readers):
    teacher, examples = load_reader(readers["alike"]), load(preset.data, "news").valid
    teacher.calibration["null_threshold"] = float("-inf")  # every null score is above a span's by more
    answers = [
        [each.text for each in teachers.answer_all(several, examples, True)] for several in ([teacher], [teacher] * 2)
    ]
    assert answers[0] == answers[1] and not any(answers[0])


def test_without_a_teacher_there_is_no_table_and_no_further_method(files):
    preset = make_preset(files, "", labelled="labelled")
    assert engine.run(teaching.table(Models(preset)), preset.engine) == {}
    with pytest.raises(ParameterError, match="no teacher answers these questions; give -p teacher too"):
        make_preset(files, "", labelled="labelled", unlabelled="unlabelled")


def test_what_cannot_teach_is_refused_before_anything_is_trained(preset, readers):
    for text in (f"{readers['alike']} {readers['alike']}", " "):
        with pytest.raises(UserError, match=r"^teacher: expected different folders or names"):
            teachers.list_teachers(preset.model_copy(update={"teacher": text}))
    (teacher,) = teachers.list_teachers(preset.model_copy(update={"teacher": "data/mini"}))
    with pytest.raises(EncoderError, match="is no trained model"):
        teacher.work()
    training = teaching.taught_training(preset, 0)
    assert all(teacher in outputs.needs for outputs in training.teacher.outputs for teacher in outputs.teachers)
    with pytest.raises(ParameterError, match="it needs questions with answers; give their folder with -p data_dir"):
        settle("02_imm_main", "lab", {"data.unlabelled": "tests", "teacher": "x"}, {})


def test_a_preset_has_no_teacher_of_its_own():
    assert preset_for(NOTEBOOK, "lab").teacher == "" == preset_for(NOTEBOOK, "lab").data.unlabelled
