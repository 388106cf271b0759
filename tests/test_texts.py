"""Labelled texts by domain: the splits, what is refused of a domain, where they come from, the command that checks."""

import hashlib
import io
import json
import re
import tarfile
from collections import Counter

import numpy as np
import pytest
from conftest import write_squad
from served import Served

from helpers import __main__ as cli
from helpers import checks, paths
from helpers.data import originals, splits, texts
from helpers.data.examples import DataError
from helpers.data.formats.labelled import Labelled
from helpers.data.mini import domains as mini
from helpers.data.sections import fingerprint
from helpers.presets.downloads import Collection
from helpers.presets.load import load
from helpers.presets.schema import TextsSettings

REVIEWS = ("books", "dvd", "electronics", "kitchen")
TABLE_1 = {
    "books": (1631, 170, 199),
    "dvd": (1621, 194, 185),
    "electronics": (1615, 172, 213),
    "kitchen": (1613, 184, 203),
}
POLAR = ["negative", "positive"]


def records(*labels, texts=None):
    texts = texts or [f"text {number}" for number in range(len(labels))]
    return [Labelled("", str(n), text, None, label) for n, (text, label) in enumerate(zip(texts, labels, strict=True))]


def rows(path, *given):
    """A file of lines of JSON: a text and its label each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in given))


def many(size, begin="text", labels=POLAR):
    return [(f"{begin} {number}", labels[number % len(labels)]) for number in range(size)]


def settings(folder, *domains, **other):
    given = {"folder": str(folder), "domains": {name: name for name in domains}, "labels": POLAR}
    return TextsSettings(**(given | other))


def sizes(domain):
    return len(domain.train), len(domain.valid), len(domain.test)


def first_of(pairs):
    return [pair.first for pair in pairs]


# -------------------------------------------------------------------------------------------------- split by content


@pytest.mark.parametrize(
    ("number", "train", "valid"),
    [(77348, 69613, 7735), (77350, 69615, 7735), (77306, 69575, 7731), (83348, 75013, 8335)],
)
def test_a_tenth_of_mnlis_genres_is_that_of_table_1(number, train, valid):
    tenth, rest = texts._tenth(records(*("ccen" * number)[:number]), 0)
    assert (len(rest), len(tenth)) == (train, valid)


def test_labels_share_what_is_taken():
    known = records(*"a" * 60, *"b" * 33, *"c" * 7)
    taken, rest = splits.by_content(known, 10, seed=0)
    # Quotas 6, 3.3 and 0.7: the seat that is over goes to the largest remainder.
    assert Counter(record.label for record in taken) == {"a": 6, "b": 3, "c": 1}
    assert sorted(taken + rest) == sorted(known)
    # Of quotas 5.4 and 0.6 the second has the larger remainder, but there is one "b" alone, and it stays.
    taken, _ = splits.by_content(records(*"a" * 9, "b"), 6, seed=0)
    assert Counter(record.label for record in taken) == {"a": 6}


def test_the_order_of_a_file_does_not_matter_and_the_seed_does():
    known = records(*"ab" * 50)
    taken, _ = splits.by_content(known, 10, seed=0)
    assert splits.by_content(known[::-1], 10, seed=0)[0] == taken
    assert splits.by_content(known, 10, seed=1)[0] != taken
    assert splits.in_order(known[::-1], 0) == splits.in_order(known, 0) != splits.in_order(known, 1)


def test_equal_texts_stay_together_and_sizes_are_kept():
    known = records(*"ab" * 50, texts=[f"text {number // 4}" for number in range(80)] + [f"one {n}" for n in range(20)])
    for seed in range(20):
        taken, rest = splits.by_content(known, 10, seed)
        assert len(taken) == 10
        assert not {record.first for record in taken} & {record.first for record in rest}
    # Two seats, one a label; the texts of "a" come in twos and do not fit theirs.
    twos = records(*"a" * 10, *"b" * 10, texts=[f"text {n // 2}" for n in range(10)] + [f"one {n}" for n in range(10)])
    assert [record.label for record in splits.by_content(twos, 2, seed=0)[0]] == ["b", "b"]
    taken, rest = splits.by_content(records(*"ab" * 5, texts=["same"] * 10), 1, seed=0)
    assert (len(taken), len(rest)) == (0, 10)


def test_one_file_gives_a_tenth_and_a_tenth_of_the_rest(tmp_path):
    rows(tmp_path / "news.jsonl", *many(200))
    domain = texts.load_texts(settings(tmp_path, "news"))["news"]
    assert sizes(domain) == (162, 18, 20)
    assert all(
        Counter(pair.label for pair in part) == {0: n, 1: n} for part, n in ((domain.test, 10), (domain.valid, 9))
    )
    assert all(pair.label == int(pair.first.split()[1]) % 2 for pair in domain.train)
    assert [note.split(";")[0] for note in domain.notes if "warning" in note] == [
        "warning: news: 18 texts to validate on place an accuracy only within ±23 points",
        "warning: news: 20 texts to test on place an accuracy only within ±22 points",
    ]


def test_labels_that_are_nearly_the_same_are_warned_of(tmp_path):
    rows(tmp_path / "news.jsonl", *many(500, labels=("good", "Good", "bad", "1", "1.0")))
    notes = texts.load_texts(settings(tmp_path, "news", labels=[]))["news"].notes
    alike = [note for note in notes if "classes of their own" in note]
    assert [note.split(" are ")[0] for note in alike] == [
        "warning: news: the labels '1' and '1.0'",
        "warning: news: the labels 'Good' and 'good'",
    ]


def test_the_front_of_train_has_all_labels(tmp_path):
    """Drawing by label leaves the hashes of one label beginning later, so another hash orders."""
    rows(tmp_path / "news.jsonl", *many(2000))
    for seed in range(5):
        domain = texts.load_texts(settings(tmp_path, "news", seed=seed, train_share=0.01))["news"]
        assert len(domain.train) == 16 and 3 <= sum(pair.label for pair in domain.train) <= 13


def test_train_and_dev_give_all_three(tmp_path):
    rows(tmp_path / "news.train.jsonl", *many(105))
    rows(tmp_path / "news.dev_matched.jsonl", *many(60, "other"))
    domain = texts.load_texts(settings(tmp_path, "news"))["news"]
    assert sizes(domain) == (94, 11, 60)
    assert set(first_of(domain.test)) == {text for text, _ in many(60, "other")}
    assert "news: no test file: valid (dev) is used to test" in domain.notes


def test_three_files_stay_as_they_are_and_what_they_share_is_said(tmp_path):
    for part, begin in (("train", "text"), ("valid", "text"), ("test", "other")):
        rows(tmp_path / f"news/{part}.jsonl", *many(60 if part == "train" else 50, begin))
    domain = texts.load_texts(settings(tmp_path, "news"))["news"]
    assert sizes(domain) == (60, 50, 50)
    assert domain.notes == [
        "news: ids that stood there before have a number behind them: 50",
        "news: texts that stand in both train and valid: 50",
    ]


def test_cuts_are_from_the_front_and_smaller_ones_are_subsets(tmp_path):
    rows(tmp_path / "news.jsonl", *many(1000))
    whole = texts.load_texts(settings(tmp_path, "news"))["news"]
    cut = texts.load_texts(settings(tmp_path, "news", train_size=200, train_share=0.3, valid_size=60, test_size=500))[
        "news"
    ]
    assert cut.train == whole.train[:60] and cut.valid == whole.valid[:60] and cut.test == whole.test
    assert "news: 200 of 810 texts of train are used (train_size)" in cut.notes
    assert "news: 60 of 200 texts of train are used (train_share)" in cut.notes
    assert "news: test_size=500 was asked for, there are 100: all are used" in cut.notes
    one = texts.load_texts(settings(tmp_path, "news", train_share=0.0001))["news"]
    assert one.train == whole.train[:1] and one.test == whole.test
    other = "positive" if one.train[0].label == 0 else "negative"
    assert f"warning: news: no text that is trained on is labelled {other}" in one.notes
    assert any(note.startswith("warning: news: 1 texts to train on") for note in one.notes)


def test_ids_occur_once_in_a_domain(tmp_path):
    for part in ("train", "valid", "test"):
        lines = [{"id": n % 40, "text": f"{part} {n}", "label": n % 2} for n in range(60)]
        (tmp_path / f"news.{part}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    domain = texts.load_texts(settings(tmp_path, "news"))["news"]
    ids = [pair.id for part in (domain.train, domain.valid, domain.test) for pair in part]
    assert len(set(ids)) == 180 and {"0", "0.2", "0.3", "0.6"} <= set(ids)
    assert "news: ids that stood there before have a number behind them: 140" in domain.notes


# ------------------------------------------------------------------------------------------------------- split jointly


def placeholders(folder, size=1000):
    """Reviews that are but their numbers."""
    for domain in REVIEWS:
        (folder / domain).mkdir()
        for label in POLAR:
            reviews = (
                f"<review>\n<review_text>\n{domain} {label} {n}\n</review_text>\n</review>\n" for n in range(size)
            )
            (folder / domain / f"{label}.review").write_text("".join(reviews))


def test_metakds_split_has_the_sizes_of_table_1(tmp_path):
    placeholders(tmp_path)
    loaded = texts.load_texts(settings(tmp_path, *REVIEWS, split="joint"))
    assert {name: sizes(domain) for name, domain in loaded.items()} == TABLE_1
    assert texts.load_texts(settings(tmp_path, *REVIEWS, split="joint", seed=7)) == loaded
    place = {row: number for number, row in enumerate(np.random.RandomState(11111).permutation(8000))}
    for number, (name, domain) in enumerate(loaded.items()):
        kinds = {f"{name} positive": 2000 * number, f"{name} negative": 2000 * number + 1000}
        for part in (domain.train, domain.valid, domain.test):
            texts_of = [pair.first.rpartition(" ") for pair in part]
            places = [place[kinds[kind] + int(text)] for kind, _, text in texts_of]
            assert places == sorted(places)
    for domain in loaded.values():
        assert {pair.first.split()[1]: pair.label for pair in domain.test} == {"negative": 0, "positive": 1}
        assert not set(first_of(domain.train)) & set(first_of(domain.test))


def test_the_real_reviews_split_so_too(shared):
    given = settings(shared / "data/nlu/amazon-reviews", *REVIEWS, split="joint")
    loaded = texts.load_texts(given)
    assert {name: sizes(domain) for name, domain in loaded.items()} == TABLE_1
    for domain in loaded.values():
        pairs = [*domain.train, *domain.valid, *domain.test]
        assert Counter(pair.label for pair in pairs) == {0: 1000, 1: 1000} and len({pair.id for pair in pairs}) == 2000
        assert all(pair.second is None and pair.first.strip() and "<review" not in pair.first for pair in pairs)
    share = given.model_copy(update={"train_share": 0.1})
    assert texts.load_texts(share)["dvd"].train == loaded["dvd"].train[:162]


def test_files_with_parts_or_few_texts_cannot_be_split_jointly(tmp_path):
    placeholders(tmp_path, 2)
    with pytest.raises(DataError, match='split = "joint" needs 20 texts of each label, and 8 are labelled positive'):
        texts.load_texts(settings(tmp_path, *REVIEWS, split="joint"))
    rows(tmp_path / "news.train.jsonl", *many(50))
    rows(tmp_path / "news.test.jsonl", *many(50))
    with pytest.raises(DataError, match='news: its files say parts already; set split = "content" in the preset'):
        texts.load_texts(settings(tmp_path, "books", "news", split="joint"))


# --------------------------------------------------------------------------------------------------- labels, refusals


def test_labels_are_those_to_train_on_sorted(tmp_path):
    rows(tmp_path / "a.jsonl", *many(100, labels=["z", "m"]))
    rows(tmp_path / "b.jsonl", *many(100, labels=["z", "a"]))
    given = settings(tmp_path, "a", "b", labels=[])
    assert texts.label_names(given) == ("a", "m", "z")
    assert {pair.label for pair in texts.load_texts(given)["a"].train} == {1, 2}
    assert texts.label_names(settings(tmp_path, "a", labels=["z", "m"])) == ("z", "m")


def test_a_label_that_only_test_has_is_refused(tmp_path):
    rows(tmp_path / "a.train.jsonl", *many(60))
    rows(tmp_path / "a.test.jsonl", *many(60), ("odd", "mixed"))
    for labels in ([], ["negative", "mixed", "positive"]):
        with pytest.raises(
            DataError, match=r"a: .*a.test.jsonl: line 61: no text to train on is labelled mixed, as this"
        ):
            texts.load_texts(settings(tmp_path, "a", labels=labels))
    with pytest.raises(
        DataError, match=r"a.test.jsonl: 1 of 61 records refused: line 61: the label 'mixed' is none of"
    ):
        texts.load_texts(settings(tmp_path, "a"))


@pytest.mark.parametrize(
    ("names", "given", "says"),
    [
        (["a.jsonl"], many(60, labels=["positive"]), "a: every text is labelled positive; give texts of at least two"),
        (["a.jsonl"], many(2), "a: too small to split: of 2 texts none is left for train; give more, or train, valid"),
        (["a.jsonl"], [("same", "positive"), ("same", "negative")] * 9, "of 18 texts none is left for valid"),
        (
            ["a.dev.jsonl", "a.test.jsonl"],
            many(60),
            "a: no file to train on, only valid, test; give one whose name says",
        ),
        (["a.train.jsonl", "a.trn.jsonl"], many(60), "it is not clear which part a.trn.jsonl is"),
        ([], [], "no domain 'a' here"),
    ],
)
def test_domains_that_are_refused(tmp_path, names, given, says):
    for name in names:
        rows(tmp_path / name, *given)
    with pytest.raises(DataError) as refused:
        texts.load_texts(settings(tmp_path, "a"))
    assert says in str(refused.value)


def test_where_nothing_is_given(tmp_path):
    assert not TextsSettings().is_given and not settings("", "a").is_given
    assert settings("x", "a").is_given and settings("", "a", source="mini").is_given
    with pytest.raises(
        DataError, match="the preset has no labelled texts here: name domains, and for files their fold"
    ):
        texts.load_texts(settings("", "a"))
    with pytest.raises(
        DataError, match=r"the folder of domains is '.*nowhere', which is no folder; give the one that holds"
    ):
        texts.load_texts(settings(tmp_path / "nowhere", "a"))


def test_a_fingerprint_is_of_texts_labels_and_parts(tmp_path):
    for name in ("a", "b"):
        rows(tmp_path / f"{name}.jsonl", *many(100))
    given = settings(tmp_path, "a", "b")
    whole = fingerprint(given, "a")
    assert fingerprint(given, "b") == whole and len(whole) == 16
    fewer = given.model_copy(update={"train_size": 50})
    assert fingerprint(fewer, "a") != whole
    assert fingerprint(fewer, "a", "test") == fingerprint(given, "a", "test")
    turned = given.model_copy(update={"labels": POLAR[::-1]})
    assert fingerprint(turned, "a", "test") != fingerprint(given, "a", "test")


# ------------------------------------------------------------------------------------------------------- other sources


def test_the_real_genres_of_mnli(shared):
    labels = ["contradiction", "entailment", "neutral"]
    given = settings(shared / "data/nlu/mnli-genres", "fiction", "telephone", labels=labels)
    fiction, telephone = texts.load_texts(given).values()
    assert sizes(fiction) == (2292, 255, 1973) and sizes(telephone) == (2478, 276, 1966)
    pair = next(pair for pair in fiction.test if pair.first.startswith("You and your friends are not welcome here"))
    assert (pair.second, pair.label) == ("Severn said the people were not welcome there.", 1)
    assert fiction.notes[0] == "fiction: no test file: valid (dev) is used to test"


def test_miniature_texts():
    from helpers.data.mini import texts as world

    name = next(iter(world.REVIEWS))
    given = TextsSettings(source="mini", domains={"own": name}, train_size=40, valid_size=10, test_size=20)
    domain = texts.load_texts(given)["own"]
    assert domain.name == "own" and sizes(domain) == (40, 10, 20) and domain.notes == []
    assert texts.label_names(given) == tuple(world.labels(name))
    half = texts.load_texts(given.model_copy(update={"train_share": 0.5}))["own"]
    assert half.train == domain.train[:20]
    with pytest.raises(DataError, match=r"own: expected the labels .*, found bad, good; correct labels"):
        texts.load_texts(given.model_copy(update={"labels": ["bad", "good"]}))


def test_genres_of_a_dataset(tmp_path):
    labels = ["contradiction", "entailment", "neutral"]
    for split, size in (("train", 120), ("validation", 90)):
        lines = [
            {"premise": f"{split} {n}", "hypothesis": "h", "label": n % 3, "genre": ("fiction", "travel")[n % 2]}
            for n in range(size)
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    given = TextsSettings(source="hub", domains={"Fiction": f"{tmp_path}:fiction"}, labels=labels)
    domain = texts.load_texts(given)["Fiction"]
    assert sizes(domain) == (54, 6, 45)
    assert all(int(pair.first.split()[1]) % 2 == 0 for pair in domain.train)
    assert {int(pair.first.split()[1]) % 3: pair.label for pair in domain.test} == {0: 1, 1: 2, 2: 0}
    with pytest.raises(DataError, match="no labelled text of the genre 'slate'; there are 'fiction', 'travel'"):
        texts.load_texts(given.model_copy(update={"domains": {"Slate": f"{tmp_path}:slate"}}))


def archive(members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    with (served := Served(tmp_path / "served")).server:
        yield served
        served.server.shutdown()


def test_reviews_from_the_archive_of_their_authors(tmp_path, server):
    given = load("paper").reviews
    file = given.downloads["amazon-reviews"].corpora["texts"].files["domain_sentiment_data.tar.gz"]
    assert file.members["kitchen.negative.review"] == "sorted_data_acl/kitchen_&_housewares/negative.review"
    contents = {}
    for here, inside in file.members.items():
        domain, label, _ = here.split(".")
        reviews = (f"<review>\n<review_text>\n{domain} {label} {n}\n</review_text>\n</review>\n" for n in range(1000))
        contents[inside] = "".join(reviews).encode()
    served = server.file("reviews.tar.gz", archive(contents), members=file.members)
    known = given.downloads["amazon-reviews"].corpora["texts"]

    def changed(**rows):
        corpus = {"rows": known.rows | rows, "files": {"domain_sentiment_data.tar.gz": served.model_dump()}}
        downloads = {"amazon-reviews": Collection.model_validate({"corpora": {"texts": corpus}})}
        return given.model_copy(update={"downloads": downloads})

    loaded = texts.load_texts(changed())
    assert list(loaded) == ["Books", "DVD", "Electronics", "Kitchen"]
    assert {name.lower(): sizes(domain) for name, domain in loaded.items()} == TABLE_1
    assert server.asked == ["/reviews.tar.gz"]
    with pytest.raises(
        DataError, match="amazon-reviews:texts:dvd: expected 1999 texts, as the preset says, found 2,000"
    ):
        texts.load_texts(changed(dvd=1999))


def test_nothing_of_an_archive_leads_outside_of_its_folder(tmp_path, server):
    content = archive({"../../evil.txt": b"evil", "good.txt": b"good"})
    file = server.file("a.tar.gz", content, members={"good": "good.txt", "evil": "../../evil.txt"})
    originals.fetch(file, tmp_path / "cache/x/c/a.tar.gz")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith(".")) == [
        "a.tar.gz",
        "a.tar.gz",
        "evil",
        "good",
    ]
    missing = server.file("b.tar.gz", content, members={"bad": "bad.txt"})
    with pytest.raises(DataError, match=r"b.tar.gz: .*bad.txt.*; expected a .tar.gz with bad.txt"):
        originals.fetch(missing, tmp_path / "cache/x/c/b.tar.gz")
    broken = server.file("c.tar.gz", content[:-20], members={"good": "good.txt"})
    with pytest.raises(DataError, match=r"c.tar.gz: .*; expected a .tar.gz with good.txt"):
        originals.fetch(broken, tmp_path / "cache/x/d/c.tar.gz")
    assert hashlib.sha256(content).hexdigest() == file.sha256


def test_preset_paper_knows_its_texts():
    paper = load("paper")
    assert list(paper.mnli.domains) == ["Fiction", "Government", "Slate", "Telephone", "Travel"]
    for section in (paper.mnli, paper.reviews):
        for source in section.domains.values():
            name, corpus, *domain = source.split(":")
            known = section.downloads[name]
            assert isinstance(known, Collection) is bool(domain)
            assert not domain or domain[0] in known.corpora[corpus].rows


def test_classes_that_look_like_scores_are_warned_of(tmp_path):
    lines = [f"text {n} {label},{label}\n" for n in range(200) for label in ("0.5", "2.0", "4.25")]
    (tmp_path / "news.csv").write_text("text,label\n" + "".join(lines))
    notes = texts.load_texts(settings(tmp_path, "news", labels=[]))["news"].notes
    assert "warning: news: the labels 0.5, 4.25 are read as classes, not as scores" in notes


def test_a_class_called_nan_is_warned_of(tmp_path):
    rows(tmp_path / "news.jsonl", *many(300, labels=("good", "bad", "nan")))
    notes = texts.load_texts(settings(tmp_path, "news", labels=[]))["news"].notes
    assert "warning: news: a class is called 'nan'; remove its records if they have no label" in notes


# -------------------------------------------------------------------------------------------------------- the command


def test_test_texts_that_another_domain_trains_on_are_warned_of(tmp_path, capsys):
    rows(tmp_path / "a/train.jsonl", *many(200))
    rows(tmp_path / "a/test.jsonl", *many(60, "other"))
    rows(tmp_path / "b/train.jsonl", *many(200, "more"))
    rows(tmp_path / "b/test.jsonl", *many(60))
    checks.print_texts("", settings(tmp_path, "a", "b"))
    said = [line for line in capsys.readouterr().out.splitlines() if "are trained on in" in line]
    (line,) = said
    assert re.match(r"  warning: b: \d+ of 60 test texts are trained on in a; leave them out there, or models", line)


def test_texts_are_checked_with_questions_or_alone(tmp_path, capsys):
    rows(tmp_path / "texts/fiction.train.jsonl", *many(200, labels=["entailment", "neutral", "contradiction"]))
    rows(tmp_path / "texts/fiction.test.jsonl", *many(100, "other", labels=["entailment", "neutral", "contradiction"]))
    preset = (paths.PRESETS / "lab.toml").read_text().replace('name = "lab"', 'name = "mine"')
    for genre in ("government", "slate", "telephone", "travel"):
        preset = preset.replace(f'{genre} = "{genre}"\n', "")
    (tmp_path / "mine.toml").write_text(preset)
    asked = ["data", "--preset", str(tmp_path / "mine.toml"), "-p", "mnli.folder", str(tmp_path / "texts")]
    assert cli.main(asked) == 0
    said = capsys.readouterr()
    assert said.out.startswith("mnli: fiction: 180 train, 20 valid, 100 test texts\n  train: contradiction 33%, ent")
    assert "  test: contradiction 33%, entailment 34%, neutral 33%\n" in said.out
    assert "  warning: fiction: 20 texts to validate on place an accuracy only within ±22 points" in said.out
    assert said.out.endswith("reviews: no folder is given (-p reviews.folder path/to/texts)\n")

    for name in ("wikipedia", "amazon", "reddit", "news", "policy", "stories"):
        write_squad(tmp_path / name / "all.json", mini.load_domain("news", train_size=500).train)
    with (tmp_path / "texts/fiction.train.jsonl").open("a") as file:
        file.write('{"text": "bad", "label": "perhaps"}\n')
    texts._load.cache_clear()
    assert cli.main([*asked, "-p", "data_dir", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "wikipedia: " in said.out and "mnli" not in said.out
    assert said.err.startswith("mnli: ") and "line 201: the label 'perhaps' is none of contradiction, ent" in said.err


def test_pairs_and_texts_alone_do_not_go_together(tmp_path):
    (tmp_path / "one.csv").write_text("text,label\n" + "".join(f"word {n},{'ab'[n % 2]}\n" for n in range(40)))
    lines = "".join(f"word {n},other {n},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "two.csv").write_text("premise,hypothesis,label\n" + lines)
    given = TextsSettings(folder=str(tmp_path), domains={"one": "one.csv", "two": "two.csv"})
    with pytest.raises(DataError, match="two has pairs of texts, one texts alone; all domains have to be of one kind"):
        texts.load_texts(given)


def test_a_name_may_have_a_colon(tmp_path):
    (tmp_path / "a:b").mkdir()
    (tmp_path / "a:b/c.csv").write_text("text,label\n" + "".join(f"word {n},{'ab'[n % 2]}\n" for n in range(40)))
    assert texts.load_texts(TextsSettings(folder=str(tmp_path), domains={"one": "a:b/c.csv"}))["one"].train
