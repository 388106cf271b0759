"""Domains from files: how what the files leave together is split, cut and drawn, and what is rejected."""

import itertools
import json
import re
from collections import Counter

import numpy as np
import pytest
from qa_files import question, write_many, write_narrativeqa, write_squad

from helpers.data.examples import DataError
from helpers.data.load import label_names, load, load_domains
from helpers.data.questions import read_questions
from helpers.data.splits import sample
from helpers.data.text_splits import draw_tenth, order_by_hash
from helpers.data.texts import TextRecord
from helpers.presets.schema import DataSettings, TextsSettings

PARTS = ("train", "valid", "test")
POLAR = ["negative", "positive"]
# Domains and the sizes of their parts in Dong et al. 2021.
REVIEWS = ("books", "dvd", "electronics", "kitchen")
TABLE_1 = dict(zip(REVIEWS, ([1631, 170, 199], [1621, 194, 185], [1615, 172, 213], [1613, 184, 203]), strict=True))


def questions_of(folder, **settings):
    """The domain of questions in a folder."""
    return load(DataSettings(source="files", folder=str(folder), domains={"d": "."}, **settings), "d")


def texts_of(where, *domains, **settings):
    names = {name: name for name in domains}
    return TextsSettings(**{"folder": str(where), "domains": names, "labels": POLAR} | settings)


def parts_of(domain):
    return [getattr(domain, part) for part in PARTS]


def sizes(domain):
    return list(map(len, parts_of(domain)))


def values(examples, field):
    return {getattr(example, field) for example in examples}


def share_nothing(domain, field):
    return not any(values(a, field) & values(b, field) for a, b in itertools.combinations(parts_of(domain), 2))


def test_one_file_is_split_by_passage(tmp_path):
    path = write_many(tmp_path / "d" / "all.json", 30, each=3)
    domain = questions_of(tmp_path / "d", valid_size=10)
    assert share_nothing(domain, "context")
    every = {record.example.id for record in read_questions(path)[0]}
    assert values(itertools.chain(*parts_of(domain)), "id") == every
    assert sizes(domain) == [60, 12, 18]  # whole passages: 10 rounded up to 3s; 20 % of 90
    other = questions_of(tmp_path / "d", valid_size=10, seed=1)
    assert all(values(getattr(other, p), "context") != values(getattr(domain, p), "context") for p in ("valid", "test"))


def test_the_order_of_a_file_does_not_matter(tmp_path):
    path = write_many(tmp_path / "d" / "all.json", 30)
    settings = {"valid_size": 10, "train_size": 17, "test_size": 5, "seed": 3}
    first = parts_of(questions_of(tmp_path / "d", **settings))
    data = json.loads(path.read_text())
    data["data"].reverse()
    for article in data["data"]:
        article["paragraphs"][0]["qas"].reverse()
    (tmp_path / "reversed").mkdir()
    (tmp_path / "reversed/all.json").write_text(json.dumps(data))
    assert parts_of(questions_of(tmp_path / "reversed", **settings)) == first


def test_variants_of_a_question_and_equal_passages_stay_in_one_part(tmp_path):
    names = [(number, name) for number in range(30) for name in ("", "-turk0", "-turk1")]
    paragraphs = [(f"Here is {n}. {name}", [question(f"{n}{name}", answers=[("Here", 0)])]) for n, name in names]
    paragraphs += [("Here is 1. ", [question(f"more{n}", answers=[("Here", 0)])]) for n in range(4)]
    (tmp_path / "d").mkdir()
    write_squad(tmp_path / "d/all.json", *paragraphs)
    domain = questions_of(tmp_path / "d", valid_size=10)
    assert share_nothing(domain, "group") and share_nothing(domain, "context")


def test_smaller_samples_are_subsets_and_leave_the_rest_alone(tmp_path):
    write_many(tmp_path / "d" / "all.json", 40)
    loaded = [questions_of(tmp_path / "d", valid_size=10, train_size=n, test_size=n // 4) for n in (8, 20, 40)]
    assert [sizes(domain)[::2] for domain in loaded] == [[8, 2], [20, 5], [40, 10]]
    for part in ("train", "test"):
        small, middle, large = (values(getattr(domain, part), "id") for domain in loaded)
        assert small < middle < large
    assert loaded[0].valid == loaded[2].valid
    chosen = sample(loaded[2].train, 7, seed=0)
    assert chosen == [example for example in loaded[2].train if example in chosen] != sample(loaded[2].train, 7, seed=1)


def test_parts_that_the_files_name(tmp_path):
    for part, count in (("trn", 9), ("dev-v1.1", 3), ("test", 4)):
        write_many(tmp_path / "three" / f"squad-{part}.json", count, tag=part)
    domain = questions_of(tmp_path / "three", valid_size=3, train_size=5)
    assert sizes(domain) == [5, 6, 8] and {example.id[:3] for example in domain.valid} == {"dev"}
    assert sizes(questions_of(tmp_path / "three", valid_size=2)) == [18, 2, 8]  # valid is cut where it is much larger
    write_many(tmp_path / "two/train.json", 20, tag="train")
    write_many(tmp_path / "two/dev.json", 3, tag="dev")
    domain = questions_of(tmp_path / "two", valid_size=5)
    assert sizes(domain) == [34, 6, 6] and {example.id[:3] for example in domain.test} == {"dev"}
    rows = [("d1", part, f"Who {n} ?", "a girl", "x") for n, part in enumerate(("train", "train", "valid", "test"))]
    assert sizes(questions_of(write_narrativeqa(tmp_path / "stories", rows))) == [2, 1, 1]


def test_dev_and_test_without_train_halve_test_by_document(tmp_path):
    titles = [f"policy {p // 4}" for p in range(24)]
    write_many(tmp_path / "d/dev.json", 5, tag="dev")
    path = write_many(tmp_path / "d/test.json", 24, tag="test", titles=titles)
    data = json.loads(path.read_text())
    shared = "Both documents say thing."  # policy 0 and policy 5 have to stay together
    for article, identifier in ((0, "s0"), (20, "s1")):
        qas = [question(identifier, answers=[("thing", 19)])]
        data["data"][article]["paragraphs"].append({"context": shared, "qas": qas})
    path.write_text(json.dumps(data))
    domain = questions_of(tmp_path / "d")
    assert len(domain.train) == 10 and len(domain.valid) + len(domain.test) == 50
    document = {a["paragraphs"][0]["context"]: title for a, title in zip(data["data"], titles, strict=True)}
    valid, test = ({document[c] for c in values(p, "context") - {shared}} for p in (domain.valid, domain.test))
    assert valid and test and not valid & test and ("policy 0" in valid) == ("policy 5" in valid)


def test_domains_of_questions_that_are_rejected(tmp_path):
    write_many(tmp_path / "one/all.json", 1, each=9)
    write_many(tmp_path / "few/all.json", 30)
    rows = [("d1", part, f"Who slept in {part}?", "nobody", "no one") for part in ("train", "valid", "test")]
    write_narrativeqa(tmp_path / "stories", rows)
    for name, says in (
        ("one", "d: 9 questions in 1 passages are too few to set 2 aside; give three passages or more, as train,"),
        ("few", "d: 48 questions in 24 passages are too few to set 300 aside"),
        ("stories", "d: no training question has an answer with a place in its passage"),
        ("nowhere", "'.*nowhere' is not a folder; name the one that holds . with -p data_dir"),
    ):
        with pytest.raises(DataError, match=says):
            questions_of(tmp_path / name)


def records(*labels, texts=None):
    texts = texts or [f"text {number}" for number in range(len(labels))]
    return [TextRecord(str(n), text, None, label) for n, (text, label) in enumerate(zip(texts, labels, strict=True))]


def rows(path, *pairs):
    """A file of JSON lines: a text and its label each."""
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in pairs))


def many(size, begin="text", labels=POLAR):
    return [(f"{begin} {number}", labels[number % len(labels)]) for number in range(size)]


@pytest.mark.parametrize(("number", "train", "valid"), [(77348, 69613, 7735), (83348, 75013, 8335)])
def test_a_tenth_of_mnlis_genres_is_that_of_table_1(number, train, valid):
    tenth, rest = draw_tenth(records(*("ccen" * number)[:number]), 0)
    assert (len(rest), len(tenth)) == (train, valid)


def test_labels_share_what_is_drawn():
    every = records(*"a" * 60, *"b" * 33, *"c" * 7)
    drawn, rest = draw_tenth(every, seed=0)
    # Quotas 6, 3.3 and 0.7: the seat that is left goes to the largest remainder.
    assert Counter(record.label for record in drawn) == {"a": 6, "b": 3, "c": 1}
    assert sorted(drawn + rest) == sorted(every)
    assert draw_tenth(every[::-1], seed=0)[0] == drawn != draw_tenth(every, seed=1)[0]
    assert order_by_hash(every[::-1], 0) == order_by_hash(every, 0) != order_by_hash(every, 1)
    # Of quotas 0.9 and 0.1 the first has the larger remainder; the only "b" stays.
    assert [record.label for record in draw_tenth(records(*"a" * 9, "b"), seed=0)[0]] == ["a"]


def test_equal_texts_stay_together_and_sizes_are_kept():
    texts = [f"text {number // 4}" for number in range(80)] + [f"one {n}" for n in range(20)]
    for seed in range(20):
        drawn, rest = draw_tenth(records(*"ab" * 50, texts=texts), seed)
        assert len(drawn) == 10 and not {record.first for record in drawn} & {record.first for record in rest}
    assert draw_tenth(records(*"ab" * 5, texts=["same"] * 10), 0)[0] == []


def test_parts_of_texts(tmp_path):
    rows(tmp_path / "one.jsonl", *many(200))
    domain = load_domains(texts_of(tmp_path, "one"))["one"]
    assert sizes(domain) == [162, 18, 20] and Counter(pair.label for pair in domain.test) == {0: 10, 1: 10}
    assert all(pair.label == int(pair.first.split()[1]) % 2 for pair in domain.train)
    rows(tmp_path / "two.train.jsonl", *many(105))
    rows(tmp_path / "two.dev_matched.jsonl", *many(60, "other"))
    domain = load_domains(texts_of(tmp_path, "two"))["two"]
    assert sizes(domain) == [94, 11, 60] and values(domain.test, "first") == {t for t, _ in many(60, "other")}
    for part in PARTS:
        lines = [{"id": n % 40, "text": f"{part} {n}", "label": n % 2} for n in range(60)]
        (tmp_path / f"three.{part}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    domain = load_domains(texts_of(tmp_path, "three"))["three"]
    names = [pair.id for part in parts_of(domain) for pair in part]
    assert sizes(domain) == [60] * 3 and len(set(names)) == 180 and {"0", "0.2", "0.3", "0.6"} <= set(names)


def test_cuts_are_from_the_front_and_smaller_ones_are_subsets(tmp_path):
    rows(tmp_path / "news.jsonl", *many(1000))
    whole = load_domains(texts_of(tmp_path, "news"))["news"]
    sized = texts_of(tmp_path, "news", train_size=200, train_share=0.3, valid_size=60, test_size=500)
    cut = load_domains(sized)["news"]
    assert cut.train == whole.train[:60] and cut.valid == whole.valid[:60] and cut.test == whole.test
    for seed in range(5):  # the front has all labels
        train = load_domains(texts_of(tmp_path, "news", seed=seed, train_share=0.02))["news"].train
        assert len(train) == 16 and 3 <= sum(pair.label for pair in train) <= 13


def test_metakds_split_has_the_sizes_of_table_1(tmp_path):
    for domain, label in itertools.product(REVIEWS, POLAR):
        (tmp_path / domain).mkdir(exist_ok=True)
        body = "<review>\n<review_text>\n{}\n</review_text>\n</review>\n".format
        (tmp_path / domain / f"{label}.review").write_text("".join(body(f"{domain} {label} {n}") for n in range(1000)))
    loaded = load_domains(texts_of(tmp_path, *REVIEWS, split="joint"))
    assert {name: sizes(domain) for name, domain in loaded.items()} == TABLE_1
    assert load_domains(texts_of(tmp_path, *REVIEWS, split="joint", seed=7)) == loaded
    place = {row: number for number, row in enumerate(np.random.RandomState(11111).permutation(8000))}
    for number, (name, domain) in enumerate(loaded.items()):
        kinds = {f"{name} positive": 2000 * number, f"{name} negative": 2000 * number + 1000}
        for part in parts_of(domain):
            places = [place[kinds[kind] + int(n)] for kind, _, n in (pair.first.rpartition(" ") for pair in part)]
            assert places == sorted(places)
            assert all(POLAR[pair.label] in pair.first for pair in part)


def test_labels_are_those_to_train_on_sorted(tmp_path):
    rows(tmp_path / "a.jsonl", *many(100, labels=["z", "m"]))
    rows(tmp_path / "b.jsonl", *many(100, labels=["z", "a"]))
    settings = texts_of(tmp_path, "a", "b", labels=[])
    assert label_names(settings) == ("a", "m", "z") and values(load_domains(settings)["a"].train, "label") == {1, 2}
    assert label_names(texts_of(tmp_path, "a", labels=["z", "m"])) == ("z", "m")


@pytest.mark.parametrize(
    ("files", "settings", "says"),
    [
        ({"a.jsonl": many(60, labels=["positive"])}, {}, "a: every text is labelled positive; give at least two"),
        ({"a.jsonl": many(2)}, {}, "a: no text is left for train; give more, or a file for each part"),
        ({"a.jsonl": [("same", "positive"), ("same", "negative")] * 9}, {}, "a: no text is left for valid"),
        ({"a.dev.jsonl": many(60), "a.test.jsonl": many(60)}, {}, "a: no training file, only valid, test"),
        ({"a.train.jsonl": many(60), "a.test.jsonl": [("odd", "x")]}, {"labels": []}, "no training text is labelled x"),
        ({"a.jsonl": many(9)}, {"split": "joint"}, 'split = "joint" needs 20 texts of each label, found 4 of positive'),
        ({"a.train.jsonl": many(60), "a.test.jsonl": many(60)}, {"split": "joint"}, "a: its files name parts already"),
        ({}, {}, "a: no data file; expected .json"),
        ({}, {"folder": ""}, "names no labelled texts; give their folder with -p mnli_dir or -p reviews_dir"),
        ({}, {"folder": "nowhere"}, "'nowhere' is not a folder; name the one that holds a"),
    ],
)
def test_domains_of_texts_that_are_rejected(tmp_path, files, settings, says):
    for name, lines in files.items():
        rows(tmp_path / name, *lines)
    with pytest.raises(DataError, match=re.escape(says)):
        load_domains(texts_of(tmp_path, "a", **settings))


def test_pairs_and_single_texts_do_not_go_together(tmp_path):
    rows(tmp_path / "one.jsonl", *many(40))
    lines = [{"premise": f"word {n}", "hypothesis": "x", "label": n % 2} for n in range(40)]
    (tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(DataError, match="one, two: some have pairs of texts, others single texts"):
        load_domains(texts_of(tmp_path, "one", "two"))
