"""Questions split into domains, and those of the Hub."""

import itertools
import json
import os
import subprocess
import sys

import datasets
import pytest
from qa_files import CONTEXT, question, write_many, write_narrativeqa, write_squad

from helpers.data import warnings
from helpers.data.domains import load_one
from helpers.data.examples import DataError
from helpers.data.formats import hub
from helpers.data.questions import load_domain, read, sample
from helpers.presets.schema import DataSettings

# ------------------------------------------------------------------------------------------------------- domains


def parts(domain):
    return domain.train, domain.valid, domain.test


def contexts(examples):
    return {example.context for example in examples}


def ids(examples):
    return [example.id for example in examples]


def test_split_of_one_file_is_disjoint_by_passage_and_complete(tmp_path):
    path = write_many(tmp_path / "d.json", 30, each=3)
    domain = load_domain("d", path, seed=0, valid_size=10)
    train, valid, test = map(contexts, parts(domain))
    assert not (train & valid or train & test or valid & test)
    assert sorted(ids(itertools.chain(*parts(domain)))) == sorted(ids(read(path).examples))
    assert (len(domain.valid), len(domain.test)) == (12, 18)  # whole passages: 10 rounded up to 3s; 20% of 90
    assert domain.notes[-1] == "d: questions: train 60 on 20 passages, valid 12 on 4 passages, test 18 on 6 passages"


def test_a_domain_whose_answers_have_no_place_cannot_be_trained_on(tmp_path):
    rows = [("d1", part, "Who slept?", "nobody", "no one") for part in ("train", "train", "valid", "test")]
    write_narrativeqa(tmp_path / "stories", rows)
    with pytest.raises(DataError, match="none of its 2 training questions has an answer with a place in its passage"):
        load_one(DataSettings(source="files", folder=str(tmp_path), domains={"stories": "stories"}), "stories")


def test_variants_of_a_question_stay_in_one_part(tmp_path):
    names = [(number, name) for number in range(30) for name in ("", "-turk0", "-turk1")]
    paragraphs = [(f"Here is {n}. {name}", [question(f"{n}{name}", answers=[("Here", 0)])]) for n, name in names]
    domain = load_domain("d", write_squad(tmp_path / "d.json", *paragraphs), seed=0, valid_size=10)
    groups = [{example.group for example in part} for part in parts(domain)]
    assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])


def test_split_depends_on_seed_and_not_on_file_order(tmp_path):
    path = write_many(tmp_path / "d.json", 30)
    data = json.loads(path.read_text())
    data["data"].reverse()
    for article in data["data"]:
        article["paragraphs"][0]["qas"].reverse()
    (tmp_path / "reversed.json").write_text(json.dumps(data))
    options = {"valid_size": 10, "train_size": 17, "test_size": 5}
    first = parts(load_domain("d", path, seed=0, **options))
    assert first == parts(load_domain("d", tmp_path / "reversed.json", seed=0, **options))
    first, second = (load_domain("d", path, seed=seed, valid_size=10) for seed in (0, 1))
    assert contexts(first.test) != contexts(second.test) and contexts(first.valid) != contexts(second.valid)


def test_split_is_the_same_in_every_process(tmp_path):
    write_many(tmp_path / "d.json", 30)
    code = (
        "from helpers.data.questions import load_domain; "
        "print([e.id for e in load_domain('d', 'd.json', seed=3, valid_size=10, train_size=9).train])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in "12"
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].strip() == str(
        ids(load_domain("d", tmp_path / "d.json", seed=3, valid_size=10, train_size=9).train)
    )


def test_reading_files_imports_nothing_large():
    large = {"torch", "datasets", "sklearn", "scipy", "pyarrow", "pandas"}
    code = f"import sys, helpers.data.questions; print({large} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_equal_passages_are_one_unit(tmp_path):
    paragraphs = [(f"Ada met Babbage{p % 6}.", [question(f"q{p}", answers=[("Ada", 0)])]) for p in range(24)]
    domain = load_domain("d", write_squad(tmp_path / "d.json", *paragraphs), seed=0, valid_size=4)
    train, valid, test = map(contexts, parts(domain))
    assert not (train & valid or train & test or valid & test)
    assert [len(part) % 4 for part in parts(domain)] == [0, 0, 0]


def test_smaller_samples_are_subsets_and_leave_the_rest_alone(tmp_path):
    path = write_many(tmp_path / "d.json", 40)
    loaded = {n: load_domain("d", path, seed=0, valid_size=10, train_size=n, test_size=n // 4) for n in (8, 20, 40)}
    for part in ("train", "test"):
        small, middle, large = (set(ids(getattr(loaded[n], part))) for n in (8, 20, 40))
        assert small < middle < large
    assert [len(loaded[n].train) for n in (8, 20, 40)] == [8, 20, 40]
    assert [len(loaded[n].test) for n in (8, 20, 40)] == [2, 5, 10]
    assert loaded[8].valid == loaded[40].valid


def test_sample_keeps_order(tmp_path):
    examples = read(write_many(tmp_path / "d.json", 10)).examples
    chosen = sample(examples, 7, seed=0)
    assert len(chosen) == 7 and chosen == [example for example in examples if example in chosen]
    assert chosen != sample(examples, 7, seed=1)


def test_a_size_that_is_too_large_is_noted(tmp_path):
    domain = load_domain("d", write_many(tmp_path / "d.json", 30), seed=0, valid_size=10, train_size=1000)
    assert "d: train_size=1,000 was asked for, there are 38: all are used" in domain.notes


def test_what_train_size_and_test_size_cut_is_noted(tmp_path):
    path = write_many(tmp_path / "d.json", 700)
    notes = load_domain("d", path, seed=0, train_size=500, test_size=120).notes
    assert "d: 500 of 820 training questions are used (train_size)" in notes
    assert "d: 120 of 280 test questions are used (test_size)" in notes
    assert not any(note.startswith("warning") or "are used" in note for note in load_domain("d", path, seed=0).notes)


def test_parts_too_small_to_say_anything_are_warned_of(tmp_path):
    path = write_many(tmp_path / "d.json", 120)
    assert warnings.of_questions(load_domain("d", path, seed=0, valid_size=66)) == [
        # 1.96 · 40 / √66 = 9.65 and, of 48 questions, 11.3
        "warning: d: 66 questions to validate on place an F1 only within ±10 points (95 %), and methods differ by "
        "less; raise valid_size, or give more data",
        "warning: d: 48 questions to test on place an F1 only within ±11 points (95 %), and methods differ by less; "
        "raise test_size, or give more data",
    ]
    few = warnings.of_questions(load_domain("d", path, seed=0, valid_size=100, train_size=34))
    assert few[0] == (
        "warning: d: 34 questions to train on are soon known by heart, and which ones they are decides the result; "
        "raise train_size, or give more data"
    )


def test_warnings_are_about_what_is_left_in_the_end(tmp_path):
    for part, passages in (("train", 400), ("dev", 100), ("test", 100)):
        write_many(tmp_path / "d" / f"{part}.json", passages, tag=part)
    data = {"source": "files", "folder": str(tmp_path), "domains": {"d": "d"}}
    assert not [n for n in load_one(DataSettings(**data), "d").notes if n.startswith("warning")]
    domain = load_one(DataSettings(**data, valid_size=20, train_share=0.01), "d")
    assert (len(domain.train), len(domain.valid)) == (8, 20)
    assert "d: 20 of 200 validation questions are used (valid_size)" in domain.notes
    assert "d: 8 of 800 training questions are used (train_share)" in domain.notes
    said = [note for note in domain.notes if note.startswith("warning: d: ")]
    assert [note.split()[2] for note in said] == ["8", "20"]


@pytest.mark.parametrize("names", [("trn", "val", "tst"), ("training", "dev", "testing")])
def test_parts_have_short_names(tmp_path, names):
    for name, count in zip(names, (9, 3, 4), strict=True):
        write_many(tmp_path / "d" / f"{name}.json", count, tag=name)
    domain = load_domain("d", tmp_path / "d", seed=0)
    assert [len(part) for part in parts(domain)] == [18, 6, 8]


def test_three_files_stay_as_they_are(tmp_path):
    for part, count in (("train", 9), ("dev-v1.1", 3), ("test", 4)):
        write_many(tmp_path / "d" / f"squad-{part}.json", count, tag=part)
    domain = load_domain("d", tmp_path / "d", seed=0)
    assert [len(part) for part in parts(domain)] == [18, 6, 8]
    assert {example.id[:3] for example in domain.valid} == {"dev"}
    files = {"train": "train", "valid": "dev-v1.1", "test": "test"}
    given = {part: read(tmp_path / f"d/squad-{name}.json") for part, name in files.items()}
    assert parts(load_domain("d", given, seed=0)) == parts(domain)


def test_without_test_file_dev_is_the_test_set(tmp_path):
    write_many(tmp_path / "d/train.json", 20, tag="train")
    write_many(tmp_path / "d/dev.json", 3, tag="dev")
    domain = load_domain("d", tmp_path / "d", seed=0, valid_size=5)
    assert {example.id[:3] for example in domain.test} == {"dev"}
    assert (len(domain.train), len(domain.valid), len(domain.test)) == (34, 6, 6)
    assert "d: no test file: valid (dev) is used to test" in domain.notes


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
    domain = load_domain("d", tmp_path / "d", seed=0)
    assert len(domain.train) == 10 and len(domain.valid) + len(domain.test) == 50
    document = {a["paragraphs"][0]["context"]: title for a, title in zip(data["data"], titles, strict=True)}
    valid, test = ({document[c] for c in contexts(part) - {shared}} for part in (domain.valid, domain.test))
    assert valid and test and not valid & test
    assert ("policy 0" in valid) == ("policy 5" in valid)


def test_passages_shared_by_the_files_are_noted(tmp_path):
    for part in ("train", "dev", "test"):
        write_many(tmp_path / f"d/{part}.json", 3 if part == "train" else 2, tag="same")
    notes = load_domain("d", tmp_path / "d", seed=0).notes
    assert "d: 2 passages stand in both train and test, as the files have it" in notes


def test_narrativeqa_domain_uses_its_sets(tmp_path):
    rows = [
        ("d1", part, f"Who {n} ?", "a girl", "the king")
        for part, n in (("train", 1), ("train", 2), ("valid", 3), ("test", 4))
    ]
    domain = load_domain("stories", write_narrativeqa(tmp_path / "stories", rows), seed=0)
    assert [len(part) for part in parts(domain)] == [2, 1, 1]


def test_domain_errors(tmp_path):
    with pytest.raises(DataError, match=r"tiny: too small to split: .* too few passages"):
        load_domain("tiny", write_many(tmp_path / "one.json", 1, each=9), seed=0, valid_size=2)
    with pytest.raises(DataError, match=r"tiny: too small to split: .* too few passages"):
        load_domain("tiny", write_many(tmp_path / "two.json", 2, each=9), seed=0, valid_size=2)
    with pytest.raises(DataError, match=r"tiny: too small to split: valid_size=300 leaves nothing .* of the 48"):
        load_domain("tiny", write_many(tmp_path / "d.json", 30), seed=0)
    with pytest.raises(ValueError, match="train_size has to be at least 1, not 0"):
        load_domain("tiny", tmp_path / "d.json", seed=0, train_size=0)


def test_ambiguous_and_empty_folders(tmp_path):
    write_many(tmp_path / "two/train-a.json", 3)
    write_many(tmp_path / "two/train-b.json", 3)
    with pytest.raises(DataError, match=r"two: it is not clear which part train-b\.json is"):
        load_domain("two", tmp_path / "two", seed=0)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"none: no domain here; it holds nothing; expected one"):
        load_domain("none", tmp_path / "none", seed=0)


# ----------------------------------------------------------------------------------------------------------- Hub


def test_hub_squad():
    row = {"id": "q1", "title": "Ada", "context": CONTEXT, "question": "Where?"}
    rows = [
        row | {"answers": {"text": ["London"], "answer_start": [36]}},
        row | {"id": "q2", "answers": {"text": [], "answer_start": []}},
    ]
    corpus = hub.from_rows(datasets.Dataset.from_list(rows), "squad_v2[train]", unanswerable=True)
    assert [(e.id, e.answers, e.span) for e in corpus.examples] == [("q1", ("London",), (36, 42)), ("q2", (), None)]
    with pytest.raises(
        DataError, match=r"squad_v2\[train\]: 1 of 2 records refused: row 2 \(id q2\): the question has no answer"
    ):
        hub.from_rows(datasets.Dataset.from_list(rows), "squad_v2[train]")
    rows[0]["answers"] = {"text": ["Paris"], "answer_start": [36]}
    with pytest.raises(
        DataError,
        match=r"x: 2 of 2 records refused:\s+row 1 \(id q1\), answer 1: 'Paris' does not stand in the context",
    ):
        hub.from_rows(datasets.Dataset.from_list(rows), "x")


def test_hub_mrqa():
    detected = {
        "text": ["London"],
        "char_spans": [{"start": [36], "end": [41]}],
        "token_spans": [{"start": [7], "end": [7]}],
    }
    row = {"subset": "NewsQA", "qid": "m1", "context": CONTEXT, "question": "Where?", "answers": ["London"]}
    corpus = hub.from_rows(datasets.Dataset.from_list([row | {"detected_answers": detected}]), "mrqa")
    (example,) = corpus.examples
    assert corpus.notes == []
    assert (example.id, example.answers, example.span) == ("m1", ("London",), (36, 42))


@pytest.mark.parametrize("pairs", [{"start": [36], "end": [41]}, [{"start": 36, "end": 41}]])
def test_hub_mrqa_whose_lists_are_lists(pairs):
    detected = [{"text": "London", "char_spans": pairs}]
    row = {"qid": "m1", "context": CONTEXT, "question": "Where?", "answers": ["London"], "detected_answers": detected}
    (example,) = hub.from_rows(datasets.Dataset.from_list([row]), "mrqa").examples
    assert CONTEXT[slice(*example.span)] == "London"
    row["detected_answers"] = [{"text": "London", "char_spans": [{"start": 36}]}]
    message = r"mrqa: 1 of 1 .* row 1 \(id m1\), detected answer 1, char span 1: expected \[first, last\], found {'st"
    with pytest.raises(DataError, match=message):
        hub.from_rows(datasets.Dataset.from_list([row]), "mrqa")


def test_hub_answers_of_unequal_lengths():
    answers = {"text": ["London", "in London"], "answer_start": [36]}
    row = {"id": "q1", "context": CONTEXT, "question": "Where?", "answers": answers}
    with pytest.raises(
        DataError,
        match=r"x: 1 of 1 .* row 1 \(id q1\): expected 'answers' to be lists of one length \(2 in 'text' and 1 in",
    ):
        hub.from_rows(datasets.Dataset.from_list([row]), "x")


def test_hub_narrativeqa():
    row = {
        "document": {"id": "d1", "text": "long", "summary": {"text": "A young girl slept .", "tokens": ["A"]}},
        "question": {"text": "Who ?", "tokens": ["Who", "?"]},
        "answers": [{"text": "young girl", "tokens": []}, {"text": "She", "tokens": []}],
    }
    (example,) = hub.from_rows(datasets.Dataset.from_list([row]), "narrativeqa").examples
    assert (example.question, example.answers, example.span) == ("Who ?", ("young girl", "She"), (2, 12))


def test_hub_errors(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"x: expected the columns id, context, question and answers .* found 'text'"):
        hub.from_rows(datasets.Dataset.from_list([{"text": "x"}]), "x")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    row = {"id": "q1", "context": CONTEXT, "question": "Where?", "answers": {"text": ["Ada"], "answer_start": [0]}}
    (tmp_path / "local").mkdir()
    datasets.Dataset.from_list([row]).to_parquet(tmp_path / "local/train.parquet")
    assert ids(hub.load_hub(str(tmp_path / "local"), "train").examples) == ["q1"]
    with pytest.raises(DataError, match="local, split 'nothing', configuration None: Unknown split"):
        hub.load_hub(str(tmp_path / "local"), "nothing")


def test_hub_out_of_reach(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"rajpurkar/squad: the Hub cannot be reached .*connect to the network"):
        hub.load_hub("rajpurkar/squad", "train")


# ----------------------------------------------------------------------------------------------------- real data


def test_real_domains(shared):
    names = ["wikipedia", "amazon", "reddit", "news", "policy", "stories"]
    for name in names:
        domain = load_domain(name, shared / "data/qa" / name, seed=0, train_size=1000, test_size=500)
        assert (len(domain.train), len(domain.test)) == (1000, 500)
        train, valid, test = map(contexts, parts(domain))
        assert not train & test and not valid & test
        # Two passages of the policies' test file stand in its dev file, too.
        assert len(train & valid) <= (2 if name == "policy" else 0)
        if name not in ("policy", "stories"):
            assert 300 <= len(domain.valid) < 320
