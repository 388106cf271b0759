"""The blocks of RMR, each worked by hand."""

import math

import pytest
import torch
from torch import nn

from helpers.papers.a2d.mnemonic import Block, Fusion, Pointer, Recurrent, Similarity, Words, masked_softmax, reattend

LN3 = math.log(3)
OPEN, SHUT = 100.0, -100.0  # biases of a gate


def rows(*values):
    """One window's rows: 1×N×d."""
    return torch.tensor([values])


def real(*flags):
    return torch.tensor([flags], dtype=torch.bool)


@torch.no_grad()
def fusion(fuse, candidate, gate):
    """Set a fusion unit of width 1 or 2: the candidate's weight for each of [old, new, old * new, old - new]."""
    width = fuse.both.out_features // 2
    fuse.both.weight.zero_()
    for part, weight in enumerate(candidate):
        fuse.both.weight[:width, part * width : (part + 1) * width] = weight * torch.eye(width)
    fuse.both.bias[:width], fuse.both.bias[width:] = 0.0, gate
    return fuse


TAKES_NEW = (0, 1, 0, 0)


@torch.no_grad()
def alike(similarity):
    """f(a, b) = a . b for vectors without negative numbers."""
    for side in (similarity.one, similarity.other):
        side.weight.copy_(torch.eye(2))
    return similarity


@torch.no_grad()
def test_similarity_by_hand():
    similarity = Similarity(2)
    similarity.one.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    similarity.other.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    # relu(W1 a) is (3, 2) and (0, 0); relu(W2 b) is (2, 0), (0, 4) and (2, 4)
    values = similarity(rows([3.0, -2.0], [-1.0, 2.0]), rows([1.0, -5.0], [-1.0, 4.0], [1.0, 4.0]))
    assert values.tolist() == [[[6, 8, 14], [0, 0, 0]]]


@torch.no_grad()
def test_fusion_by_hand():
    def fused(candidate, gate, old, new):
        return fusion(Fusion(1), candidate, gate)(torch.tensor([old]), torch.tensor([new])).item()

    assert fused(TAKES_NEW, SHUT, 2.0, 4.0) == 2  # a shut gate leaves what was there
    assert fused((1, 10, 100, 1000), OPEN, 3.0, 2.0) == 3 + 20 + 600 + 1000
    # a gate of 3/4: three quarters of the candidate, a quarter of what was there
    assert fused(TAKES_NEW, LN3, 2.0, 4.0) == pytest.approx(3.0 + 0.5)
    assert fused(TAKES_NEW, LN3, 2.0, -4.0) == pytest.approx(0.5)


def test_masked_softmax_by_hand():
    scores = torch.tensor([[0.0, LN3, 50.0]])
    assert masked_softmax(scores, real(1, 1, 0), 1)[0].tolist() == pytest.approx([0.25, 0.75, 0])
    assert masked_softmax(scores, real(0, 0, 0), 1)[0].tolist() == [0, 0, 0]
    assert masked_softmax(scores.T, real(1, 1, 0).T, 0)[:, 0].tolist() == pytest.approx([0.25, 0.75, 0])
    assert masked_softmax(scores.bfloat16(), real(1, 1, 0), 1).dtype == torch.float32


@pytest.fixture
def block():
    block = Block(2)
    alike(block.interactive), alike(block.itself)
    fusion(block.fuse_question, TAKES_NEW, OPEN), fusion(block.fuse_passage, TAKES_NEW, SHUT)
    return block


# Two words of the question and padding; two of the passage and padding. Each is like one and unlike the other.
QUESTION, IN_QUESTION = rows([1.0, 0.0], [0.0, 1.0], [9.0, 9.0]), real(1, 1, 0)
PASSAGE, IN_PASSAGE = rows([LN3, 0.0], [0.0, LN3], [9.0, 9.0]), real(1, 1, 0)


@torch.no_grad()
def test_a_block_attends_to_the_question_alone(block):
    aligned, attention, alignment, _ = block(PASSAGE, QUESTION, IN_PASSAGE, IN_QUESTION)
    assert attention[0, :, 0].tolist() == pytest.approx([0.75, 0.25, 0])  # softmax of (ln 3, 0)
    assert attention[0, :, 1].tolist() == pytest.approx([0.25, 0.75, 0])
    assert alignment[0, :2, 0].tolist() == pytest.approx([LN3, 0])
    # each passage word becomes what it attends to: 3/4 of (1, 0) and 1/4 of (0, 1)
    assert aligned[0, :2].tolist() == [pytest.approx([0.75, 0.25]), pytest.approx([0.25, 0.75])]


@torch.no_grad()
def test_a_passage_word_never_attends_to_itself(block):
    fusion(block.fuse_passage, TAKES_NEW, OPEN)
    aligned, _, _, itself = block(PASSAGE, QUESTION, IN_PASSAGE, IN_QUESTION)
    # of two words each has but the other, so they change places, alike as each is to itself: 10/16 against 6/16
    assert aligned[0, :2].tolist() == [pytest.approx([0.25, 0.75]), pytest.approx([0.75, 0.25])]
    assert itself[0, :2, :2].tolist() == [pytest.approx([10 / 16, 6 / 16]), pytest.approx([6 / 16, 10 / 16])]


@torch.no_grad()
def test_a_block_adds_what_it_remembers_to_both_alignments(block):
    remembered = torch.zeros(1, 3, 3)
    remembered[0, 1, 0] = LN3
    memory = remembered, 10 * remembered
    _, attention, alignment, itself = block(PASSAGE, QUESTION, IN_PASSAGE, IN_QUESTION, memory)
    assert alignment[0, :2, 0].tolist() == pytest.approx([LN3, LN3])
    assert attention[0, :, 0].tolist() == pytest.approx([0.5, 0.5, 0])
    # the first passage word is now (1/2, 1/2), the second still (1/4, 3/4): 1/8 + 3/8
    assert itself[0, 1, 0].item() == pytest.approx(0.5 + 10 * LN3)


def test_reattention_by_hand():
    # The alignment of a question of two words, and of three passage words with themselves; the fourth is padding.
    alignment = torch.full((1, 2, 4), 7.0)
    alignment[0, :, :3] = torch.tensor([[0.0, math.log(2), 0.0], [0.0, 0.0, 0.0]])
    itself = torch.full((1, 4, 4), 7.0)
    itself[0, :3, :3] = torch.tensor([[5.0, LN3, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]])
    question, passage = reattend(alignment, itself, real(1, 1, 1, 0))
    # Softmax without the diagonal, by row 0 3/4 1/4, 1/2 0 1/2, 1/2 1/2 0, and by column C = 0 3/4 1/2, 1/2 0 1/2,
    # 1/2 1/4 0. The question's rows are 1/4 1/2 1/4 and 1/3 1/3 1/3, each times C:
    assert question[0, 0].tolist() == pytest.approx([0.375, 0.25, 0.375, 0])
    assert question[0, 1].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    # rows times columns: such as 3/4 of (1/2 0 1/2) and 1/4 of (1/2 1/4 0)
    assert passage[0, 0].tolist() == pytest.approx([0.5, 0.0625, 0.375, 0])
    assert passage[0, 1].tolist() == pytest.approx([0.25, 0.5, 0.25, 0])
    assert passage[0, 2].tolist() == pytest.approx([0.25, 0.375, 0.5, 0])


@torch.no_grad()
def pointer(slope):
    """Start: ``slope`` times the tanh of the passage's first number. End: tanh of the summary's first number."""
    pointer = Pointer(2)
    for parameter in pointer.parameters():
        parameter.zero_()
    pointer.start[0].weight[0, 0] = pointer.end[0].weight[0, 2] = 1.0
    pointer.start[2].weight[0, 0], pointer.end[2].weight[0, 0] = slope, 1.0
    fusion(pointer.fuse, TAKES_NEW, OPEN)
    return pointer


@torch.no_grad()
@pytest.mark.parametrize(("slope", "expected"), [(LN3, 0.75), (-LN3, 0.25)])
def test_the_end_depends_on_the_expected_start(slope, expected):
    passage = rows([0.0, 0.0], [1.0, 0.0], [50.0, 0.0])
    start, end = pointer(slope / math.tanh(1))(passage, QUESTION, IN_PASSAGE, IN_QUESTION)
    assert start[0, :2].tolist() == pytest.approx([0, slope])  # 1 to 3, or 3 to 1
    # The expected start is 1/4 (or 3/4) of 0 and 3/4 (or 1/4) of 1, the same for every end.
    assert end[0].tolist() == pytest.approx([math.tanh(expected)] * 3)


@torch.no_grad()
def test_the_start_sees_a_summary_of_the_real_question():
    point = pointer(1.0)
    point.start[0].weight[0, 0], point.start[0].weight[0, 2] = 0.0, 1.0  # the summary's first number, not the passage's
    start, _ = point(PASSAGE, QUESTION, IN_PASSAGE, IN_QUESTION)
    assert start[0].tolist() == pytest.approx([math.tanh(0.5)] * 3)  # the mean of 1 and 0, without the padding's 9
    point.summarise.weight[0] = torch.tensor([LN3, 0.0])
    assert point(PASSAGE, QUESTION, IN_PASSAGE, IN_QUESTION)[0][0].tolist() == pytest.approx([math.tanh(0.75)] * 3)


@torch.no_grad()
def test_a_recurrent_layer_is_pytorchs_bidirectional_lstm_that_never_reads_padding():
    torch.manual_seed(0)
    ours, theirs = Recurrent(3, 4), nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    for name, parameter in ours.ahead.named_parameters():
        getattr(theirs, name).copy_(parameter)
        getattr(theirs, f"{name}_reverse").copy_(getattr(ours.back, name))
    long, short = torch.randn(1, 7, 3), torch.randn(1, 4, 3)
    for values in (long, short):
        assert torch.allclose(ours(values, torch.ones(values.shape[:2]).bool()), theirs(values)[0], atol=1e-6)
    padded = torch.cat([short, torch.full((1, 3, 3), 9.0)], 1)
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3], dtype=torch.bool)
    both = ours(torch.cat([long, padded]), mask)
    assert torch.allclose(both[:1], theirs(long)[0], atol=1e-6)
    assert torch.allclose(both[1:, :4], theirs(short)[0], atol=1e-6)


def test_words_are_spelt_and_those_of_glove_stay_fixed():
    torch.manual_seed(0)
    words = Words(vocab_size=5, word_width=2, letter_width=4)
    words.spelling[1, :2] = words.spelling[2, :2] = torch.tensor([7, 8])
    words.spelling[3, :2] = torch.tensor([8, 7])
    words.learned.weight.data[2], words.is_fixed[2] = torch.tensor([0.5, -0.5]), True
    ids = torch.tensor([[1, 2, 3, 1, 4]])
    (before,), again = words(ids), words(ids[:, :1], ids[:, 1:])
    assert torch.allclose(torch.cat(again, 1), before) and before.shape == (1, 5, words.width) and words.width == 2 + 4
    one, other, backwards, repeated, _ = before[0].detach()
    assert torch.equal(one, repeated) and torch.equal(one[2:], other[2:]) and not torch.equal(one[:2], other[:2])
    assert not torch.equal(one[2:], backwards[2:]) and other[:2].tolist() == [0.5, -0.5]
    before.square().sum().backward()
    torch.optim.SGD(words.parameters(), lr=1.0).step()
    after = words(ids)[0][0].detach()
    assert torch.equal(after[1, :2], other[:2]) and not torch.equal(after[1, 2:], other[2:])
    assert not torch.equal(after[0, :2], one[:2]) and not torch.equal(after[4, :2], before[0, 4, :2].detach())
    assert words.learned.weight.grad[2].abs().sum() == 0
