"""A teacher with another tokenizer: what it says falls on the same words, and sums to one."""

import numpy as np
import pytest
import torch
from conftest import text_of, write_squad
from encoder_kinds import make_tokenizer
from transformers import AutoModelForQuestionAnswering, BertConfig, RobertaConfig

from helpers import __main__ as cli
from helpers.batches.sequences import make_windows
from helpers.data.examples import Example
from helpers.data.mini import domains
from helpers.models.pretrained import save_encoder, weights_digest
from helpers.results import records
from helpers.tasks import soft_labels
from helpers.tasks.answering import load_reader
from helpers.tasks.logits import Logits

SIZES = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}
CUTS = {"max_length": 64, "stride": 16}


@pytest.fixture(scope="module")
def examples():
    return domains.load_domain("news", train_size=24).train[:12]


@pytest.fixture(scope="module")
def readers(examples, tmp_path_factory):
    """Two small readers: word pieces and bytes, each learned from other texts."""
    made = {}
    for kind, config, texts in (
        ("bert", BertConfig, [e.context for e in examples[:4]]),
        ("roberta", RobertaConfig, [e.question for e in examples]),
    ):
        tokenizer, place = make_tokenizer(kind, texts), tmp_path_factory.mktemp(kind)
        torch.manual_seed(0)
        settings = config(
            vocab_size=len(tokenizer), max_position_embeddings=130, pad_token_id=tokenizer.pad_token_id, **SIZES
        )
        model = AutoModelForQuestionAnswering.from_config(settings)
        model.config.update({"windows": CUTS})
        save_encoder(model, tokenizer, place)
        made[kind] = load_reader(place)
        made[kind].place = str(place)
    return made


def in_windows(windows, flat):
    """The values of each window."""
    return np.split(flat, np.cumsum(windows.lengths_W)[:-1])


@pytest.mark.parametrize(("teacher", "student"), [("bert", "roberta"), ("roberta", "bert")])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_probabilities_by_another_tokenizer_sum_to_one(readers, examples, teacher, student, temperature):
    assert set(readers["bert"].tokenizer.get_vocab()) != set(readers["roberta"].tokenizer.get_vocab())
    windows = make_windows(examples[:4], readers[student].tokenizer, **CUTS)
    assert len(windows) > 4
    for side in soft_labels.aligned(readers[teacher], windows, temperature):
        assert len(side) == windows.lengths_W.sum() and (side >= 0).all()
        for window, values in enumerate(in_windows(windows, side)):
            first, count = windows.prefix_W[window], windows.count_W[window]
            assert values.sum() == pytest.approx(1, abs=1e-5)
            passage = values[0] + values[first : first + count].sum()
            assert passage == pytest.approx(1, abs=1e-5) and 0 < values[0] < 1


@pytest.mark.parametrize(("teacher", "student"), [("bert", "roberta"), ("roberta", "bert")])
@pytest.mark.parametrize("room", [64, 512])  # 64: the teacher needs several windows for one of the student's
def test_answers_fall_on_the_same_words(readers, examples, teacher, student, room):
    glued = Example("glued", "Where?", "Gamma moved to (Rome) in 1999.", ("Rome",), (16, 20), "glued")
    ours = make_windows([*examples, glued], readers[student].tokenizer, max_length=96, stride=48)
    texts = []
    for window, (example, chars) in enumerate(soft_labels._stretches(ours)):
        text, answer = example.context[chars[0, 0] : chars[-1, 1]], example.answers[0]
        span = (text.index(answer), text.index(answer) + len(answer)) if answer in text else None
        texts.append(Example(str(window), example.question, text, (answer,), span, str(window)))
    theirs = make_windows(texts, readers[teacher].tokenizer, max_length=room, stride=16)
    assert (len(theirs) > len(ours)) == (room == 64)
    offsets = np.cumsum(theirs.lengths_W) - theirs.lengths_W
    logits = Logits(*np.zeros((2, theirs.lengths_W.sum()), np.float32))
    for name, flat in (("start", logits.start), ("end", logits.end)):  # sure of the answer wherever it is whole
        held = np.flatnonzero(theirs.labels[name])
        flat[(offsets + theirs.labels[name])[held]] = 20.0
    sides = [in_windows(ours, side) for side in soft_labels.carried(theirs, logits, ours)]
    checked = 0
    for window, text in enumerate(texts):
        if text.span is None or not (theirs.labels["start"][theirs.example_W == window] > 0).any():
            continue
        first, last = (int(side[window].argmax()) for side in sides)
        assert text.answers[0] in text_of(ours, window, first, last)
        assert len(text_of(ours, window, first, last)) <= len(text.answers[0]) + 2  # but for a mark that sticks to it
        assert sides[0][window][first] > 0.99
        checked += 1
        assert text.context != glued.context or text_of(ours, window, first, last) == "Rome"
    assert checked > len(examples)


def test_a_reader_by_its_own_tokens_says_what_it_says(readers, examples):
    reader = readers["bert"]
    windows, logits = reader.read(examples[:4])
    for side, flat in zip(soft_labels.aligned(reader, windows), (logits.start, logits.end), strict=True):
        for window, (values, own) in enumerate(zip(in_windows(windows, side), in_windows(windows, flat), strict=True)):
            first = windows.prefix_W[window]
            kept = np.r_[0, first : first + windows.count_W[window]]
            expected = np.exp(own[kept] - own[kept].max())
            assert values[kept] == pytest.approx(expected / expected.sum(), abs=2e-3)


def test_no_answer_stays_no_answer(readers, examples):
    ours = make_windows(examples[:1], readers["bert"].tokenizer, max_length=128, stride=48)
    theirs = make_windows(examples[:1], readers["roberta"].tokenizer, max_length=64, stride=16)
    assert len(ours) == 1 and len(theirs) > 1
    logits = Logits(*np.zeros((2, theirs.lengths_W.sum()), np.float32))
    first = np.cumsum(theirs.lengths_W) - theirs.lengths_W
    logits.start[first], logits.end[first] = 30.0, 30.0
    assert [side[0] for side in soft_labels.carried(theirs, logits, ours)] == pytest.approx([1, 1])
    logits.start[first[1]] = -5.0  # one window has an answer to offer
    start, end = soft_labels.carried(theirs, logits, ours)
    assert start[0] < 0.01 and end[0] == pytest.approx(1)


def test_an_unreadable_passage_is_no_answer(readers):
    empty = Example("1", "Who led Gamma?", "   ", (), None, "1")
    windows = make_windows([empty], readers["bert"].tokenizer, **CUTS)
    start, end = soft_labels.aligned(readers["roberta"], windows)
    assert start.tolist() == end.tolist() == [1.0] + [0.0] * (int(windows.lengths_W[0]) - 1)


def test_the_loss_is_worked_by_hand():
    class Output:
        start_logits = torch.tensor([[0.0, 0.0, 4.0]])
        end_logits = torch.tensor([[0.0, 4.0, 0.0]])

    batch = {
        "attention_mask": torch.ones(1, 3),
        "soft_start": torch.tensor([[0.5, 0.0, 0.5]]),
        "soft_end": torch.tensor([[0.0, 1.0, 0.0]]),
    }
    terms = soft_labels.taught(lambda output, batch, progress: {"likelihood": torch.tensor(1.0)}, 2.0)(Output, batch, 0)
    whole = np.log(2 + np.exp(2.0))  # of logits halved by the temperature
    by_hand = 4 * ((0.5 * whole + 0.5 * (whole - 2)) + (whole - 2))
    assert terms["likelihood"] == 1 and terms["soft labels"].item() == pytest.approx(by_hand, rel=1e-5)


def test_a_teacher_of_another_kind_teaches_readers_of_own_domains(results, readers, tmp_path, capsys):
    arguments = ["improve", "--preset", "smoke", "--out", str(tmp_path / "out"), "--methods", "Single"]
    for name in ("news", "trivia"):
        write_squad(tmp_path / f"{name}.json", domains.load_domain(name, train_size=60).train)
        arguments += ["--domain", f"{name}={tmp_path / name}.json"]
    arguments += ["-p", "seeds", "1", "--teacher"]
    assert cli.main([*arguments, "data/mini"]) == 1 and "'data/mini' is no trained reader" in capsys.readouterr().err
    assert cli.main([*arguments, readers["roberta"].place]) == 0
    # Single 2, asked 2; soft labels 2, Taught 2, asked 2
    assert "10 trainings and scorings at most, 0 done before" in capsys.readouterr().out
    (file,) = (results / "own/imm").glob("*.json")
    record = records.read(file)
    assert {score.method for score in record.scores} == {"Single", "Taught", "Chosen"}
    assert str(tmp_path) not in file.read_text()
    weights = {path.parent.parent.name: weights_digest(path.parent) for path in results.rglob("model.safetensors")}
    assert len(weights) == 4 and len(set(weights.values())) == 4  # what is said of the questions changes what is learnt
    assert sum("soft.news=" in name for name in weights) == 1
