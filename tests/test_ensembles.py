"""A reader of one's own domains that an ensemble teaches: what is trained, in which order, and what it learns."""

import json
import shutil

import pytest
import torch
from conftest import arguments, waves_of
from transformers import AutoModelForQuestionAnswering

from helpers import __main__ as cli
from helpers import own as own_domains
from helpers import papers, paths
from helpers.data.mini import domains as mini
from helpers.models.pretrained import EncoderError, weights_digest
from helpers.notebooks.session import preset_for
from helpers.papers.imm import own
from helpers.papers.rows import ancestry, trainings_of
from helpers.results import records
from helpers.tasks import distilled, ensembles
from helpers.training import engine

METHOD = papers.load("imm").own_domains


@pytest.fixture
def more(tmp_path):
    """Questions without answers, about another miniature domain."""
    rows = [{"context": e.context, "question": e.question} for e in mini.load_domain("search", train_size=20).train[:9]]
    file = tmp_path / "more.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def preset(results, files, more):
    asked = {"preset": "smoke", "imm.ensemble": 2, "imm.unlabelled": str(more), "imm.methods": "Mix"}
    return preset_for(asked, METHOD.notebook, **METHOD.settings, **own_domains.overrides(METHOD, files, "smoke"))


def test_the_ensemble_first_then_what_it_says_then_its_students(preset):
    (*_, wave), readers = waves_of(own.baselines(preset, 3))
    members, outputs, students = wave[:2], wave[2:-2], wave[-2:]
    mix, (plain, with_more) = readers["Mix"]["news"], students
    assert [member.seed for member in members] == [103, 203]
    same = set(type(mix).model_fields) - {"seed", "label", "infra"}
    for member in members:
        assert {field: getattr(member, field) for field in same} == {field: getattr(mix, field) for field in same}
    assert plain.seed == mix.seed and plain.steps == mix.steps and plain.settings == mix.settings
    assert plain.members == [member.key for member in members] == with_more.members
    assert plain.terms == {"CE": 1.0, "KD": 4.0, "ANS": 0.3, "ATT": 0.1} == with_more.terms  # tau is 2
    assert len({one.key for one in outputs}) == 2  # the domains' questions are asked once for both
    windows = len(with_more.outputs()[1].windows())
    assert windows >= 9 and with_more.steps == plain.steps + round(windows / 8)
    assert (
        readers["Distilled"] == {"news": plain, "trivia": plain} and readers["Distilled with more"]["news"] is with_more
    )
    assert set(with_more.builds_on()) == {*with_more.members, *(one.key for one in with_more.outputs())}
    assert all(one.builds_on() == with_more.members for one in outputs)
    # what it costs by itself: its ensemble and its own training, but not the row Mix
    known = trainings_of([*members, *students, mix])
    assert set(ancestry([plain], known)) == {plain.key, *plain.members}


def test_where_the_questions_lie_is_not_part_of_the_key_and_what_they_are_is(preset, more, tmp_path):
    def students(file):
        changed = preset.changed("imm", unlabelled=str(file))
        return [waves_of(own.baselines(changed, 0))[1][row]["news"].key for row in ("Distilled", "Distilled with more")]

    shutil.copy(more, tmp_path / "copy.jsonl")
    fewer = tmp_path / "fewer.jsonl"
    fewer.write_text("".join(more.read_text().splitlines(keepends=True)[1:]))
    first, copied, other = students(more), students(tmp_path / "copy.jsonl"), students(fewer)
    assert first == copied and first[0] == other[0] and first[1] != other[1]


def test_questions_without_answers_have_what_the_ensemble_says_and_no_label(preset):
    *_, (*ensemble, _, student) = waves_of(own.baselines(preset, 0))[0]
    engine.run(ensemble, preset.engine)
    asked, others = (one.windows() for one in student.outputs())
    batches, loss = student.batches(), distilled.joint_loss(student.terms, student.temperature)
    numbers = torch.cat([torch.as_tensor(rows) for rows in batches.plan])
    assert (numbers >= len(asked)).any() and numbers.max() < len(asked) + len(others)
    model = student.initial()
    for kind, first, last in (("labelled", 0, len(asked)), ("not", len(asked), len(asked) + len(others))):
        batches.plan = [numbers.new_tensor(range(first, last)).numpy()]
        batch = batches.at(0)
        assert batch["teacher_start"].sum(1).tolist() == pytest.approx([1.0] * (last - first), abs=2e-3)
        inputs = ("input_ids", "attention_mask", "token_type_ids", "segment_ids")
        terms = loss(model(**{name: batch[name] for name in inputs}), batch, 0.0)
        assert (terms["CE"] > 0) == (kind == "labelled") and terms["KD"] > 0 and terms["ATT"] > 0
        assert kind == "labelled" or terms["ANS"] == 0


def test_it_can_be_chosen_and_costs_what_its_ensemble_does(results, files, more, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        own,
        "validation",
        lambda trained, after=None: {
            (row, domain, seed): {"Distilled": 2.0, "Distilled with more": 1.0 + 2 * (domain == "news")}.get(row, 0.0)
            for row, seed, domain, _ in trained.models()
        },
    )
    out, given = (
        tmp_path / "out",
        ("--methods", "Mix", "--ensemble", "2", "--unlabelled", str(more), "-p", "seeds", "1"),
    )
    assert cli.main(arguments(files, out, *given, "--dry-run")) == 0
    # Single 2, asked 2; Mix 1, asked 2 and on validation 2; members 2, their outputs 2, students 2, asked 4 and 4
    assert "23 trainings and scorings at most, 0 done before" in capsys.readouterr().out
    assert cli.main(arguments(files, out, *given)) == 0
    (file,) = (results / "own/imm").glob("*.json")
    record = records.read(file)
    assert record.payload["chosen"] == {"news": "Distilled with more", "trivia": "Distilled"}
    assert {score.method for score in record.scores} == {"Single", "Mix", "Distilled", "Distilled with more", "Chosen"}
    assert "9 questions without an answer" in record.notes and str(tmp_path) not in file.read_text()
    assert list(record.payload["seconds"]) == ["Single", "Mix", "Distilled", "Distilled with more"]
    weights = {weights_digest(path.parent) for path in paths.models("own").rglob("*.safetensors")}
    for name, said in (("news", "questions and of others without answers ("), ("trivia", "of their questions (")):
        assert AutoModelForQuestionAnswering.from_pretrained(out / name).config.num_hidden_layers == 1
        assert weights_digest(out / name) in weights
        card = " ".join((out / name / "README.md").read_text().split())
        assert "what 2 such readers say together" in card and said in card
    before = sorted(path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl"))
    assert cli.main(arguments(files, out, *given)) == 0
    assert sorted(path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl")) == before


def test_where_attention_cannot_be_read_it_is_left_out(preset, monkeypatch):
    def unreadable(model):
        raise EncoderError("cannot be read")

    monkeypatch.setattr(distilled, "attention_of", unreadable)
    distilled.has_attention.cache_clear()
    *_, wave = waves_of(own.baselines(preset, 0))[0]
    students = wave[-2:]
    distilled.has_attention.cache_clear()
    assert [set(student.terms) for student in students] == [{"CE", "KD", "ANS"}] * 2
    monkeypatch.setattr(ensembles, "keep_attention", unreadable)
    engine.run(wave, preset.engine)
    outputs = students[0].outputs()[0]
    assert set(outputs.stored()) == {"start", "end", "confusing_start", "confusing_end"}
    size = sum(values.numel() * values.element_size() for values in outputs.stored().values())
    assert outputs.result()["bytes"] == size == ensembles.knowledge_bytes(outputs.windows(), attention=False)
    assert size < ensembles.knowledge_bytes(outputs.windows())


def test_without_an_ensemble_nobody_answers(results, files, more, tmp_path, capsys):
    assert cli.main(arguments(files, tmp_path / "out", "--unlabelled", str(more))) == 1
    said = capsys.readouterr().err
    assert "unlabelled needs readers that answer its questions: give ensemble too (--ensemble 4)" in said
    assert said.count("\n") == 1 and not list(results.rglob("job.pkl"))


def test_a_file_that_cannot_be_used_is_named_before_anything_is_trained(results, files, tmp_path, capsys):
    (tmp_path / "passages.txt").write_text("Ada Bell leads Gamma.\n\nBo Quill leads Delta.\n")
    given = ("--ensemble", "2", "--unlabelled", str(tmp_path / "passages.txt"))
    assert cli.main(arguments(files, tmp_path / "out", *given)) == 1
    said = capsys.readouterr().err
    assert "passages.txt: there is no question in it, and a passage alone cannot be answered; expected" in said
    assert said.count("\n") == 1 and not list(results.rglob("job.pkl"))
