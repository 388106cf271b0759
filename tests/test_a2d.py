"""A2D: its losses by hand, what an ensemble knows, and confusing answers."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from helpers.batches.sequences import make_windows
from helpers.data.examples import Example
from helpers.models.mnemonic import NEVER
from helpers.papers.a2d import algorithm
from helpers.presets.papers import A2dSettings
from helpers.presets.schema import AnswerSettings
from helpers.tasks import distilled, ensembles
from helpers.tasks.logits import Logits
from helpers.tasks.spans import distributions
from helpers.training import losses

LN3 = math.log(3)
MASK = torch.tensor([[1, 1, 0]])


def span(start, end):
    return torch.tensor([start]), torch.tensor([end])


def test_soft_cross_entropy_by_hand():
    # at temperature 2 the student's logits 0 and 2 ln 3 say 1/4 and 3/4, and 5 and 5 say 1/2 and 1/2
    student = span([0.0, 2 * LN3, 40.0], [5.0, 5.0, -40.0])
    teacher = span([0.5, 0.5, 0.0], [0.2, 0.8, 0.0])
    expected = -0.5 * math.log(0.25) - 0.5 * math.log(0.75) - math.log(0.5)
    assert losses.soft_cross_entropy(student, teacher, MASK, 2.0).tolist() == pytest.approx([expected])
    halves = tuple(side.half() for side in teacher)
    assert losses.soft_cross_entropy(student, halves, MASK, 2.0).tolist() == pytest.approx([expected], rel=1e-3)
    # at temperature 1 they say 1/10 and 9/10
    expected = -0.5 * math.log(0.1) - 0.5 * math.log(0.9) - math.log(0.5)
    assert losses.soft_cross_entropy(student, teacher, MASK, 1.0).tolist() == pytest.approx([expected])


def test_the_gradient_of_soft_cross_entropy_shrinks_with_the_square_of_the_temperature():
    # d/ds is (p - q) / T: here p = 1/2, q = 3/4; with small logits q - p itself shrinks by T (Hinton et al. 2014)
    logits = torch.zeros(1, 3, requires_grad=True)
    teacher = torch.tensor([[0.75, 0.25, 0.0]])
    losses.soft_cross_entropy((logits, logits.detach()), (teacher, teacher), MASK, 2.0).sum().backward()
    assert logits.grad[0].tolist() == pytest.approx([-0.125, 0.125, 0])


def test_confusion_margin_by_hand():
    # start: 1 - 2 + 0.5 < 0 counts nothing; end: 1 - 1 + 3
    student = span([9.0, 2.0, 0.5], [9.0, 1.0, 3.0])  # [CLS], where no answer stands, and two tokens
    gold, confusing = (torch.tensor([1]), torch.tensor([1])), (torch.tensor([2]), torch.tensor([2]))
    assert losses.confusion_margin(student, gold, confusing).tolist() == [3]
    assert losses.confusion_margin(student, confusing, gold).tolist() == [1 - 0.5 + 2]  # 1 - 3 + 1 < 0
    none = (torch.tensor([0]), torch.tensor([0]))
    assert losses.confusion_margin(student, gold, none).tolist() == [0]
    # of two windows one has a confusing answer, whose end is the gold end
    both = tuple(side.repeat(2, 1) for side in student)
    two = (torch.tensor([1, 1]), torch.tensor([2, 2])), (torch.tensor([2, 0]), torch.tensor([2, 0]))
    assert losses.confusion_margin(both, *two).tolist() == [1, 0]  # 0 + (1 - 3 + 3)


def test_attention_distance_by_hand():
    student = torch.tensor([[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])
    teacher = torch.tensor([[[0.25, 0.75], [0.0, 1.0]], [[0.5, 0.5], [0.0, 0.0]]])
    # (1/16 + 1/16 + 1 + 1) / 2, and (1/4 + 1/4) / 2
    assert losses.attention_distance(student, teacher.half()).tolist() == pytest.approx([1.0625, 0.25])


OUTPUT = SimpleNamespace(
    start_logits=torch.tensor([[0.0, 2 * LN3, 40.0]]),
    end_logits=torch.tensor([[5.0, 5.0, -40.0]]),
    attention=torch.tensor([[[0.5, 0.5]]]),
)
BATCH = {
    "attention_mask": MASK,
    "start": torch.tensor([1]),
    "end": torch.tensor([0]),
    "teacher_start": torch.tensor([[0.5, 0.5, 0.0]]),
    "teacher_end": torch.tensor([[0.2, 0.8, 0.0]]),
    "teacher_confusing_start": torch.tensor([1]),
    "teacher_confusing_end": torch.tensor([1]),
    "teacher_attention": torch.tensor([[[1.0, 0.0]]]),
}


def test_joint_loss_by_hand():
    weights = algorithm.weights_of_terms(A2dSettings(temperature=2.0, answer_weight=0.3, attention_weight=0.1))
    assert weights == {"CE": 1.0, "KD": 4.0, "ANS": 0.3, "ATT": 0.1}
    terms = {name: float(term) for name, term in distilled.joint_loss(weights, 2.0)(OUTPUT, BATCH, 0.0).items()}
    assert terms == pytest.approx(
        {
            "CE": -math.log(0.9) - math.log(0.5),
            "KD": 4 * (-0.5 * math.log(0.25) - 0.5 * math.log(0.75) - math.log(0.5)),
            "ANS": 0.3 * (1 + 1),  # no margin at all, of start and of end
            "ATT": 0.1 * (0.25 + 0.25) / 2,
        }
    )


def test_smoothed_labels_are_of_the_tokens_that_may_be_answers():
    # [CLS], a token of the question, which RMR never answers with, and two of the passage
    logits, never = torch.tensor([[0.0, NEVER, 0.0, math.log(2)]]), torch.tensor([[0.0, NEVER, 0.0, 0.0]])
    output = SimpleNamespace(start_logits=logits, end_logits=never)
    batch = {"attention_mask": torch.ones(1, 4), "segment_ids": torch.tensor([[0, 1, 2, 2]])}
    batch |= {side: torch.tensor([3]) for side in ("start", "end")}
    terms = distilled.joint_loss({"CE": 1.0}, 1.0, 0.3)(output, batch, 0.0)
    # start: 1/4, 1/4, 1/2 with labels of 1/10, 1/10, 8/10; end: 1/3 each
    assert float(terms["CE"]) == pytest.approx(0.2 * math.log(4) + 0.8 * math.log(2) + LN3)
    assert float(distilled.joint_loss({"CE": 1.0}, 1.0)(output, batch, 0.0)["CE"]) == pytest.approx(math.log(2) + LN3)


@pytest.mark.parametrize("left_out", ["CE", "KD", "ANS", "ATT"])
def test_a_term_without_a_weight_is_left_out_and_asks_for_nothing(left_out):
    weights = algorithm.weights_of_terms(A2dSettings())
    whole = distilled.joint_loss(weights, 2.0)(OUTPUT, BATCH, 0.0)
    del weights[left_out]
    asked = {
        "CE": (),
        "KD": ("teacher_start", "teacher_end"),
        "ANS": ("teacher_confusing_start", "teacher_confusing_end"),
    }
    batch = {key: v for key, v in BATCH.items() if key not in asked.get(left_out, ("teacher_attention",))}
    terms = distilled.joint_loss(weights, 2.0)(OUTPUT, batch, 0.0)
    assert terms == {name: whole[name] for name in ("CE", "KD", "ANS", "ATT") if name != left_out}


WORDS = "ann met bob in rome".split()


@pytest.fixture(scope="module")
def tokenizer():
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", *WORDS]
    backend = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def asked(tokenizer, *gold, **settings):
    """Windows of "[CLS] who [SEP] ann met bob in rome [SEP]", the passage at 3 to 7; the first answer is trained on."""
    context = " ".join(WORDS)
    begin = context.index(gold[0])
    example = Example("q", "who", context, gold, (begin, begin + len(gold[0])), "q")
    return make_windows([example], tokenizer, **settings)


def probabilities(windows, *sides):
    """Start and end probabilities, 0 but as given for each window by word."""
    flat = np.zeros((2, windows.lengths_W.sum()), np.float32)
    offsets = np.cumsum(windows.lengths_W) - windows.lengths_W + windows.prefix_W - windows.first_W
    for offset, (start, end) in zip(offsets, sides, strict=True):
        for side, values in zip(flat, (start, end), strict=True):
            for word, value in values.items():
                side[offset + WORDS.index(word)] = value
    return tuple(flat)


# bob .36, bob in rome .24, rome .12, ann met bob .06, ann met bob in rome .04
SPREAD = {"ann": 0.1, "bob": 0.6, "rome": 0.3}, {"bob": 0.6, "rome": 0.4}


def confusing(windows, *sides, top_k=4):
    found, confidence = ensembles.confusing_answers(windows, probabilities(windows, *sides), top_k, AnswerSettings())
    return found.tolist(), confidence.tolist()


def test_the_surest_answer_that_shares_no_word_is_the_confusing_one(tokenizer):
    windows = asked(tokenizer, "bob")
    assert confusing(windows, SPREAD) == ([[7, 7]], [pytest.approx(0.3 * 0.4)])  # rome, third
    assert confusing(windows, SPREAD, top_k=3) == ([[7, 7]], [pytest.approx(0.12)])
    assert confusing(windows, SPREAD, top_k=2) == ([[0, 0]], [0])


def test_there_is_none_where_all_answers_overlap_with_gold(tokenizer):
    # bob .405, bob in .297, bob in rome .198, met bob .036, met bob in .026, met .. rome .018, and seventh rome .004
    sides = {"bob": 0.9, "met": 0.08, "rome": 0.02}, {"bob": 0.45, "in": 0.33, "rome": 0.22}
    windows = asked(tokenizer, "bob")
    assert confusing(windows, sides) == confusing(windows, sides, top_k=6) == ([[0, 0]], [0])
    assert confusing(windows, sides, top_k=7) == ([[7, 7]], [pytest.approx(0.0044)])


def test_every_gold_answer_counts(tokenizer):
    windows = asked(tokenizer, "bob", "in rome")
    assert confusing(windows, SPREAD) == ([[0, 0]], [0])  # rome overlaps with the second, and so do all of four
    sides = {"ann": 0.4, "rome": 0.6}, {"ann": 0.3, "rome": 0.7}
    assert confusing(windows, sides) == ([[3, 3]], [pytest.approx(0.12)])  # after rome .42 and ann .. rome .28


def test_every_window_has_its_own_and_one_without_the_answer_has_none(tokenizer):
    windows = asked(tokenizer, "rome", max_length=7, stride=2)  # ann met bob, and bob in rome
    assert windows.first_W.tolist() == [0, 2] and windows.labels["start"].tolist() == [0, 5]
    sure = {"ann": 1.0}, {"ann": 1.0}
    found, confidence = confusing(windows, sure, ({"bob": 0.7, "rome": 0.3}, {"bob": 0.5, "rome": 0.5}))
    # the second window holds bob at 3: bob in rome and rome overlap with gold
    assert found == [[0, 0], [3, 3]] and confidence == [0, pytest.approx(0.35)]


def test_distributions_follow_the_temperature_in_every_window(tokenizer):
    windows = asked(tokenizer, "rome", max_length=7, stride=2)
    flat = np.zeros(14, np.float32)
    flat[[1, 8]] = 2 * LN3, 500.0
    start, end = distributions(windows, Logits(flat, flat[::-1]), 2.0)
    # seven tokens: e^ln3 = 3 of 9 at temperature 2, 9 of 15 at 1
    assert start[:7].tolist() == pytest.approx([1 / 9, 3 / 9, *[1 / 9] * 5])
    assert start[7:].tolist() == pytest.approx([0, 1, *[0] * 5])
    assert end.tolist() == pytest.approx(start[::-1].tolist())
    assert distributions(windows, Logits(flat, flat))[0][1] == pytest.approx(9 / 15)


def known(monkeypatch, windows, settings, *members):
    """What an ensemble knows whose members have these probabilities and attention; to each a shift of its logits."""

    def said(model, windows, precision):
        sides, attention, shift = members[model]
        found = (np.log(np.maximum(side, 1e-30)) + shift for side in probabilities(windows, sides))
        return Logits(*found), np.full(5, attention, np.float32)

    monkeypatch.setattr(ensembles, "read", said)
    temperature, top_k = settings.temperature, settings.top_k
    return ensembles.knowledge_of(range(len(members)), windows, temperature, top_k, AnswerSettings(), "fp32")


def test_an_ensemble_knows_the_means_and_the_surest_confusing_answer(monkeypatch, tokenizer):
    windows = asked(tokenizer, "bob")
    other = {"bob": 0.5, "ann": 0.5}, {"bob": 0.6, "ann": 0.4}  # bob .3, ann .2
    members = (SPREAD, 0.5, 100.0), (other, 0.75, 0.0)
    found = known(monkeypatch, windows, A2dSettings(temperature=1.0), *members)
    start = found["start"].tolist()
    # (.6 + .5) / 2 and (.1 + .5) / 2; the mean of logits would favour the member whose logits are larger
    assert start == pytest.approx([0, 0, 0, 0.3, 0, 0.55, 0, 0.15, 0], abs=1e-3)
    assert found["end"].tolist() == pytest.approx([0, 0, 0, 0.2, 0, 0.6, 0, 0.2, 0], abs=1e-3)
    assert found["attention"].tolist() == [0.625] * 5
    # one is confused by rome at .12, the other by ann at .2
    assert (found["confusing_start"].tolist(), found["confusing_end"].tolist()) == ([3], [3])
    again = known(monkeypatch, windows, A2dSettings(temperature=1.0), *members[::-1])
    assert again["confusing_start"].tolist() == [3]
    halves = {name for name, values in found.items() if values.dtype == torch.float16}
    assert halves == {"start", "end", "attention"} and found["confusing_end"].dtype == torch.int32
    assert sum(values.numel() * values.element_size() for values in found.values()) == ensembles.knowledge_bytes(
        windows
    )


def test_the_temperature_softens_what_is_stored_and_not_the_confidence(monkeypatch, tokenizer):
    windows = asked(tokenizer, "bob")
    # Of the starts .64 and .36 the roots are .8 and .6: 4/7 and 3/7 at temperature 2.
    softened = ({"bob": 0.64, "ann": 0.36}, {"bob": 0.64, "ann": 0.36}), 1.0, 0.0
    found = known(monkeypatch, windows, A2dSettings(temperature=2.0), softened, softened)
    assert found["start"][[3, 5]].tolist() == pytest.approx([3 / 7, 4 / 7], abs=1e-3)
    # ann at .36 squared = .13 is surer than rome at .12; softened it would be .18 against .27
    rome = {"bob": 0.88, "rome": 0.12}, {"rome": 1.0}
    found = known(monkeypatch, windows, A2dSettings(temperature=2.0), softened, (rome, 1.0, 0.0))
    assert found["confusing_start"].tolist() == [3]
