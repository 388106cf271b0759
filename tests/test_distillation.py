"""Losses of distilling level by level, by hand; a student beside its teacher."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AlbertConfig, BertConfig, BertTokenizerFast

from helpers.batches.sequences import make_pairs
from helpers.batches.tensors import SequenceTensors
from helpers.batches.texts import EncoderError
from helpers.data.examples import Pair
from helpers.models.attention import keep_levels
from helpers.models.distilled import Distilled, check_pair, keep_layers, load_student, matched
from helpers.models.expertise import instance_weights
from helpers.models.pretrained import load_encoder, load_tokenizer
from helpers.models.relations import Relations
from helpers.papers.hrkd.trainings import distillation_loss, meta_weights, teacher_loss
from helpers.tasks import labels, ratios
from helpers.training import losses
from helpers.training.loop import forward
from helpers.training.teachers import LiveTeacher

TEXTS = ["Ada was born in Millford.", "Bela lives there", "A river runs by the town and the school.", "No"]


def batch(domains=(0, 0, 1, 1)):
    examples = [Pair(str(n), text, None, n % 2) for n, text in enumerate(TEXTS)]
    made = make_pairs(examples, load_tokenizer("data/mini"), 32)
    made.labels["domain"] = np.asarray(domains, np.int32)
    return SequenceTensors(made).gather(np.arange(4))


def encoder(classes=4, **settings):
    return load_encoder("data/mini", "labels", seed=0, classes=classes, **settings)


def test_distance_of_levels_by_hand():
    student, teacher = torch.tensor([[[1.0, 2.0], [9.0, 9.0]]]), torch.tensor([[[3.0, 2.0], [0.0, 0.0]]])
    assert losses.level_distance(student, teacher, torch.tensor([[1, 0]])).tolist() == [2.0]  # (4 + 0) / 2
    assert losses.level_distance(student, teacher, torch.tensor([[1, 1]])).tolist() == [(2 + 81) / 2]


def test_distance_of_probabilities_by_hand():
    student = torch.tensor([[[[1.0, 5.0], [7.0, 7.0]]]])  # one head, two tokens
    teacher = torch.zeros(1, 1, 2, 2)
    real, every = torch.tensor([[1, 0]]), torch.ones(1, 2, dtype=torch.long)
    assert losses.probability_distance(student, teacher, real, real).tolist() == [1.0]
    assert losses.probability_distance(student, teacher, every, real).tolist() == [(1 + 49) / 2]
    # other numbers of heads: the means over heads
    two = torch.stack([student[0, 0], 3 * student[0, 0]])[None]
    assert losses.probability_distance(two, teacher, real, real).tolist() == [4.0]


def test_distance_of_scores_by_hand_and_as_the_scores_themselves_have_it():
    query, key = torch.tensor([[[[2.0], [1.0]]]]), torch.tensor([[[[3.0], [5.0]]]])  # scores 6, 10 and 3, 5
    zero, every = torch.zeros(1, 1, 2, 1), torch.ones(1, 2, dtype=torch.long)
    assert losses.score_distance((query, key), (zero, zero), every, every).tolist() == [(36 + 100 + 9 + 25) / 4]
    assert losses.score_distance((query, key), (zero, zero), every, torch.tensor([[0, 1]])).tolist() == [(100 + 25) / 2]
    student, teacher = (tuple(torch.randn(2, 2, 4, 3, 5).unbind()) for _ in range(2))
    query_mask, key_mask = torch.tensor([[1, 1, 0], [1, 1, 1]]), torch.tensor([[1, 0, 0], [1, 1, 0]])
    for heads in (4, 2):  # as many as the teacher has, or fewer
        fewer = tuple(each[:, :heads] for each in student)
        scores = [q @ k.transpose(2, 3) for q, k in (fewer, teacher)]
        expected = losses.probability_distance(*scores, query_mask, key_mask)
        assert torch.allclose(losses.score_distance(fewer, teacher, query_mask, key_mask), expected, rtol=1e-4)


def test_soft_labels_by_hand():
    teacher, student = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[0.0, 0.0]])
    assert losses.class_cross_entropy(student, teacher, 1.0).item() == pytest.approx(math.log(2))
    student = torch.tensor([[2 * math.log(3), 0.0]])
    expected = -(0.25 * math.log(0.75) + 0.75 * math.log(0.25))
    assert losses.class_cross_entropy(student, 2 * teacher, 2.0).item() == pytest.approx(expected)


def test_means_of_domains_by_hand():
    values = torch.tensor([1.0, 3.0, 10.0])
    assert losses.of_domains(values, torch.tensor([0, 0, 2]), 3).tolist() == [2.0, 0.0, 10.0]


def test_layers_at_even_distance():
    assert matched(4, 12) == [3, 6, 9, 12] and matched(3, 6) == [2, 4, 6] and matched(3, 3) == [1, 2, 3]
    assert matched(1, 3) == [3] and matched(2, 3) == [2, 3] and matched(3, 1) == [1, 1, 1]


def test_each_text_reads_the_head_of_its_domain():
    logits = torch.arange(12.0).view(2, 6)
    assert labels.own_logits(logits, torch.tensor([0, 2]), 2).tolist() == [[0.0, 1.0], [10.0, 11.0]]
    assert labels.own_logits(logits, torch.tensor([0, 2]), 6).tolist() == logits.tolist()


def says(teacher, given):
    fields = {"levels": "hidden_states", "attention": "attentions_kept", "logits": "logits"}
    return given | LiveTeacher(teacher.eval(), fields, {"output_hidden_states": True}, "fp32")(given)


def settings(**changes):
    return {"gamma": 1.0, "temperature": 1.0, "padding": False} | changes


@pytest.mark.parametrize("what", ["scores", "probabilities"])
def test_a_student_equal_to_its_teacher_has_no_loss_but_its_own_entropy(what):
    teacher, student = keep_levels(encoder(), what), encoder()
    given = says(teacher, batch())
    output = forward(Distilled(student, 128, 2, what=what), given, "fp32")
    terms = distillation_loss(2, 2, [1, 2, 3], **settings())(output, given, 0.0)
    for name in ("embedding", "attention", "hidden"):
        assert terms[name].item() == pytest.approx(0, abs=1e-4)
    own = labels.own_logits(output.logits, given["domain"], 2).softmax(-1)
    assert terms["prediction"].item() == pytest.approx(-(own * own.log()).sum(-1).mean().item(), abs=1e-5)


def test_scores_are_those_before_the_softmax_and_padding_changes_no_loss():
    given = batch()
    factors = forward(keep_levels(encoder().eval(), "scores"), given, "fp32").attentions_kept
    kept = forward(keep_levels(encoder().eval(), "probabilities"), given, "fp32").attentions_kept
    scores = factors[1][0] @ factors[1][1].transpose(2, 3)
    masked = scores.masked_fill(given["attention_mask"][:, None, None] == 0, -torch.inf)
    assert len(factors) == 3 and torch.allclose(masked.softmax(-1), kept[1], atol=1e-6)
    loss = distillation_loss(2, 2, [1, 2, 3], **settings())
    student = Distilled(keep_layers(encoder(), 3), 128, 2)
    longer = {
        name: torch.cat([values, torch.zeros_like(values[:, :8])], 1) if values.dim() == 2 else values
        for name, values in given.items()
    }
    teacher = keep_levels(load_encoder("data/mini", "labels", seed=1, classes=4), "scores")
    with torch.no_grad():
        teacher.bert.encoder.layer[0].attention.self.key.weight.mul_(2)
        teacher.bert.embeddings.word_embeddings.weight.mul_(1.5)
    found = [
        loss(forward(student.eval(), each, "fp32"), each, 0.0) for each in (says(teacher, given), says(teacher, longer))
    ]
    for name, value in found[0].items():
        assert value.item() == pytest.approx(found[1][name].item(), rel=1e-5) and value.item() > 0
    counted = distillation_loss(2, 2, [1, 2, 3], **settings(padding=True))
    found = [
        counted(forward(student, each, "fp32"), each, 0.0) for each in (says(teacher, given), says(teacher, longer))
    ]
    assert found[0]["hidden"].item() != pytest.approx(found[1]["hidden"].item(), rel=1e-3)


def test_ratios_weigh_levels_and_domains():
    """Two domains, one layer: all numbers by hand."""
    one, ones = torch.ones(2, 1, 1), torch.ones(2, 1, dtype=torch.long)
    output = SimpleNamespace(
        levels=(one, 2 * one),
        attentions_kept=(3 * torch.ones(2, 1, 1, 1),),
        logits=torch.zeros(2, 2),
        ratios=torch.tensor([[0.25, 0.75], [1.0, 0.0]]),
    )
    given = {
        "attention_mask": ones,
        "domain": torch.tensor([0, 1]),
        "teacher_levels": (torch.tensor([[[0.0]], [[3.0]]]), torch.zeros(2, 1, 1)),
        "teacher_attention": (torch.zeros(2, 1, 1, 1),),
        "teacher_logits": torch.zeros(2, 2),
    }
    terms = distillation_loss(2, 2, [1], **settings(gamma=2.0))(output, given, 0.0)
    assert terms["embedding"].item() == 0.25 * 1 + 0.75 * 4  # (1 - 0)², (1 - 3)²
    assert terms["attention"].item() == 9.0 and terms["hidden"].item() == 4.0  # of the first domain alone
    assert terms["prediction"].item() == pytest.approx(2 * math.log(2))  # gamma / D, of two domains


def test_the_graph_is_trained_and_steers_as_it_is_told():
    def gradients(train, steer):
        relations = Relations(4, 2, 128, heads=1, graph_width=4).requires_grad_(train)
        learner = Distilled(encoder(), 128, 2, relations=relations, steer=steer)
        given = says(keep_levels(encoder(), "scores"), batch())
        output = forward(learner, given, "fp32")
        (output.ratios * torch.arange(2)).sum().backward()
        student = any(p.grad is not None and p.grad.abs().sum() > 0 for p in learner.student.parameters())
        return relations.first.grad is not None, student

    assert gradients(True, True) == (True, True) and gradients(True, False) == (True, False)
    assert gradients(False, True) == (False, True)


def test_projections_are_there_only_where_widths_differ():
    assert len(Distilled(encoder(), 128, 2).projections) == 0
    learner = Distilled(encoder(random_layers=1), 256, 2)
    assert [tuple(p.weight.shape) for p in learner.projections] == [(256, 128)] * 2
    assert learner.inputs == ("input_ids", "attention_mask", "token_type_ids", "domain")


def test_a_student_is_layers_of_the_teacher_or_an_encoder_of_its_own():
    student = load_student("", "data/mini", 1, seed=0, classes=4)
    assert student.config.num_hidden_layers == 1 and len(student.bert.encoder.layer) == 1
    last = encoder().bert.encoder.layer[2].attention.self.key.weight
    assert torch.equal(student.bert.encoder.layer[0].attention.self.key.weight, last)
    with pytest.raises(EncoderError, match="cannot take 4 layers of a bert with 3"):
        load_student("", "data/mini", 4, seed=0, classes=4)


def test_labels_of_domains_are_summed_and_shuffled_domains_added():
    output = SimpleNamespace(logits=torch.zeros(3, 4), domain_logits=torch.zeros(3, 2))
    given = {"domain": torch.tensor([0, 0, 1]), "label": torch.tensor([0, 1, 1])}
    assert teacher_loss(2, 2, 0.0)(output, given, 0.0)["label"].item() == pytest.approx(2 * math.log(2))
    given["weight"] = torch.tensor([1.0, 0.5, 0.0])
    terms = teacher_loss(4, 1, 0.5)(output, given, 0.0)
    assert terms["label"].item() == pytest.approx(0.5 * math.log(4))
    assert terms["corruption"].item() == pytest.approx(0.5 * 0.5 * math.log(2))


def test_weights_of_instances_by_hand():
    states = {"a": np.array([[1.0, 0.0], [0.0, 2.0]]), "b": np.array([[3.0, 3.0]])}
    classes = {"a": np.array([0, 1]), "b": np.array([0])}
    found = instance_weights(states, classes)
    half = math.sqrt(0.5)
    assert found["a"].tolist() == pytest.approx([(1 + half) / 2, 1.0])  # no other domain has class 1
    assert found["b"].tolist() == pytest.approx([(1 + half) / 2])
    # notes of Meta-KD: w = 1 and a right answer for sure, or not at all
    sure, wrong = torch.tensor([[0.0, 100.0]]), torch.tensor([[100.0, 0.0]])
    right, weight = torch.tensor([1]), torch.tensor([1.0])
    assert meta_weights(sure, right, weight).item() == pytest.approx(1.0)
    assert meta_weights(wrong, right, weight).item() == pytest.approx(2 / (math.e + 1))


def test_gaps_of_ratios_are_those_of_equal_and_of_different_labels():
    values = np.array([[[0.5, 0.5, 0.1]], [[0.5, 0.3, 0.1]]])  # two places, one level, three domains
    found = ratios.distances(values, np.array([[0, 0, 1], [0, 1, 1]]))
    # domains 0 and 1: alike 0.0, different 0.2; 1 and 2: different 0.4, alike 0.2; 0 and 2: never alike
    assert found == pytest.approx({ratios.SAME: 0.1, ratios.DIFFERENT: 0.3})
    assert ratios.moved(np.array([[0.5, 0.5], [1.0, 0.0]])) == 25.0


@pytest.mark.parametrize("what", ["scores", "probabilities"])
def test_a_student_learns_in_bfloat16_too(what):
    given = batch()
    fields = {"levels": "hidden_states", "attention": "attentions_kept", "logits": "logits"}
    given |= LiveTeacher(keep_levels(encoder(), what).eval(), fields, {"output_hidden_states": True}, "bf16")(given)
    relations = Relations(2, 2, 48, heads=1, graph_width=4)
    learner = Distilled(student_of_mini(), 128, 2, what=what, relations=relations)
    output = forward(learner, given, "bf16")
    assert output.ratios.dtype == torch.float32
    sum(distillation_loss(2, 2, [3], **settings())(output, given, 0.0).values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learner.projections.parameters())


def student_of_mini():
    return load_student("data/mini/student", "data/mini", 1, seed=0, classes=4, random_layers=1)


def test_pairs_that_cannot_learn_are_refused_before_anything_is_trained(tmp_path):
    check_pair("data/mini/student", "data/mini")
    BertConfig(vocab_size=7, hidden_size=8, num_attention_heads=2, num_hidden_layers=1).save_pretrained(tmp_path / "b")
    tokenizer = BertTokenizerFast(
        vocab=dict(zip(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"], range(7), strict=True))
    )
    tokenizer.save_pretrained(tmp_path / "b")
    with pytest.raises(EncoderError, match="read different word pieces; use two of one kind"):
        check_pair(str(tmp_path / "b"), "data/mini")
    shared = AlbertConfig(vocab_size=7, hidden_size=8, embedding_size=8, num_attention_heads=2, num_hidden_layers=3)
    shared.save_pretrained(tmp_path / "albert")
    tokenizer.save_pretrained(tmp_path / "albert")
    with pytest.raises(EncoderError, match="attention of a albert cannot be read"):
        check_pair("", str(tmp_path / "albert"))


def test_another_s_head_gives_way_to_one_of_the_right_size(tmp_path):
    encoder(classes=3).save_pretrained(tmp_path)
    load_tokenizer("data/mini").save_pretrained(tmp_path)
    assert load_encoder(str(tmp_path), "labels", seed=0, classes=8).classifier.out_features == 8


def test_levels_kept_twice_are_kept_once():
    model = keep_levels(keep_levels(encoder().eval(), "scores"), "probabilities")
    assert forward(model, batch(), "fp32").attentions_kept[0].shape[:2] == (4, 4)
