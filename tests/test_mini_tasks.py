"""The miniature claims, reviews and tasks: what their labels mean, and that nothing else gives the labels away."""

import re
from itertools import combinations

import numpy as np
import pytest

from helpers import paths
from helpers.data.examples import Choice, DataError
from helpers.data.mini import tasks, world
from helpers.data.mini.tasks import GENRES, REVIEWS, TABLES, TASKS, TEXT_STREAMS
from helpers.models.encoders import load_tokenizer
from helpers.pairs import make_choices, make_pairs
from helpers.presets.load import load_preset

LONGEST = 72  # tokens
PAIRS = [name for name, task in TASKS.items() if task.kind == "labels" and name not in ("acceptability", "sentiment")]


@pytest.fixture(scope="module")
def loaded():
    """Each task with a training part of its default size."""
    return {name: tasks.load_task(name, name, test_size=100, unlabelled_size=20) for name in TASKS}


def draw_claims(genre, number=200):
    rng = np.random.default_rng(5)
    return [tasks.draw_claim(rng, GENRES[genre]) for _ in range(number)]


def noise(share, number):
    """More than a share of ``number`` examples varies by chance."""
    return 3.5 * np.sqrt(share * (1 - share) / number)


def guess(examples, text_of, fresh):
    """The accuracy on ``fresh`` of a linear classifier of the words that ``text_of`` gives it."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(CountVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000))
    model.fit([text_of(example) for example in examples], [example.label for example in examples])
    return model.score([text_of(example) for example in fresh], [example.label for example in fresh])


def parts_of(task):
    return task.train, task.valid, task.test, *([task.unlabelled] if hasattr(task, "unlabelled") else [])


def test_sizes_kinds_and_streams(loaded):
    for name, task in loaded.items():
        assert [len(part) for part in parts_of(task)] == [TASKS[name].size, 100, 100, 20]
        assert (task.kind, list(task.labels)) == (TASKS[name].kind, TASKS[name].labels)
        assert {type(e) is Choice for part in parts_of(task) for e in part} == {task.kind == "choices"}
        assert all(example.label is None for example in task.unlabelled)
    streams = [*tasks.TASK_STREAMS.values(), *TEXT_STREAMS.values(), *world.STREAMS.values(), 99]
    assert len(set(streams)) == len(streams)


@pytest.mark.parametrize("name", [*TEXT_STREAMS, *(name for name, task in TASKS.items() if task.kind == "labels")])
def test_labels_are_drawn_alike(name):
    if name in TASKS:
        task = tasks.load_task(name, name, train_size=600, valid_size=1, test_size=1)
        examples, classes = task.train, len(task.labels)
    else:
        examples, classes = tasks.load_texts(name, train_size=600).train, len(tasks.label_names(name))
    counts = np.bincount([example.label for example in examples], minlength=classes)
    assert np.abs(counts / 600 - 1 / classes).max() < noise(1 / classes, 600)


def test_no_text_in_two_parts_and_none_twice_in_a_task(loaded):
    for name in TEXT_STREAMS:
        parts = [{(e.first, e.second) for e in part} for part in parts_of(tasks.load_texts(name))]
        assert not any(first & second for first, second in combinations(parts, 2)), name
    for name, task in loaded.items():
        texts = [e.context if task.kind == "choices" else e.first for part in parts_of(task) for e in part]
        assert len(set(texts)) == len(texts), name


def test_a_smaller_part_begins_a_larger_one(loaded):
    sizes = {"train_size": 15, "valid_size": 9, "test_size": 20}
    pairs = [(tasks.load_task(name, name, **sizes, unlabelled_size=3), task) for name, task in loaded.items()]
    pairs += [(tasks.load_texts(name, **sizes), tasks.load_texts(name)) for name in TEXT_STREAMS]
    for fewer, more in pairs:
        assert all(few == many[: len(few)] for few, many in zip(parts_of(fewer), parts_of(more), strict=True))


def test_texts_are_short_and_never_cut(loaded):
    tokenizer = load_tokenizer(str(paths.MINI))
    for name, task in loaded.items():
        lengths = (make_choices if task.kind == "choices" else make_pairs)(task.train, tokenizer, 999).lengths_W
        assert lengths.max() <= LONGEST and lengths.mean() < 42, name
    for settings in (
        getattr(load_preset(preset), section) for preset in ("mini", "smoke") for section in ("mnli", "reviews")
    ):
        for name in settings.domains.values():
            assert list(tasks.label_names(name)) == settings.labels
            lengths = make_pairs(tasks.load_texts(name).train, tokenizer, 999).lengths_W
            assert lengths.max() <= settings.max_length, name


@pytest.mark.parametrize("genre", GENRES)
def test_labels_of_claims_are_what_the_passage_states(genre):
    for label, (subject, relation, value), _, statements in draw_claims(genre):
        values = [v for s, r, v in statements if s == subject and r is relation]
        expected = {"entailed": [value], "not said": []}.get(label)
        assert values == expected if expected is not None else (len(values) == 1 and values != [value])
    # An entailed claim is in other words than its passage.
    rng = np.random.default_rng(5)
    claims = [tasks.make_claim(rng, GENRES[genre]) for _ in range(200)]
    assert not any(claim in passage for claim, passage, label in claims if label == "entailed")


def test_the_value_or_subject_in_the_passage_is_not_enough():
    claims = [claim for genre in GENRES for claim in draw_claims(genre)]
    labels = np.asarray([label for label, *_ in claims])
    has_value = np.asarray([any(value == v for *_, v in told) for _, (*_, value), _, told in claims])
    assert has_value[labels == "entailed"].all() and 0.05 < has_value[labels != "entailed"].mean() < 0.2
    has_subject = np.asarray([any(subject in (s, v) for s, _, v in told) for _, (subject, *_), _, told in claims])
    chained = np.asarray([len(told) > 2 for *_, told in claims])  # these name the subject in any case
    named = has_subject[(labels == "not said") & ~chained]
    assert abs(named.mean() - tasks.NAMED_CLAIMS) < noise(tasks.NAMED_CLAIMS, len(named))


@pytest.mark.parametrize("genre", GENRES)
def test_a_claim_alone_says_nothing_of_its_label(genre):
    domain = tasks.load_texts(genre, train_size=600, test_size=600)
    assert abs(guess(domain.train, lambda example: example.first, domain.test) - 1 / 3) < noise(1 / 3, 600)


@pytest.mark.parametrize("name", PAIRS)
def test_the_second_text_alone_says_nothing_of_the_label(name):
    task = tasks.load_task(name, name, train_size=500, valid_size=1, test_size=300)
    chance = 1 / len(task.labels)
    assert abs(guess(task.train, lambda example: example.second, task.test) - chance) < noise(chance, 300)


def test_an_ending_alone_says_nothing():
    """No ending's name or value tells by being in most of them more than by chance."""
    right, examples = 0, tasks.load_task("continuation", "x", train_size=400, valid_size=1, test_size=1).train
    for example in examples:
        words = [set(ending.split()) for ending in example.endings]
        shared = [sum(len(ending & other) for other in words) for ending in words]
        right += (shared[example.label] == max(shared)) / shared.count(max(shared))
    assert right / len(examples) < 0.4


@pytest.mark.parametrize("name", REVIEWS)
def test_the_verdict_decides_or_else_the_majority(name):
    shared, mixed = TABLES.shared, 0
    good, bad = ({*getattr(REVIEWS[name], kind).split(), *getattr(shared, kind).split()} for kind in ("good", "bad"))
    assert not good & bad
    for review in tasks.load_texts(name, train_size=300).train:
        votes, verdict = [], 0
        for sentence in review.first.split(". "):
            words = re.findall("[a-z]+", sentence.lower())
            if signs := [1 if word in good else -1 for word in words if word in good | bad]:  # or else it is neutral
                assert len(signs) == 1, sentence
                sign = -signs[0] if set(words) & set(shared.negations) else signs[0]
                if sentence.startswith(("All in all", "Still")):
                    verdict = sign
                else:
                    votes.append(sign)
        label = "positive" if (verdict or sum(votes)) > 0 else "negative"
        assert tasks.label_names(name)[review.label] == label, review.first
        mixed += len(set(votes)) > 1
    assert mixed > 45


def test_an_unknown_name_is_named():
    with pytest.raises(DataError, match="wnli: unknown miniature task 'pronouns'; there are acceptability, sentiment"):
        tasks.load_task("pronouns", "wnli")
    with pytest.raises(DataError, match="unknown miniature domain of labelled texts 'news'; there are encyclopedia"):
        tasks.load_texts("news")
