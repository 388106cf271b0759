"""A folder without the preset's own domains: every file and subfolder is one, in every section."""

import json
from pathlib import Path

import pytest
from qa_files import write_many, write_narrativeqa

from helpers.data.examples import DataError
from helpers.data.folders import state_files, with_every_domain
from helpers.data.load import label_names, load_domains
from helpers.notebooks.session import preset_for, with_settings
from helpers.presets.load import load_preset
from helpers.presets.schema import LONGEST_NAME, DataSettings, TasksSettings, TextsSettings
from helpers.records import Score


def write(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        rows = [json.dumps({"text": f"{name} {n}", "label": "yes" if n % 2 else "no"}) for n in range(60)]
        path.write_text("\n".join(rows))
    return str(folder)


@pytest.mark.parametrize("section", ["data", "mnli", "reviews", "tasks"])
def test_every_entry_is_a_domain(tmp_path, section):
    names = ("law.jsonl", "my med/a.jsonl", "tax.train.jsonl", "tax.dev_matched.jsonl", ".hidden", "web.v2.jsonl")
    folder = write(tmp_path, *names)
    settings = with_every_domain(getattr(load_preset("lab", **{f"{section}.folder": folder}), section))
    assert settings.named == {"law": "law.jsonl", "my-med": "my med", "tax": "tax", "web-v2": "web.v2.jsonl"}
    if section == "data":
        assert settings.adversarial is None and settings.narrative == ""
        world = load_preset("smoke", **{"data.folder": folder}).data
        assert with_every_domain(world) is world


def test_labels_are_those_of_the_texts(tmp_path):
    write(tmp_path, "law.jsonl", "tax.train.jsonl", "tax.dev.jsonl")
    preset = with_settings(preset_for("10_hrkd_main", "lab"), {"reviews.folder": str(tmp_path)})
    domains = load_domains(preset.reviews)
    assert label_names(preset.reviews) == ("no", "yes") and [len(domain.test) for domain in domains.values()] == [6, 60]
    tasks = with_settings(preset_for("13_mtdnn_kd_main", "lab"), {"tasks.folder": str(tmp_path)}).tasks
    assert {name: task.labels for name, task in load_domains(tasks).items()} == dict.fromkeys(domains, ("no", "yes"))


@pytest.mark.parametrize(("section", "entry"), [("mnli", "slate.train.jsonl"), ("tasks", "glue/RTE/train.tsv")])
def test_a_folder_with_one_of_the_presets_domains_is_the_presets(tmp_path, section, entry):
    folder = write(tmp_path, entry, "law.jsonl")
    settings = getattr(load_preset("lab", "mtdnn_kd", **{f"{section}.folder": folder}), section)
    assert with_every_domain(settings) is settings


def test_a_folder_of_questions_with_one_of_the_presets_names_has_every_entry(tmp_path):
    folder = write(tmp_path, "news/all.json", "law.json")
    domains = with_every_domain(load_preset("lab", "imm", **{"data.folder": folder}).data).domains
    assert domains == {"law": "law.json", "news": "news"}


MODEL = ("config.json", "tokenizer.json", "model.safetensors")
HOSTILE = ("法|律.jsonl", "日\n本.jsonl", "<i>.json", "<i>.jsonl", "x" * 240 + ".jsonl", "🙂.csv", "é" * 120 + ".json")
NAMED = {
    "Ärzte.json": "Ärzte",
    "法律.json": "法律",
    "हिन्दी.json": "हिन्दी",
    "a.json.gz": "a",
    "B.json": "B",
    "b.csv": "b-2",
}


def test_names_are_letters_and_digits_of_any_script(tmp_path):
    folder = write(tmp_path, *HOSTILE, *NAMED, "e\u0301t\u00e9.json", "é" * 121 + ".json")
    data = with_every_domain(load_preset("lab", **{"data.folder": folder}).data)
    names = {place: name for name, place in data.domains.items()}
    assert {place: names[place] for place in NAMED} == NAMED
    assert [names[place] for place in HOSTILE[:4]] == ["法-律", "日-本", "i", "i-2"]
    assert names["🙂.csv"] == "domain" and names["e\u0301t\u00e9.json"] == "été"
    assert all(len(name.encode()) <= LONGEST_NAME for name in data.domains)
    assert len({name.casefold() for name in data.domains}) == len(HOSTILE) + len(NAMED) + 2
    DataSettings(**data.model_dump())  # a preset may have these names
    for name in data.domains:
        Score(method=name, column=name, seed=0, value=1.0)  # and a record


def test_a_preset_names_domains_by_the_same_rule():
    for name in ("Ärzte", "法律", "हिन्दी", "web-v2", "a_b"):
        assert list(DataSettings(source="files", domains={name: "x"}).domains) == [name]
    for name, problem in (
        ("a b", "has a space"),
        ("a|b", "cannot be used"),
        ("a\nb", "cannot be used"),
        ("-a", "cannot be used"),
        ("", "cannot be used"),
        ("法" * 27, "is too long: give the domain a name of at most 80 bytes"),
    ):
        with pytest.raises(ValueError, match=problem):
            DataSettings(source="files", domains={name: "x"})


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("data", ("dev-v2.0.json", "train-v2.0.json")),
        ("data", ("Train.json", "test.json", "law.json")),
        ("data", ("dev/a.json", "train/a.json")),
        ("tasks", ("dev.tsv", "test.tsv", "train.tsv")),
    ],
)
def test_parts_without_a_domain_are_no_domains(tmp_path, section, names):
    settings = getattr(load_preset("lab", "mtdnn", **{f"{section}.folder": write(tmp_path, *names)}), section)
    with pytest.raises(DataError, match="name parts and no domain; put them into a subfolder named for it") as error:
        with_every_domain(settings)
    listed = sorted({name.partition("/")[0] for name in names} - {"law.json"})
    assert str(error.value).startswith(f"{tmp_path}: {', '.join(listed)} name")


def test_a_domain_may_begin_with_the_word_for_a_part(tmp_path):
    for name in ("dev-ops.train.json", "dev-ops.test.json", "test-prep.json", "train.json"):
        write_many(tmp_path / name, 12, tag=name)
    data = with_every_domain(load_preset("lab", **{"data.folder": str(tmp_path), "data.valid_size": 2}).data)
    assert data.domains == {"dev-ops": "dev-ops", "test-prep": "test-prep.json", "train": "train.json"}
    assert len(load_domains(data)["dev-ops"].test) == 24


def test_files_beside_the_data_and_saved_models_are_no_domains(tmp_path):
    for name in ("law.ndjson", "med/train.json", "med/test.json", "tax.train.json", "tax.dev.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_many(tmp_path / name, 12, tag=name)
    beside = (
        "README.md",
        "LICENSE",
        "map.png",
        ".notes.json",
        "models/law/config.json",
        "models/law/model.safetensors",
    )
    for name in (*beside, "law-reader/tokenizer.json", "law-reader/model.safetensors", "empty/notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    data = with_every_domain(load_preset("lab", **{"data.folder": str(tmp_path), "data.valid_size": 2}).data)
    assert data.domains == {"law": "law.ndjson", "med": "med", "tax": "tax"} and len(load_domains(data)) == 3
    assert state_files(data).splitlines() == [
        "law: law.ndjson",
        f"med: {Path('med/test.json')}, {Path('med/train.json')}",
        "tax: tax.dev.json, tax.train.json",
        "not read as domains: .notes.json, LICENSE, README.md, empty, law-reader, map.png, models",
    ]
    generated = "encyclopedia, news, trivia, multihop, search"
    assert state_files(load_preset("mini").data) == f"no files: the domains {generated} are generated"


def test_files_of_texts_and_tasks_are_listed(tmp_path):
    names = ("books/positive.review", "books/negative.review", "dvd.train.csv", "dvd.dev.csv", "LICENSE")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folder = str(tmp_path)
    texts = TextsSettings(folder=folder, domains={"books": "books", "dvd": "dvd"})
    books = f"books: {Path(names[1])}, {Path(names[0])}"
    lines = [books, "dvd: dvd.dev.csv, dvd.train.csv", "not read as domains: LICENSE"]
    assert state_files(texts).splitlines() == lines
    tasks = TasksSettings(folder=folder, tasks={"MRPC": "MRPC:books"})
    assert state_files(tasks).splitlines()[0] == books.replace("books", "MRPC", 1)
    assert state_files(load_preset("mini").tasks).startswith("no files: the tasks CoLA, SST-2")


def test_narrativeqa_is_listed_as_its_folder(tmp_path):
    write_narrativeqa(tmp_path / "stories", [("d1", "train", "Who slept ?", "the old king", "a king")])
    data = with_every_domain(load_preset("lab", **{"data.folder": str(tmp_path)}).data)
    assert state_files(data) == "stories: stories"


def test_a_folder_without_data_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("x")
    with pytest.raises(DataError, match=r"no data file; expected names that end in \.json, .*, found README\.md$"):
        with_every_domain(load_preset("lab", **{"data.folder": str(tmp_path)}).data)
