"""RMR as a whole: padding that changes nothing, its settings, saving, learning, and word vectors of GloVe."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering

from helpers import extractive_qa, metrics
from helpers.batches import Batches
from helpers.data.examples import DataError
from helpers.data.mini import world
from helpers.loop import fit
from helpers.models.encoders import inputs_of, load_saved, load_tokenizer, save_encoder
from helpers.papers.a2d.mnemonic import NEVER, MnemonicForQuestionAnswering, glove_digest, make_reader, read_glove
from helpers.presets.schema import TrainingSettings
from helpers.sequences import collate, make_windows
from helpers.training import predict


def reader(seed=0, **changes):
    torch.set_num_threads(1)
    settings = {"word_width": 8, "letter_width": 4, "hidden": 4, "blocks": 2, "dropout": 0.0, **changes}
    return make_reader(load_tokenizer("data/mini"), seed, **settings).eval()


@pytest.fixture(scope="module")
def windows():
    examples = world.load_domain("news", train_size=12).train[:12]
    return make_windows(examples, load_tokenizer("data/mini"), max_length=48, stride=16)


def batch_of(windows, *index):
    return collate(windows, np.asarray(index))


def outputs(model, batch):
    with torch.no_grad():
        return model(**{name: batch[name] for name in inputs_of(model)})


def test_a_word_piece_is_spelt_without_its_mark():
    model, vocabulary = reader(), load_tokenizer("data/mini").get_vocab()
    for piece in ("ing", "er", "a"):
        letters = [*piece.encode(), *[0] * (16 - len(piece))]
        pieces = [vocabulary[name] for name in (piece, f"##{piece}") if name in vocabulary]
        assert pieces and all(model.words.spelling[one].tolist() == letters for one in pieces)


def test_linear_layers_start_from_glorots_weights_and_words_from_the_normal_distribution():
    """Glorot: uniform up to sqrt(6 / (in + out)); PyTorch's own reach 1 / sqrt(in) and have biases."""
    model = reader(hidden=32)
    for layer in (model.blocks[0].interactive.one, model.blocks[1].fuse_passage.both, model.pointer.start[0]):
        most = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.95 * most < layer.weight.abs().max() <= most
        assert layer.bias is None or not layer.bias.any()
    assert 0.95 < model.words.learned.weight.detach().std() < 1.05


def test_a_window_reads_the_same_alone_and_among_longer_ones(windows):
    lengths, model = windows.lengths_W, reader()
    order = np.argsort(lengths)
    chosen = [int(order[0]), int(order[len(order) // 2]), int(order[-1])]
    assert len(set(lengths[chosen])) > 1
    batch = batch_of(windows, *chosen)
    together = outputs(model, batch)
    for row, window in enumerate(chosen):
        length, prefix, count = (
            int(lengths[window]),
            int(windows.passage_start_W[window]),
            int(windows.passage_len_W[window]),
        )
        alone = outputs(model, batch_of(windows, window))
        for side in ("start_logits", "end_logits"):
            one, other = getattr(alone, side)[0], getattr(together, side)[row]
            assert torch.allclose(one[:length], other[:length], atol=1e-5)
            # only [CLS] and the passage can be an answer, the question, [SEP] and padding never
            never = (other == NEVER).tolist()
            expected = [0 < place < prefix or place >= length - 1 for place in range(len(other))]
            assert never == expected
        attention = together.attention[row]
        assert torch.allclose(alone.attention[0], attention[:count, : prefix - 2], atol=1e-5)
        assert attention[:count].sum(1).tolist() == pytest.approx([1.0] * count, abs=1e-5)
        assert attention[count:].abs().sum() == 0 and attention[:, prefix - 2 :].abs().sum() == 0
    assert together.attention.shape == (
        3,
        windows.passage_len_W[chosen].max(),
        windows.passage_start_W[chosen].max() - 2,
    )


def test_seeds_differ_and_gamma_weighs_what_a_block_remembers(windows):
    batch = batch_of(windows, 0, 1)

    def start(**changes):
        return outputs(reader(**changes), batch).start_logits

    plain = start()
    assert torch.equal(start(), plain) and not torch.equal(start(seed=1), plain)
    # the new reader's alignments are nearly even, so that it takes a large weight to see what is remembered of them
    assert (start(gamma=1e5) - start(gamma=0.0)).abs().max() > 5e-5
    assert torch.equal(start(blocks=1, gamma=1e5), start(blocks=1))  # a single block has no other to remember


def test_every_parameter_learns(windows):
    model, batch = reader(blocks=3).train(), batch_of(windows, *range(8))
    for parameter in model.parameters():  # as new, all alignments are nearly even
        parameter.data *= 3 if parameter.dim() > 1 else 1
    extractive_qa.likelihood(model(**{name: batch[name] for name in inputs_of(model)}), batch, 0.0)[
        "likelihood"
    ].backward()
    # what is added to all logits alike cannot matter
    idle = {"pointer.start.2.bias", "pointer.end.2.bias"}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and (name in idle or parameter.grad.abs().max() > 1e-7), name


def test_saved_and_loaded_it_reads_the_same(windows, tmp_path):
    glove = tmp_path / "glove.txt"
    glove.write_text("the " + " ".join(["0.25"] * 8) + "\n")
    model, batch = reader(blocks=3, gamma=1.5, glove=str(glove)), batch_of(windows, 0, 1, 2)
    save_encoder(model, load_tokenizer("data/mini"), tmp_path / "model")
    expected = outputs(model, batch)
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "model")
    assert type(theirs) is MnemonicForQuestionAnswering and theirs.words.is_fixed.sum() == 1
    for loaded in (load_saved(tmp_path / "model"), theirs.eval()):
        for name in ("start_logits", "end_logits", "attention"):
            assert torch.equal(getattr(outputs(loaded, batch), name), getattr(expected, name))


def test_it_learns_eight_questions_by_heart():
    examples = world.load_domain("encyclopedia", train_size=8).train[:8]
    windows = make_windows(examples, load_tokenizer("data/mini"), max_length=128, stride=32)
    model = reader(word_width=16, letter_width=8, hidden=16)
    rates = {"learning_rate": 2e-2, "weight_decay": 0.0, "clip": 5.0}
    settings = TrainingSettings(batch_size=8, epochs=1.0, precision="fp32", **rates)
    fit(model, Batches(windows, [np.arange(len(windows))] * 60), extractive_qa.likelihood, settings, seed=0)
    answers = extractive_qa.decode(windows, predict(model, windows, precision="fp32"))
    assert metrics.score(examples, [one.text for one in answers]).f1.mean() == 100


def test_glove_s_vectors_are_read_by_word(tmp_path):
    (path := tmp_path / "glove.txt").write_text("the 0.5 -1 2e-1\n. . . 1 2 3 \nking 7 8 9\nthe 4 4 4\ncafé 0 0 1\n")
    vectors = read_glove(str(path), ["king", "queen", "the", "café", ". . ."], 3)
    assert vectors["the"].dtype == torch.float32 and vectors.pop("the").tolist() == pytest.approx([0.5, -1, 0.2])
    expected = {"king": [7, 8, 9], "café": [0, 0, 1], ". . .": [1, 2, 3]}
    assert {word: vector.tolist() for word, vector in vectors.items()} == expected


NONE = "expected 3 numbers for words such as 'a', found none; give"
LINE = "line 1: expected a word and 3 finite numbers, found"


@pytest.mark.parametrize(
    ("content", "message"),
    [(text, NONE) for text in ("", "b 1 2 3\n", "a 1 2 3 4\n", "400000 3\n")]
    + [(text, LINE) for text in ("a 1 2\n", "a 1 x 3\n", "a nan 2 3\n", "a 1 2 1e99\n")],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, content, message):
    (path := tmp_path / "glove.txt").write_text(content)
    with pytest.raises(DataError, match=rf"glove\.txt: {message}"):
        read_glove(str(path), ["a"], 3)
    with pytest.raises(OSError, match="none"):
        glove_digest(str(tmp_path / "none.txt"))
