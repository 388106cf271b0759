"""A teacher's distributions on a student's tokens, by hand and on text."""

import numpy as np
import pytest
import torch
from conftest import text_of
from encoder_kinds import make_tokenizer

from helpers.data.files import read_parts_once
from helpers.data.mini import world
from helpers.errors import EncoderError
from helpers.extractive_qa import distributions
from helpers.models.encoders import load_tokenizer
from helpers.papers.a2d.losses import soft_cross_entropy
from helpers.papers.your_domains.projection import (
    align_specials,
    align_tokens,
    align_windows,
    cut_windows,
    project,
    question_ranges,
    retokenise,
)
from helpers.sequences import make_windows
from helpers.training import Logits, StoredTeacher

# "Ada leads Gamma" as Ad a leads Gam ma, and as Ada lea ds Gamma.
TEACHER = np.array([(0, 2), (2, 3), (4, 9), (10, 13), (13, 15)])
STUDENT = np.array([(0, 3), (4, 7), (7, 9), (10, 15)])


def test_a_start_goes_to_the_token_of_its_first_character_and_an_end_to_that_of_its_last():
    first, last = align_tokens(TEACHER, STUDENT)
    assert first.tolist() == [0, 0, 1, 3, 3] and last.tolist() == [0, 0, 2, 3, 3]
    first, last = align_tokens(STUDENT, TEACHER)
    assert first.tolist() == [0, 2, 2, 3] and last.tolist() == [1, 2, 2, 4]


def test_tokens_outside_a_window_have_no_place():
    first, last = align_tokens(TEACHER, STUDENT[:2])  # Ada lea: the end of "leads" is outside, its start inside
    assert first.tolist() == [0, 0, 1, -1, -1] and last.tolist() == [0, 0, -1, -1, -1]
    first, last = align_tokens(TEACHER, STUDENT[2:])
    assert first.tolist() == [-1, -1, -1, 1, 1] and last.tolist() == [-1, -1, 0, 1, 1]
    assert align_tokens(TEACHER, STUDENT[:0])[0].tolist() == [-1] * 5
    assert align_tokens(STUDENT[:0], TEACHER)[0].size == 0
    first, last = align_tokens(np.array([(0, 1), (3, 4)]), np.array([(0, 1), (5, 6)]))  # a character of no token
    assert first.tolist() == last.tolist() == [0, -1]


def test_tokens_of_the_same_ranges_stand_for_each_other_even_if_they_share_a_character():
    emoji = np.array([(0, 3), (4, 5), (4, 5), (6, 9)])  # its bytes are two tokens
    assert align_tokens(emoji, emoji)[0].tolist() == [0, 1, 2, 3]
    first, last = align_tokens(emoji, emoji[1:])
    assert first.tolist() == [-1, 0, 0, 2] and last.tolist() == [-1, 1, 1, 2]


def test_special_tokens_stand_for_each_other_by_number():
    assert align_specials(2, 1).tolist() == [0, 0] and align_specials(1, 2).tolist() == [0]
    assert align_specials(2, 0).tolist() == [-1, -1] and align_specials(0, 2).size == 0


@pytest.fixture(scope="module")
def tokenizers():
    """WordPiece of the miniature world, and a byte-level BPE with two special tokens between the texts."""
    texts = [example.context for example in world.load_domain("news", train_size=60).train]
    return load_tokenizer("data/mini"), make_tokenizer("roberta", texts)


@pytest.fixture(scope="module")
def examples():
    return world.load_domain("news", train_size=30).train


def place(teacher, student, tokenizers):
    ranges = tuple(question_ranges(windows, each) for windows, each in zip((teacher, student), tokenizers, strict=True))
    return align_windows(teacher, student, ranges)


def test_mass_is_added_dropped_and_normalised_by_hand(tokenizers):
    one = make_windows(world.load_domain("news", train_size=1).train, tokenizers[0], max_length=400)
    (length,) = one.lengths_W
    values = np.zeros(4)
    values[:] = 0.1, 0.2, 0.3, 0.4
    flat, kept = project(values, np.array([5, 0, 5, -1]), one)
    assert kept.tolist() == pytest.approx([0.6]) and len(flat) == length
    assert flat[[0, 5]].tolist() == pytest.approx([1 / 3, 2 / 3]) and flat.sum() == pytest.approx(1)
    flat, kept = project(values, np.full(4, -1), one)
    assert kept.tolist() == [0.0] and not flat.any()


def test_each_window_is_normalised_by_itself(tokenizers, examples):
    windows = make_windows(examples[:2], tokenizers[0], max_length=400)
    second = windows.offsets_W[1]
    flat, kept = project(np.array([0.5, 0.5, 0.25, 0.75]), np.array([1, 2, second + 1, -1]), windows)
    assert kept.tolist() == pytest.approx([1.0, 0.25])
    assert flat[[1, 2, second + 1]].tolist() == pytest.approx([0.5, 0.5, 1.0])


@pytest.mark.parametrize("from_student", [False, True])
def test_what_stands_at_an_answer_goes_to_the_tokens_that_hold_it(tokenizers, examples, from_student):
    student_tokenizer, teacher_tokenizer = tokenizers[::-1] if from_student else tokenizers
    student = make_windows(examples, student_tokenizer, max_length=72, stride=16)
    teacher = retokenise(student, teacher_tokenizer, 64)
    assert len(teacher) == len(student) and (teacher.lengths_W != student.lengths_W).any()
    starts, ends = place(teacher, student, (teacher_tokenizer, student_tokenizer))
    for window in np.flatnonzero(student.labels["start"]):
        span = examples[student.example_W[window]].span
        first, last = teacher.positions(window, span)
        at = starts[teacher.offsets_W[window] + first], ends[teacher.offsets_W[window] + last]
        answer = text_of(student, window, *(at - student.offsets_W[window]))
        assert examples[student.example_W[window]].context[slice(*span)] in answer
        first_of_window, first_of_student = teacher.offsets_W[window], student.offsets_W[window]
        assert starts[first_of_window] == ends[first_of_window] == first_of_student  # "no answer"
    assert (starts >= 0).mean() > 0.97  # but for tokens of white space at the ends


def compare_losses(student, teacher, tokenizer):
    """The largest difference of the loss on exact distributions from that on the same through characters."""
    rng = np.random.default_rng(0)
    size = student.lengths_W.sum()
    exact = distributions(student, Logits(*rng.normal(0, 3, (2, size)).astype(np.float32)), 2.0)
    places = place(teacher, student, (tokenizer, tokenizer))
    through = [project(side, to, student)[0] for side, to in zip(exact, places, strict=True)]
    index = np.arange(len(student))
    batch = {"window": torch.from_numpy(index), "input_ids": torch.zeros(len(index), int(student.lengths_W.max()))}
    mask = torch.arange(batch["input_ids"].shape[1]) < torch.from_numpy(student.lengths_W)[:, None]
    output = tuple(torch.from_numpy(rng.normal(0, 3, (2, *mask.shape)).astype(np.float32)))
    losses = []
    for sides in (exact, through):
        stored = StoredTeacher(student, dict(zip(("start", "end"), map(torch.from_numpy, sides), strict=True)))(batch)
        losses.append(soft_cross_entropy(output, (stored["teacher_start"], stored["teacher_end"]), mask, 2.0))
    return (losses[0] - losses[1]).abs().max().item(), losses[0].mean().item()


@pytest.mark.parametrize("kind", [0, 1])
def test_with_one_tokenizer_the_loss_through_characters_is_the_exact_one(tokenizers, examples, kind):
    student = make_windows(examples, tokenizers[kind], max_length=72, stride=16)
    teacher = student if kind else retokenise(student, tokenizers[kind], 64)
    assert all(np.array_equal(teacher.token_ids(w), student.token_ids(w)) for w in range(len(student)))
    difference, size = compare_losses(student, teacher, tokenizers[kind])
    assert difference <= 1e-6 * size and size > 1


@pytest.mark.parametrize("file", ["amazon/amazon_reviews_v1.0.json", "reddit/reddit_v1.0.json"])
def test_with_one_tokenizer_the_loss_is_the_exact_one_on_real_text(shared, file):
    parts, _ = read_parts_once(shared / "data/qa" / file)
    examples = [record.example for record in parts["all"][:40]]
    tokenizer = load_tokenizer(str(shared / "models/all-MiniLM-L6-v2"))
    student = make_windows(examples, tokenizer, max_length=128, stride=96)
    teacher = retokenise(student, tokenizer, 64)
    assert all(np.array_equal(teacher.token_ids(w), student.token_ids(w)) for w in range(len(student)))
    difference, size = compare_losses(student, teacher, tokenizer)
    assert difference <= 1e-6 * size and size > 1


def test_windows_longer_than_a_teacher_reads_lose_the_end_of_their_passage(tokenizers, examples):
    windows = make_windows(examples, tokenizers[0], max_length=48, stride=16)
    cut = cut_windows(windows, 30)
    assert cut.lengths_W.max() == 30
    for row, whole in zip(cut.rows, windows.rows, strict=True):
        assert np.array_equal(row.second, whole.second[: len(row.second)]) and len(row.chars) == len(row.second)
    with pytest.raises(EncoderError, match=r"reads 8 tokens, which leaves none .*; use another teacher"):
        cut_windows(windows, 8)
