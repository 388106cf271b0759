"""The tasks of a multi-task model: their parts, where they come from, what they are scored by."""

import datasets
import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from scipy import stats
from task_files import CODAH, LAYOUTS, write_choices, write_task

from helpers.classification import label_scores
from helpers.data.examples import DataError
from helpers.data.load import fingerprint_examples, load, load_domains
from helpers.presets.schema import TasksSettings

REAL = {  # train and dev
    "CoLA": (8551, 1043),
    "SST-2": (67349, 872),
    "MRPC": (3667, 408),  # this copy has lost a row of 3,668
    "STS-B": (5749, 1500),
    "RTE": (2490, 277),
    "WNLI": (635, 71),
}
LEFT_OUT = {"CoLA": 17, "MRPC": 110, "STS-B": 54}  # of train: STS-B has pairs of MRPC, and CoLA repeats sentences


def settings(folder, *names, **other):
    return TasksSettings(**{"folder": str(folder), "tasks": {name: name for name in names}} | other)


def sizes(task):
    return len(task.train), len(task.valid), len(task.test), len(task.unlabelled)


def ids(pairs):
    return [pair.id for pair in pairs]


@pytest.fixture
def official(tmp_path):
    """A folder with the files of all tasks of GLUE."""
    for name in LAYOUTS:
        write_task(tmp_path / name, name)
    return tmp_path


def test_dev_is_the_test_part_and_a_tenth_of_train_is_valid(official):
    loaded = load_domains(settings(official, *LAYOUTS))
    assert list(loaded) == list(LAYOUTS)
    for name, task in loaded.items():
        assert (task.name, sizes(task)) == (name, (54, 6, 30, 5))
        assert all(pair.first.startswith('"dev') for pair in task.test)
        assert f"{name}: 6 texts to validate on were drawn from train" in task.notes
        # Texts are numbered in their order, and so are labels, in turn.
        values = [0.0, 2.25, 5.0] if task.kind == "score" else range(len(task.labels))
        order = LAYOUTS[name][-1].split()
        expected = [values[task.labels.index(label)] if label in task.labels else float(label) for label in order]
        for pair in [*task.train, *task.valid, *task.test]:
            assert pair.label == expected[int(pair.first.split()[1]) % len(order)]


def test_unlabelled_texts_are_cut_from_the_front_of_one_order(official):
    whole = load(settings(official, "QQP"), "QQP")
    limits = {"train_size": 20, "valid_size": 4, "test_size": 10, "unlabelled_size": 3}
    small = load(settings(official, "QQP", **limits), "QQP")
    assert sizes(small) == (20, 4, 10, 3)
    assert small.unlabelled == whole.unlabelled[:3]
    assert sorted(ids(whole.unlabelled)) == list("01234") != ids(whole.unlabelled)


def test_a_fingerprint_is_that_of_texts_and_labels(official):
    of_both, longer = settings(official, "CoLA", "WNLI"), settings(official, "CoLA", max_length=64)
    before = fingerprint_examples(of_both, "CoLA")
    assert (
        before
        == fingerprint_examples(of_both, "CoLA", "train", "valid", "test")
        == fingerprint_examples(longer, "CoLA")
    )
    assert len({fingerprint_examples(of_both, "CoLA", part) for part in ("train", "valid", "test", "unlabelled")}) == 4
    file = official / "CoLA/dev.tsv"
    file.write_text(file.read_text().replace("gj04\t1", "gj04\t0", 1))
    assert fingerprint_examples(settings(official, "CoLA", max_length=32), "CoLA") != before


def test_choices(tmp_path):
    write_choices(tmp_path / "codah", "", CODAH, train_tsv=60, dev_tsv=50, test_tsv=50)
    codah = settings(tmp_path, tasks={"endings": "codah:codah"}, train_size=55)
    task = load(codah, "endings")
    assert (task.kind, task.labels, task.metrics) == ("choices", (), ("accuracy",))
    assert sizes(task) == (55, 50, 50, 0)
    assert all(choice.label == int(choice.context.split()[3]) % 4 for choice in task.test)


def test_places_that_are_none(tmp_path):
    assert not settings("").has_source and not settings("", "CoLA").has_source
    assert settings(tmp_path, "CoLA").has_source
    assert settings("", tasks={"CoLA": "nyu-mll/glue:cola"}, source="hub").has_source
    refused = {
        "cola:CoLA": "'cola' is no format of CoLA, SST-2, .*, texts; write FORMAT:place",
        "CoLA:nowhere": "nowhere: expected train.tsv, dev.tsv, found none of them",
        "nowhere": "nowhere: no data file; expected .json, .*, found nothing",
    }
    for value, says in refused.items():
        with pytest.raises(DataError, match=says):
            load(settings(tmp_path, tasks={"own": value}), "own")
    with pytest.raises(DataError, match=r"'nowhere' is not a folder; name the one that holds CoLA, RTE"):
        load(settings("nowhere", "CoLA", "RTE"), "RTE")


def hub_split(first, second, label, begin, size, label_of=None):
    """A split as nyu-mll/glue has it, ``label_of(n)`` its labels."""
    texts = {name: [f"{begin} {n}" for n in range(size)] for name in (first, second)}
    values = {**texts, "label": [label_of(n) if label_of else -1 for n in range(size)], "idx": range(size)}
    features = {first: Value("string"), second: Value("string"), "label": label, "idx": Value("int32")}
    return Dataset.from_dict({name: list(column) for name, column in values.items()}, Features(features))


@pytest.fixture
def dataset(monkeypatch):
    """Two tasks of GLUE and SWAG, split by split, where `datasets` would fetch them."""
    inference = ("premise", "hypothesis", ClassLabel(names=["entailment", "neutral", "contradiction"]))
    similarity = ("sentence1", "sentence2", Value("float32"))
    ending = {"startphrase": "He", **{f"ending{n}": f"ends {n}" for n in range(4)}}
    splits = {
        "mnli": {
            "train": hub_split(*inference, "train", 60, lambda n: n % 3),
            "validation_matched": hub_split(*inference, "dev", 30, lambda n: n % 3),
            "test_matched": hub_split(*inference, "test", 5),
        },
        "stsb": {
            "train": hub_split(*similarity, "train", 60, lambda n: 3.8),
            "validation": hub_split(*similarity, "dev", 30, lambda n: 5.0),
            "test": hub_split(*similarity, "test", 5),
        },
        "regular": {
            "train": Dataset.from_list([ending | {"startphrase": f"He {n}", "label": n % 5 - 1} for n in range(50)]),
            "validation": Dataset.from_list([ending | {"startphrase": f"She {n}", "label": n % 4} for n in range(8)]),
        },
    }
    monkeypatch.setattr(datasets, "load_dataset", lambda path, name, split, **_: splits[name][split])
    return splits


def test_tasks_on_the_hub(dataset):
    places = {"inference": "nyu-mll/glue:mnli", "STS-B": "nyu-mll/glue:stsb", "swag": "allenai/swag:regular"}
    inference, similarity, swag = load_domains(TasksSettings(source="hub", tasks=places)).values()
    assert sizes(inference) == (54, 6, 30, 5) and sizes(similarity) == (54, 6, 30, 5)
    assert all(pair.label == int(pair.first.split()[1]) % 3 for pair in inference.train)
    assert {pair.label for pair in similarity.train} == {3.8} and similarity.kind == "score"
    assert {pair.label for pair in inference.unlabelled + similarity.unlabelled} == {None}
    assert sizes(swag) == (36, 4, 8, 0) and swag.kind == "choices"
    assert all(choice.label == int(choice.context.split()[1]) % 5 - 1 for choice in swag.train)


def test_what_is_no_task_on_the_hub(dataset):
    dataset["mnli"]["train"] = dataset["mnli"]["train"].remove_columns("premise")
    refused = {
        "nyu-mll/glue": "'nyu-mll/glue' names no configuration of cola, .*, wnli, regular; write dataset",
        "nyu-mll/glue:CoLA": "'nyu-mll/glue:CoLA' names no configuration of cola",
        "nyu-mll/glue:mnli": r"glue:mnli\[train\]: 60 of 60 records rejected:\n  row 1 and 59 more: expected a column",
    }
    for value, message in refused.items():
        with pytest.raises(DataError, match=message):
            load(TasksSettings(source="hub", tasks={"one": value}), "one")


def test_metrics_are_those_of_the_references(official):
    several = ("accuracy", "f1")
    metrics = {"CoLA": ("matthews",), "MRPC": several, "QQP": several, "STS-B": ("pearson", "spearman")}
    loaded = load_domains(settings(official, *LAYOUTS))
    assert {name: task.metrics for name, task in loaded.items()} == dict.fromkeys(LAYOUTS, ("accuracy",)) | metrics
    truth = [pair.label for pair in loaded["STS-B"].test]
    predictions = np.random.default_rng(0).random(len(truth))
    for metric, reference in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        expected = 100 * reference(truth, predictions).statistic
        assert label_scores(loaded["STS-B"].test, predictions)[metric] == pytest.approx(expected)


def test_the_real_files_of_glue(shared):
    loaded = load_domains(settings(shared / "data/nlu/glue", *REAL))
    for name, (train, dev) in REAL.items():
        task, left = loaded[name], train - LEFT_OUT.get(name, 0)
        assert (len(task.train) + len(task.valid), len(task.test)) == (left, dev)
        assert len(task.valid) == left - left * 9 // 10
    acceptable = {pair.first: pair.label for pair in loaded["CoLA"].test}
    assert acceptable["The sailors rode the breeze clear of the rocks."] == 1
    score = {(pair.first, pair.second): pair.label for pair in loaded["STS-B"].test}
    assert score["A young child is riding a horse.", "A child is riding a horse."] == 4.75
