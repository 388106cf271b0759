"""The miniature labelled texts: what their labels say of them, and that nothing else gives the labels away."""

import re

import numpy as np
import pytest

from helpers import paths
from helpers.batches.sequences import make_pairs
from helpers.data.examples import DataError
from helpers.data.mini import domains, entailment, texts
from helpers.data.mini.words import STYLES
from helpers.models.pretrained import load_tokenizer
from helpers.presets.load import load

CHANCE = 1 / len(entailment.LABELS)


def claims(genre: str, number: int) -> list[entailment.Claim]:
    rng = np.random.default_rng(5)
    return [entailment.make_claim(rng, texts.GENRES[genre]) for _ in range(number)]


def guessed(examples: list, text_of, fresh: list) -> float:
    """Accuracy on ``fresh`` of a linear classifier of the words that ``text_of`` gives it."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(CountVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000))
    model.fit([text_of(e) for e in examples], [e.label for e in examples])
    return model.score([text_of(e) for e in fresh], [e.label for e in fresh])


def test_sizes_labels_and_other_streams_than_the_questions():
    for name in texts.STREAMS:
        domain = texts.load_domain(name, valid_size=7, test_size=9)
        assert (len(domain.valid), len(domain.test)) == (7, 9)
        assert 100 <= len(domain.train) <= 500
        assert {e.label for e in domain.train} == set(range(len(texts.labels(name))))
        assert all((e.second is None) == (name in texts.REVIEWS) for e in domain.train)
    assert len(set(texts.STREAMS.values()) | set(domains.STREAMS.values()) | {99}) == 1 + 9 + len(domains.STREAMS)


def test_the_same_seed_makes_the_same_texts_and_fewer_are_the_first():
    for name in texts.STREAMS:
        whole = texts.load_domain(name, train_size=40)
        assert texts.load_domain(name, train_size=40) == whole
        fewer = texts.load_domain(name, train_size=15, test_size=20)
        assert fewer.train == whole.train[:15] and fewer.test == whole.test[:20] and fewer.valid == whole.valid
        assert texts.load_domain(name, train_size=40, seed=1).train != whole.train


def test_no_text_in_two_parts():
    for name in texts.STREAMS:
        domain = texts.load_domain(name)
        parts = [{(e.first, e.second) for e in part} for part in (domain.train, domain.valid, domain.test)]
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2]), name


def test_labels_are_balanced():
    for name in texts.STREAMS:
        classes = len(texts.labels(name))
        counts = np.bincount([e.label for e in texts.load_domain(name, train_size=1000).train], minlength=classes)
        noise = np.sqrt(1000 / classes * (1 - 1 / classes))
        assert np.abs(counts - 1000 / classes).max() < 3.5 * noise, name


@pytest.mark.parametrize("genre", texts.GENRES)
def test_labels_of_claims_are_what_the_passage_states(genre):
    for claim in claims(genre, 200):
        about = [f for f in claim.facts if f.subject == claim.subject and f.relation == claim.relation]
        found = {"entailed": [claim.value], "not said": []}.get(claim.label)
        values = [f.value for f in about]
        assert values == found if found is not None else (len(values) == 1 and values != [claim.value])
        assert all(claim.passage[f.start : f.start + len(f.value)] == f.value for f in claim.facts)
        assert claim.value.lower() in claim.text.lower()
        assert claim.subject in claim.passage or claim.label == "not said"
        wordings = {f.relation.statements[f.wording].format(s=f.subject, o=f.value) for f in about}
        assert claim.text not in wordings, "an entailed claim is worded anew"
        assert {f.wording for f in claim.facts} <= set(STYLES[texts.GENRES[genre].style].statements)


@pytest.mark.parametrize("genre", texts.GENRES)
def test_a_claim_alone_says_nothing_of_its_label(genre):
    domain = texts.load_domain(genre, train_size=600, test_size=600)
    noise = np.sqrt(CHANCE * (1 - CHANCE) / 600)
    assert abs(guessed(domain.train, lambda e: e.first, domain.test) - CHANCE) < 3.5 * noise


def test_the_value_that_stands_in_the_passage_is_not_enough():
    made = [claim for genre in texts.GENRES for claim in claims(genre, 200)]
    present = np.asarray([claim.value in claim.passage for claim in made])
    truth = np.asarray([claim.label for claim in made])
    assert present[truth == "entailed"].all()
    assert 0.05 < present[truth != "entailed"].mean() < 0.2
    best = np.mean(truth == np.where(present, "entailed", "contradicted"))
    assert 0.5 < best < 0.68  # the third of the labels is told by something else


def test_the_subject_that_is_named_is_not_enough():
    made = [claim for genre in texts.GENRES for claim in claims(genre, 200) if claim.label == "not said"]
    named = np.mean([claim.subject in claim.passage for claim in made])
    assert abs(named - entailment.NAMED) < 3.5 * np.sqrt(entailment.NAMED * (1 - entailment.NAMED) / len(made))


def test_words_of_praise_and_complaint():
    everywhere = {*texts.SHARED.good, *texts.SHARED.bad}
    assert not set(texts.SHARED.good) & set(texts.SHARED.bad)
    flipped = set()
    for things in texts.REVIEWS.values():
        own = {*things.good, *things.bad}
        assert len(own) == len(things.good) + len(things.bad) and not own & everywhere
        flipped |= {w for other in texts.REVIEWS.values() for w in things.good if w in other.bad}
    assert {"long", "light", "sharp", "heavy"} & flipped and len(flipped) >= 8


@pytest.mark.parametrize("name", texts.REVIEWS)
def test_the_verdict_decides_or_else_the_majority(name):
    things, shared = texts.REVIEWS[name], texts.SHARED
    good, bad = {*things.good, *shared.good}, {*things.bad, *shared.bad}
    mixed = 0
    for review in texts.load_domain(name, train_size=300).train:
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
        decided = verdict or sum(votes)
        assert texts.labels(name)[review.label] == ("positive" if decided > 0 else "negative"), review.first
        mixed += len(set(votes)) > 1
    assert mixed > 45


def test_texts_are_short_and_never_cut():
    tokenizer = load_tokenizer(str(paths.MINI))
    for preset in (load("mini"), load("smoke")):
        for settings in (preset.mnli, preset.reviews):
            for name in settings.domains.values():
                assert list(texts.labels(name)) == settings.labels
                assert not make_pairs(texts.load_domain(name).train, tokenizer, settings.max_length).notes, name


def test_an_unknown_name_is_named():
    for ask in (texts.load_domain, texts.labels):
        with pytest.raises(DataError, match="unknown miniature domain of labelled texts 'news'; there are encycl"):
            ask("news")
