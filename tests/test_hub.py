"""Datasets on the Hub: as it lays them out, at a revision, checked; and whatever can go wrong with them."""

from functools import partial

import datasets
import httpx
import pyarrow
import pytest
from datasets import Features, Value
from datasets import exceptions as broken

from helpers.data.domains import load_one
from helpers.data.examples import DataError
from helpers.data.formats import hub
from helpers.presets.downloads import PARQUET_COPY
from helpers.presets.load import load
from helpers.presets.schema import DataSettings

REVISION = "a" * 40
PAPER = load("paper")
DOWNLOADS = PAPER.data.downloads | PAPER.mnli.downloads | PAPER.tasks.downloads
CONTEXT = "Ada Lovelace was born in 1815 and in London she died."
TEXTS = datasets.List(Value("string"))


def sequence(**parts):
    """How the Hub's older cards have a list of objects: as an object of lists."""
    return datasets.Sequence(parts)


TOKENS = sequence(tokens=Value("string"), offsets=Value("int32"))
PAIRS = sequence(start=Value("int32"), end=Value("int32"))
SQUAD = {
    **{name: Value("string") for name in ("id", "title", "context", "question")},
    "answers": sequence(text=Value("string"), answer_start=Value("int32")),
}
MRQA = {
    **{name: Value("string") for name in ("subset", "context")},
    "context_tokens": TOKENS,
    **{name: Value("string") for name in ("qid", "question")},
    "question_tokens": TOKENS,
    "detected_answers": sequence(text=Value("string"), char_spans=PAIRS, token_spans=PAIRS),
    "answers": TEXTS,
}
TOKENISED = {"text": Value("string"), "tokens": TEXTS}
NARRATIVE = {
    "document": {
        **{name: Value("string") for name in ("id", "kind", "url")},
        **{name: Value("int32") for name in ("file_size", "word_count")},
        **{name: Value("string") for name in ("start", "end")},
        "summary": TOKENISED | {"url": Value("string"), "title": Value("string")},
        "text": Value("string"),
    },
    "question": TOKENISED,
    "answers": [TOKENISED],
}


def squad_row(number, **other):
    answers = {"text": ["London"], "answer_start": [CONTEXT.index("London")]}
    row = {"id": f"q{number}", "title": "Ada", "context": CONTEXT, "question": "Where?", "answers": answers}
    return row | other


def mrqa_row(number, subset):
    pair = {"start": [37], "end": [42]}
    tokens = {"tokens": ["Ada"], "offsets": [0]}
    detected = {"text": ["London"], "char_spans": [pair], "token_spans": [pair]}
    return {
        "subset": subset,
        "context": CONTEXT,
        "context_tokens": tokens,
        "qid": f"{subset}{number}",
        "question": "Where?",
        "question_tokens": tokens,
        "detected_answers": detected,
        "answers": ["London"],
    }


def narrative_row(number):
    text = {"text": "Who ?", "tokens": ["Who", "?"]}
    summary = {"text": "A young girl slept .", "tokens": ["A"], "url": "u", "title": "t"}
    document = {name: f"{name}{number}" for name in ("id", "kind", "url", "start", "end", "text")}
    answers = [{"text": "young girl", "tokens": []}, {"text": "She", "tokens": []}]
    document |= {"file_size": 1, "word_count": 1, "summary": summary}
    return {"document": document, "question": text, "answers": answers}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """``folder(parts, features)``: a dataset as its repository on the Hub has it, a card with its configurations
    beside a folder each; ``parts`` are rows by configuration and split."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    def made(parts, features=None, card=True):
        root, lines = tmp_path / "dataset", ["---", "configs:"]
        for config, splits in parts.items():
            lines += [f"- config_name: {config}", "  data_files:"]
            for split, rows in splits.items():
                place = f"{config}/{split}-00000-of-00001.parquet" if card else f"{config}/{split}/0000.parquet"
                (root / place).parent.mkdir(parents=True, exist_ok=True)
                rows = datasets.Dataset.from_list(rows, features=features and Features(features))
                rows.to_parquet(root / place)
                lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
        if card:
            (root / "README.md").write_text("\n".join([*lines, "---", ""]))
        return str(root)

    return made


def pinned(name, config, rows, revision=REVISION, **subsets):
    """What preset paper says of a dataset, but for the numbers of rows."""
    known = DOWNLOADS[name]
    table = known.configurations[config].model_copy(update={"rows": rows})
    return known.model_copy(update={"revision": revision, "configurations": {config: table}, "subsets": subsets})


# ------------------------------------------------------------------------------------------------- what is loaded


def test_mrqa_as_the_hub_has_it_and_one_subset_of_it(folder):
    rows = [mrqa_row(1, "SQuAD"), mrqa_row(1, "NewsQA"), mrqa_row(2, "NewsQA")]
    place = folder({"plain_text": {"train": rows, "validation": rows[:2]}}, MRQA)
    known = pinned("mrqa-workshop/mrqa", "plain_text", {"train": 3, "validation": 2}, NewsQA={"train": 2})
    corpus = hub.load_hub(place, "train", "NewsQA", pinned=known)
    assert [(e.id, e.answers, e.context[slice(*e.span)]) for e in corpus.examples] == [
        ("NewsQA1", ("London",), "London"),
        ("NewsQA2", ("London",), "London"),
    ]
    known = pinned("mrqa-workshop/mrqa", "plain_text", {"train": 3}, NewsQA={"train": 74160})
    with pytest.raises(DataError, match="expected rows of NewsQA in 'train': 74,160, as the preset says, found 2"):
        hub.load_hub(place, "train", "NewsQA", pinned=known)


def test_adversarial_questions_of_the_branch_with_the_parquet_copy(folder):
    parts = {
        "AddSent": {"validation": [squad_row(1), squad_row("1-turk0")]},
        "AddOneSent": {"validation": [squad_row(1)]},
    }
    place = folder(parts, SQUAD, card=False)
    known = pinned("stanfordnlp/squad_adversarial", "AddSent", {"validation": 2}, PARQUET_COPY)
    examples = hub.load_hub(place, "validation", "AddSent", pinned=known).examples
    assert [(e.id, e.group) for e in examples] == [("q1", "q1"), ("q1-turk0", "q1")]


def test_narrativeqa_as_the_hub_has_it(folder):
    place = folder({"default": {"train": [narrative_row(1)], "validation": [narrative_row(2)]}}, NARRATIVE)
    known = pinned("deepmind/narrativeqa", "default", {"train": 1, "validation": 1})
    (example,) = hub.load_hub(place, "validation", pinned=known).examples
    assert (example.question, example.answers, example.span) == ("Who ?", ("young girl", "She"), (2, 12))


def test_squad_v2_as_the_hub_has_it(folder):
    rows = [squad_row(1), squad_row(2, answers={"text": [], "answer_start": []})]
    place = folder({"squad_v2": {"train": rows}}, SQUAD)
    known = pinned("rajpurkar/squad_v2", "squad_v2", {"train": 2})
    examples = hub.load_hub(place, "train", unanswerable=True, pinned=known).examples
    assert [e.answers for e in examples] == [("London",), ()]


SENTENCES = [
    (name, config)
    for name in ("nyu-mll/glue", "nyu-mll/multi_nli", "allenai/swag")
    for config in DOWNLOADS[name].configurations
]


def test_nine_tasks_of_glue_are_known():
    assert len(SENTENCES) == 9 + 1 + 1


@pytest.mark.parametrize(("name", "config"), SENTENCES)
def test_columns_and_rows_of_sentence_tasks_are_checked(folder, name, config):
    table = DOWNLOADS[name].configurations[config]
    rows = {split: number % 3 + 1 for number, split in enumerate(table.rows)}
    columns = dict.fromkeys(table.columns, "x")
    place = folder({config: {split: [columns] * number for split, number in rows.items()}})
    known = pinned(name, config, rows)
    for split, number in rows.items():
        assert len(hub.hub_rows(place, split, config, pinned=known)) == number
    first = next(iter(rows))
    with pytest.raises(
        DataError, match=rf"expected rows of split '{first}': [\d,]+, as the preset says, found 1; .*name"
    ):
        hub.hub_rows(place, first, config, pinned=DOWNLOADS[name])
    odd = table.model_copy(update={"columns": [*table.columns[:-1], "other"], "rows": rows})
    with pytest.raises(DataError, match=r"expected the columns .*other.*, as the preset says, found "):
        hub.hub_rows(place, first, config, pinned=known.model_copy(update={"configurations": {config: odd}}))


def test_names_that_a_preset_does_not_have_are_said_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", None)
    say = partial(pytest.raises, DataError)
    with say(match="no configuration 'mnli2'; name one of cola, mnli, .* as nyu-mll/glue:cola"):
        hub.hub_rows("nyu-mll/glue", "train", "mnli2", pinned=DOWNLOADS["nyu-mll/glue"])
    with say(match="no configuration None; name one of cola, .*, as nyu-mll/glue:cola"):
        hub.hub_rows("nyu-mll/glue", "train", pinned=DOWNLOADS["nyu-mll/glue"])
    with say(match="configuration mnli has no split 'validation'; the preset has train, validation_matched"):
        hub.hub_rows("nyu-mll/glue", "validation", "mnli", pinned=DOWNLOADS["nyu-mll/glue"])
    with say(match="no subset 'Duo'; the preset has SQuAD, NewsQA"):
        hub.hub_rows("mrqa", "train", "Duo", pinned=DOWNLOADS["mrqa-workshop/mrqa"])
    with say(match="subset SQuAD has no split 'test'; the preset has train, validation"):
        hub.hub_rows("mrqa", "test", "SQuAD", pinned=DOWNLOADS["mrqa-workshop/mrqa"])


def test_the_revision_is_asked_for_and_another_one_from_the_cache_is_refused(monkeypatch, tmp_path):
    asked = {}
    rows = datasets.Dataset.from_list([squad_row(1)])

    def load_dataset(path, **given):
        asked.update(given, path=path)
        return rows

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    known = pinned("rajpurkar/squad_v2", "squad_v2", {"train": 1})
    hub.load_hub("rajpurkar/squad_v2", "train", pinned=known)
    assert asked == {"path": "rajpurkar/squad_v2", "split": "train", "name": None, "revision": REVISION}
    hub.load_hub("own/dataset", "train", "x")
    assert asked == {"path": "own/dataset", "split": "train", "name": "x", "revision": None}
    for commit, refused in ((REVISION, False), ("b" * 40, True)):
        place = tmp_path / commit / "x-train.arrow"
        place.parent.mkdir()
        writer = datasets.arrow_writer.ArrowWriter(path=str(place))
        writer.write(squad_row(1))
        writer.finalize()
        rows = datasets.Dataset.from_file(str(place))
        if refused:
            with pytest.raises(DataError, match=f"expected revision {REVISION}, .* but only {commit} is in the cache"):
                hub.load_hub("rajpurkar/squad_v2", "train", pinned=known)
        else:
            assert len(hub.load_hub("rajpurkar/squad_v2", "train", pinned=known).examples) == 1


# ------------------------------------------------------------------------------------------- what can go wrong there


def caused(error, cause):
    error.__cause__ = cause
    return error


def test_a_preset_checks_what_it_loads_from_the_hub(folder):
    place = folder({"squad_v2": {"train": [squad_row(1)], "validation": [squad_row(2)]}}, SQUAD)
    known = pinned("rajpurkar/squad_v2", "squad_v2", {"train": 1, "validation": 2})
    data = {"source": "hub", "domains": {"a": place}, "downloads": {place: known.model_dump()}}
    with pytest.raises(DataError, match="expected rows of split 'validation': 2, as the preset says, found 1"):
        load_one(DataSettings.model_validate(data), "a")


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_domain_may_be_one_configuration_of_a_dataset(folder, is_pinned):
    rows = {
        name: [squad_row(f"{name}{number}", context=f"{CONTEXT} {number}") for number in range(9)]
        for name in ("easy", "hard")
    }
    place = folder({name: {"train": own, "validation": own} for name, own in rows.items()}, SQUAD)
    known = pinned("rajpurkar/squad_v2", "squad_v2", {"train": 9, "validation": 9})
    table = known.configurations["squad_v2"]
    known = known.model_copy(update={"configurations": dict.fromkeys(rows, table)})
    downloads = {place: known.model_dump()} if is_pinned else {}
    data = {"source": "hub", "domains": {"a": f"{place}:hard"}, "downloads": downloads, "valid_size": 5}
    assert {example.id[:5] for example in load_one(DataSettings.model_validate(data), "a").test} == {"qhard"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RuntimeError("Dataset scripts are no longer supported, but found d.py"),
            r'a loading script.*write revision = "refs/convert/parquet" at downloads."own/d" in the preset',
        ),
        (ConnectionError("Couldn't reach 'own/d' on the Hub"), r"the Hub cannot be reached .*connect to the network"),
        (httpx.ReadTimeout("timed out"), r"the Hub cannot be reached .*timed out.*connect to the network"),
        (
            caused(broken.DatasetGenerationError("An error occurred"), httpx.ReadError("reset by peer")),
            "the Hub cannot be reached .*reset by peer",
        ),
        (
            broken.DatasetNotFoundError("Dataset 'own/d' doesn't exist on the Hub or cannot be accessed."),
            "doesn't exist on the Hub .*Correct the name or the revision, or log in",
        ),
        (
            broken.DatasetNotFoundError("Revision 'x' doesn't exist for dataset 'own/d' on the Hub."),
            "Revision 'x' doesn't exist .*Correct the name or the revision",
        ),
        (
            broken.DatasetNotFoundError("Dataset 'own/d' is a gated dataset on the Hub."),
            "gated; accept its terms at https://huggingface.co/datasets/own/d and log in",
        ),
        (
            caused(broken.DatasetGenerationError("An error occurred"), pyarrow.ArrowInvalid("Snappy:\n corrupt")),
            r"its files cannot be read \(Snappy: corrupt\); delete its folders below .*run again",
        ),
        (pyarrow.ArrowInvalid("Parquet magic bytes not found"), "its files cannot be read .Parquet magic bytes"),
        (broken.NonMatchingSplitsSizesError("[{'expected': 2}]"), "its files cannot be read"),
        (broken.NonMatchingChecksumError("of x"), "its files cannot be read"),
        (ValueError("BuilderConfig 'c' not found."), "split 'train', configuration 'c': BuilderConfig 'c' not found"),
        (OSError("Not enough disk space."), "cannot be loaded: OSError: Not enough disk space"),
        (KeyError("odd"), "cannot be loaded: KeyError: 'odd'"),
    ],
)
def test_whatever_the_hub_raises_is_one_line_with_the_name_and_what_to_do(monkeypatch, error, words):
    def load_dataset(*_, **__):
        raise error

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DataError, match=words) as refused:
        hub.load_hub("own/d", "train", "c")
    assert "\n" not in str(refused.value) and str(refused.value).startswith("own/d")


def test_broken_and_missing_files_are_said(folder, tmp_path):
    place = folder({"default": {"train": [squad_row(1)]}}, SQUAD)
    with pytest.raises(DataError, match="split 'train', configuration 'other': BuilderConfig 'other' not found"):
        hub.load_hub(place, "train", "other")
    with pytest.raises(DataError, match="split 'test', configuration None: Unknown split \"test\""):
        hub.load_hub(place, "test")
    with pytest.raises(DataError, match="Couldn't find any data file at"):
        hub.load_hub(str(tmp_path / "nowhere"), "train")
    (tmp_path / "dataset/dataset.py").write_text("")
    with pytest.raises(DataError, match="a loading script"):
        hub.load_hub(place, "train")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/train.parquet").write_bytes(b"PAR1 and nothing")
    with pytest.raises(DataError, match=r"its files cannot be read \(.*[Pp]arquet"):
        hub.load_hub(str(tmp_path / "broken"), "train")
    whole = (tmp_path / "dataset/default/train-00000-of-00001.parquet").read_bytes()
    (tmp_path / "broken/train.parquet").write_bytes(whole[:4] + b"x" * 200 + whole[204:])
    with pytest.raises(DataError, match="its files cannot be read"):
        hub.load_hub(str(tmp_path / "broken"), "train")
