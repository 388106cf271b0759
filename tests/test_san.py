"""The stochastic answer network: turns worked by hand, what dropped turns leave, padding, and saving."""

import pytest
import torch

from helpers.batches.sequences import collate, make_pairs
from helpers.data.examples import Pair
from helpers.errors import EncoderError
from helpers.loop import forward
from helpers.models.attention import pool
from helpers.models.encoders import inputs_of, load_encoder, load_saved, load_tokenizer, save_encoder
from helpers.models.san import AnswerTurns, draw_turns, mean_of_turns, with_san

PAIRS = [("Ada leads Gamma.", "Bela leads Gamma and Delta."), ("Bela was born in Delta, and leads it.", "Ada leads.")]


def classifier(classes: int = 3):
    return with_san(load_encoder("data/mini", "labels", seed=0, classes=classes, random_layers=1)).eval()


def batch_of(*texts: tuple[str, str | None]) -> dict[str, torch.Tensor]:
    pairs = [Pair(str(number), first, second, 0) for number, (first, second) in enumerate(texts)]
    sequences = make_pairs(pairs, load_tokenizer("data/mini"), max_length=40)
    return collate(sequences, range(len(pairs)))


def logits_of(model, batch, precision="fp32") -> torch.Tensor:
    return forward(model, batch, precision).logits


def texts_of(examples: int = 4, hidden: int = 8):
    """States of two texts and their masks; the second has one token of padding."""
    torch.manual_seed(0)
    mask = torch.ones(examples, 5, dtype=torch.bool)
    mask[:, -1] = False
    return torch.randn(examples, 3, hidden), mask[:, :3], torch.randn(examples, 5, hidden), mask


def test_a_mean_of_turns_by_hand():
    logits = torch.tensor([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.9, 0.1]]]).log()
    mean = mean_of_turns(logits, torch.tensor([[True, True], [False, True]])).exp()
    torch.testing.assert_close(mean, torch.tensor([[0.7, 0.3], [0.9, 0.1]]))


def test_one_turn_always_counts_and_any_may():
    torch.manual_seed(0)
    counts = draw_turns(400, 5, 1.0, "cpu")
    assert (counts.sum(1) == 1).all() and counts.any(0).all()
    assert draw_turns(400, 5, 0.0, "cpu").all()
    assert draw_turns(4000, 5, 0.1, "cpu").float().mean().item() == pytest.approx(0.9 + 0.1 / 5, abs=0.01)
    logits = torch.randn(4, 1, 3)  # equal turns are one turn
    mean = mean_of_turns(logits.expand(-1, 5, -1), draw_turns(4, 5, 0.5, "cpu"))
    torch.testing.assert_close(mean, logits[:, 0].log_softmax(-1))


def test_attention_to_a_single_token_is_that_token():
    states, mask = torch.randn(2, 3, 8), torch.tensor([[True, False, False], [False, True, False]])
    assert torch.equal(pool(torch.randn(2, 3), states, mask), states[[0, 1], [0, 1]])


def test_a_head_by_hand():
    """One turn of width 1: it begins with the mean of 1 and 3 and reads 0.5; the classes show this and |0.5 - 2|."""
    head = AnswerTurns(1, 2, turns=1)
    for weights in head.parameters():
        weights.data.zero_()
    head.classes.weight.data = torch.tensor([[1.0, 0, 0, 0], [0, 0, 1.0, 0]])
    start, memory = torch.tensor([[[1.0], [3.0]]]), torch.tensor([[[0.5], [9.0]]])
    logits = head(start, torch.tensor([[True, True]]), memory, torch.tensor([[True, False]]))
    torch.testing.assert_close(logits, torch.tensor([[0.5, 1.5]]).log_softmax(-1))


@pytest.mark.parametrize("drop", [0.0, 0.1, 1.0])
def test_probabilities_add_up_to_one_in_training_too(drop):
    head = AnswerTurns(8, 3, drop=drop)
    for mode in (head.train(), head.eval()):
        torch.testing.assert_close(mode(*texts_of()).exp().sum(-1), torch.ones(4))
    assert drop == 0.0 or not torch.equal(head.train()(*texts_of(64)), head.eval()(*texts_of(64)))


def test_evaluation_draws_no_random_numbers():
    """A validation in the midst of a training would change what follows."""
    head, texts = AnswerTurns(8, 3).eval(), texts_of()
    state = torch.get_rng_state()
    head(*texts)
    assert torch.equal(torch.get_rng_state(), state)


def test_gradients_reach_every_weight_and_no_padding():
    head, (start, q, memory, p) = AnswerTurns(8, 3), texts_of()
    head(start, q, memory.requires_grad_(), p)[:, 0].sum().backward()
    assert all(weights.grad.abs().sum() > 0 for weights in head.parameters())
    assert (memory.grad[:, -1] == 0).all() and (memory.grad[:, :-1] != 0).any(-1).all()


def test_padding_changes_nothing():
    model, together = classifier(), batch_of(*PAIRS, ("Ada leads. " * 4, "Delta and Gamma. " * 3))
    for number, pair in enumerate(PAIRS):
        alone = batch_of(pair)
        assert alone["input_ids"].shape[1] < together["input_ids"].shape[1]
        torch.testing.assert_close(logits_of(model, together)[number], logits_of(model, alone)[0])


def test_the_state_begins_with_the_second_text():
    model, batch, inputs = classifier(), batch_of(*PAIRS), []
    model.answer.register_forward_pre_hook(lambda _, arguments: inputs.extend(arguments))
    states = forward(model, batch, "fp32", output_hidden_states=True).hidden_states[-1]
    second, first = (states[0, batch["segment_ids"][0] == segment] for segment in (2, 1))
    assert torch.equal(inputs[0][0, inputs[1][0]], second) and torch.equal(inputs[2][0, inputs[3][0]], first)


def test_a_saved_classifier_loads_bit_for_bit(tmp_path):
    model, batch = classifier(), batch_of(*PAIRS)
    assert inputs_of(model) == ("input_ids", "attention_mask", "token_type_ids", "segment_ids")
    save_encoder(model, load_tokenizer("data/mini"), tmp_path)
    again = load_saved(tmp_path, "labels")
    assert again.config.num_labels == 3 and torch.equal(logits_of(again, batch), logits_of(model, batch))


def test_the_encoder_is_the_base_model_and_can_be_shared():
    one, other, batch = classifier(), classifier(2), batch_of(*PAIRS)
    before = logits_of(other, batch)
    with torch.no_grad():
        one.base_model.embeddings.word_embeddings.weight.mul_(2)
    setattr(other, other.base_model_prefix, one.base_model)
    assert other.base_model is one.base_model and not torch.equal(logits_of(other, batch), before)


def test_a_pretrained_encoder_is_kept_and_half_precision_will_do():
    plain = load_encoder("data/mini", "labels", seed=0, classes=3)
    weights = plain.base_model.embeddings.word_embeddings.weight
    model, batch = with_san(plain).eval(), batch_of(*PAIRS)
    assert model.base_model.embeddings.word_embeddings.weight is weights
    exact, near = logits_of(model, batch), logits_of(model, batch, "bf16")
    assert near.dtype == torch.float32
    torch.testing.assert_close(near, exact, atol=0.05, rtol=0.05)


def test_a_text_alone_and_a_score_are_refused():
    with pytest.raises(EncoderError, match="stands alone"):
        logits_of(classifier(), batch_of(("Ada leads Gamma.", None)))
    with pytest.raises(EncoderError, match="not a score"):
        classifier(1)
