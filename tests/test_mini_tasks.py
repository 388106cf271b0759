"""The miniature tasks: labels, sizes and streams, what a second text gives away, and questions without an answer."""

import numpy as np
import pytest

from helpers import paths
from helpers.batches.sequences import make_choices, make_pairs
from helpers.data.examples import Choice, DataError, fingerprint_of
from helpers.data.mini import domains, tasks, texts
from helpers.data.mini.words import RELATIONS, STYLES
from helpers.data.mini.world import questions
from helpers.data.sections import fingerprint
from helpers.data.tasks import load_tasks
from helpers.models.pretrained import load_tokenizer
from helpers.presets.schema import TasksSettings

LONGEST = 72  # tokens
CLASSES = [name for name, source in tasks.SOURCES.items() if source.kind == "labels"]
PAIRS = [name for name in CLASSES if name not in ("acceptability", "sentiment")]


@pytest.fixture(scope="module")
def loaded():
    """Each task with a training part of its own size."""
    return {name: tasks.load_task(name, name, test_size=100, unlabelled_size=20) for name in tasks.SOURCES}


def parts_of(task):
    return task.train, task.valid, task.test, task.unlabelled


def text_of(example):
    return example.context if isinstance(example, Choice) else example.first


def test_sizes_kinds_and_other_streams_than_the_neighbours(loaded):
    for name, task in loaded.items():
        source = tasks.SOURCES[name]
        assert [len(part) for part in parts_of(task)] == [source.size, 100, 100, 20]
        assert (task.kind, task.labels, task.metrics) == (source.kind, source.labels, source.metrics)
        assert {type(e) is Choice for part in parts_of(task) for e in part} == {source.kind == "choices"}
        assert all(e.label is None for e in task.unlabelled)
    others = [*texts.STREAMS.values(), *domains.STREAMS.values(), 99]
    assert len({*tasks.STREAMS.values(), *others}) == len(tasks.STREAMS) + len(others)


def test_labels_are_drawn_alike():
    for name in CLASSES:
        classes = len(tasks.SOURCES[name].labels)
        labels = [e.label for e in tasks.load_task(name, name, train_size=600, valid_size=1, test_size=1).train]
        noise = np.sqrt(600 / classes * (1 - 1 / classes))
        assert np.abs(np.bincount(labels, minlength=classes) - 600 / classes).max() < 3.5 * noise, name


def test_scores_are_spread_and_endings_stand_anywhere(loaded):
    scores = [e.label for e in loaded["similarity"].train]
    assert all(isinstance(score, float) and 0 <= score <= 5 for score in scores)
    assert min(scores) < 0.5 and max(scores) > 4.5 and np.histogram(scores, 5, (0, 5))[0].min() > 20
    numbers = np.bincount([e.label for e in loaded["continuation"].train], minlength=4)
    assert all(len(set(e.endings)) == 4 for e in loaded["continuation"].train) and numbers.min() > 50


def test_no_text_twice_in_a_task(loaded):
    for name, task in loaded.items():
        firsts = [text_of(e) for part in parts_of(task) for e in part]
        assert len(set(firsts)) == len(firsts), name


def test_a_smaller_part_begins_a_larger_one(loaded):
    for name, task in loaded.items():
        fewer = tasks.load_task(name, name, train_size=15, valid_size=9, test_size=20, unlabelled_size=3)
        for few, many in zip(parts_of(fewer), parts_of(task), strict=True):
            assert few == many[: len(few)], name
        assert tasks.load_task(name, name, seed=1, train_size=15, valid_size=1, test_size=1).train != fewer.train


def test_texts_are_short(loaded):
    tokenizer = load_tokenizer(str(paths.MINI))
    for name, task in loaded.items():
        make = make_choices if task.kind == "choices" else make_pairs
        sequences = make(task.train, tokenizer, LONGEST)
        assert not sequences.notes and sequences.lengths_W.mean() < 42, name


@pytest.mark.parametrize("name", PAIRS)
def test_the_second_text_alone_says_nothing_of_the_label(name):
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    task = tasks.load_task(name, name, train_size=500, valid_size=1, test_size=300)
    model = make_pipeline(CountVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=300))
    model.fit([e.second for e in task.train], [e.label for e in task.train])
    chance = 1 / len(task.labels)
    right = model.score([e.second for e in task.test], [e.label for e in task.test])
    assert abs(right - chance) < 3.5 * np.sqrt(chance * (1 - chance) / 300)


def test_an_ending_alone_says_nothing():
    """No ending's name or value tells by being in most of them more than by chance."""
    right = 0
    examples = tasks.load_task("continuation", "x", train_size=400, valid_size=1, test_size=1).train
    for example in examples:
        words = [set(ending.split()) for ending in example.endings]
        shared = [sum(len(own & other) for other in words) for own in words]
        right += (shared[example.label] == max(shared)) / shared.count(max(shared))
    assert right / len(examples) < 0.4


def test_a_preset_may_name_them_and_they_are_these():
    settings = TasksSettings(
        source="mini", tasks={f"my-{s}": s for s in tasks.SOURCES}, train_size=8, valid_size=4, test_size=4
    )
    loaded = load_tasks(settings)
    assert [e.id for e in loaded["my-reference"].valid] == [f"my-reference-valid-{number}" for number in range(4)]
    assert fingerprint_of([[fingerprint(settings, name)] for name in loaded]) == "890badcd26b63114"


def test_an_unknown_source_is_named():
    with pytest.raises(DataError, match="wnli: unknown miniature task 'pronouns'; there are acceptability, sentiment"):
        tasks.load_task("pronouns", "wnli")


@pytest.mark.parametrize("style", domains.DOMAINS)
def test_a_third_of_the_questions_has_no_answer(style):
    domain = domains.load_domain(f"{style}-unanswerable", train_size=600)
    empty = [e for e in domain.train if not e.answers]
    assert abs(len(empty) / 600 - 1 / 3) < 3.5 * np.sqrt(2 / 9 / 600)
    assert all(e.span is None for e in empty)
    assert all(e.context[slice(*e.span)] == e.answers[0] for e in domain.train if e.answers)
    asked = [(e.context, e.question) for e in empty]
    assert len(set(asked)) > 0.97 * len(asked)
    fewer = domains.load_domain(f"{style}-unanswerable", train_size=40)
    assert fewer.train == domain.train[:40] and fewer.test == domain.test


def test_what_a_passage_does_not_say_it_says_of_others():
    rng = np.random.default_rng(0)
    kinds = []
    for _ in range(200):
        for question, passage, answers, _, facts, fact in questions(rng, STYLES["encyclopedia"], 4, 1.0):
            assert (answers, fact) == ((), None)
            relation, subject = _asked(question)
            told = [f for f in facts if f.relation == relation]
            assert told and all(f.subject != subject for f in told), (question, passage)
            kinds.append(subject in passage)
    assert 0.05 < np.mean(kinds) < 0.5


def _asked(question):
    """The relation and subject of a question."""
    for relation in RELATIONS:
        asks = [text.format(s="|") for text in relation.asks]
        for template in STYLES["encyclopedia"].questions:
            before, after = template.format(s="|", nouns=relation.nouns, asks=asks).split("|")
            if question.startswith(before) and question.endswith(after):
                return relation, question.removeprefix(before).removesuffix(after)
    raise AssertionError(question)
