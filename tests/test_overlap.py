"""What is tested on is never trained on, by its texts: within a domain, across domains, and for the general reader."""

import json
import re
import unicodedata
from dataclasses import replace

import pytest
from conftest import waves_of
from qa_files import question, write_squad
from task_files import LAYOUTS, SWAG, SWAG_ROW, write_choices, write_task
from task_files import write as write_rows

from helpers import metrics
from helpers.data import hub, questions, splits
from helpers.data.examples import DataError
from helpers.data.load import load, load_domains, question_set, state_overlaps
from helpers.data.splits import sample
from helpers.errors import UserError
from helpers.notebooks.session import Session
from helpers.papers.shared import general_reader, start_from_general
from helpers.presets import load as presets
from helpers.presets.schema import GENERAL, AdversarialSettings, DataSettings, TasksSettings, TextsSettings
from helpers.records import Score

CAFÉ = "Ada lived in the Café Łódź."
ASKED = "Who lived in the Café?"


def ask(*numbers, begin="n", passage="Ada has {}.", text="Who has {}?"):
    """Paragraphs with a question each."""
    return [
        (passage.format(n), [question(f"{begin}{n}", text.format(n), [(passage.format(n)[:3], 0)])]) for n in numbers
    ]


def data_of(folder, *names, **more):
    sizes = {"valid_size": 2, **more}
    return DataSettings(
        source="files", folder=str(folder), domains={name.partition(".")[0]: name for name in names}, **sizes
    )


def write(folder, files):
    for name, paragraphs in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_squad(folder / name, *paragraphs)


def texts_of(examples):
    return {(example.context, example.question) for example in examples}


def test_a_question_of_the_test_part_is_left_out_whatever_its_case_spaces_and_unicode_form(tmp_path):
    twin = "  ADA lived in\nthe " + unicodedata.normalize("NFD", "Café") + " Łódź.", "who LIVED in  the ＣＡＦÉ?"
    other = (CAFÉ, [question("o", "Where did Ada live?", [("Ada", 0)])])
    files = {
        "a/train.json": [(twin[0], [question("x", twin[1], [("ADA", 2)])]), other, *ask(*range(6))],
        "a/valid.json": [(twin[0], [question("y", twin[1], [("ADA", 2)])]), *ask(*range(10, 13), begin="v")],
        "a/test.json": [(CAFÉ, [question("z", ASKED, [("Ada", 0)])]), *ask(*range(20, 23), begin="t")],
    }
    write(tmp_path, files)
    domain = load(data_of(tmp_path, "a"), "a")
    assert [len(domain.train), len(domain.valid), len(domain.test)] == [7, 3, 4]
    assert not {text for _, text in texts_of(domain.train + domain.valid)} & {twin[1]}
    assert domain.overlaps == [
        "a: 1 of 8 questions of train are test questions too (a) and are left out",
        "a: 1 of 7 questions of train (14%) are about passages of other test questions (a)",
        "a: 1 of 4 questions of valid are test questions too (a) and are left out",
    ]


GREEK = "Who has \u0390?"  # a letter whose capital is three characters


@pytest.mark.parametrize("twin", [GREEK.upper(), GREEK.replace(" ", " \u200b\u00ad")], ids=["capitals", "invisible"])
def test_a_twin_in_capitals_or_with_invisible_characters_is_left_out(tmp_path, twin):
    train = [("Ada lives.", [question("x", twin, [("Ada", 0)])]), *ask(*range(9))]
    write(tmp_path, {"a/train.json": train, "a/test.json": [("Ada lives.", [question("y", GREEK, [("Ada", 0)])])]})
    domain = load(data_of(tmp_path, "a"), "a")
    assert domain.overlaps == ["a: 1 of 10 questions of train are test questions too (a) and are left out"]


def test_the_test_questions_of_every_domain_count_however_few_are_used(tmp_path):
    files = {
        "a/train.json": ask(*range(10), *range(20, 24)),
        "a/test.json": ask(*range(40, 44)),
        "b/train.json": [*ask(*range(10, 20)), *ask(41, begin="again")],
        "b/test.json": ask(*range(20, 24)),
    }
    write(tmp_path, files)
    both = data_of(tmp_path, "a", "b", test_size=1)
    domains = load_domains(both)
    assert [len(domains[name].train) + len(domains[name].valid) for name in "ab"] == [10, 10]
    assert state_overlaps(both) == [
        "a: 4 of 14 questions of train are test questions too (b) and are left out",
        "b: 1 of 11 questions of train are test questions too (a) and are left out",
    ]
    alone = data_of(tmp_path, "a")
    assert len(load(alone, "a").train) == 12 and state_overlaps(alone) == []


def test_a_variant_counts_as_its_original(tmp_path):
    passage, varied = "Ada has {}.", "Ada has {}. Bela had it not."
    variants = [(varied.format(n), [question(f"n{n}-turk0", f"Who has {n}?", [("Ada", 0)])]) for n in (20, 21)]
    write(tmp_path, {"a/train.json": [*ask(*range(8)), *variants], "a/test.json": ask(*range(20, 24))})
    domain = load(data_of(tmp_path, "a"), "a")
    assert domain.overlaps == ["a: 2 of 10 questions of train are test questions too (a) and are left out"]
    # The original of a test variant, which the training file has.
    swapped = {"b/train.json": ask(*range(8)), "b/test.json": [*ask(30), (varied.format(3), variants[0][1])]}
    swapped["b/test.json"][1][1][0] |= {"id": "n3-turk0", "question": "Who has 3?"}
    write(tmp_path, swapped)
    domain = load(data_of(tmp_path, "b"), "b")
    assert passage.format(3) not in {example.context for example in domain.train + domain.valid}


def test_test_questions_that_are_all_trained_on_leave_nothing(tmp_path):
    write(tmp_path, {"a/train.json": ask(*range(9)), "a/test.json": ask(*range(9)), "b.json": ask(*range(50, 80))})
    with pytest.raises(DataError) as error:
        load_domains(data_of(tmp_path, "a", "b.json"))
    problem = "a: 9 of 9 questions of train are test questions too (a) and are left out"
    assert str(error.value) == f"{problem}; give others for train, or for test"
    parts = {"train": range(20, 29), "valid": range(3), "test": range(9)}
    write(tmp_path, {f"c/{part}.json": ask(*numbers) for part, numbers in parts.items()})
    with pytest.raises(DataError, match=r"c: 3 of 3 questions of valid are .*; give others for valid, or for test"):
        load(data_of(tmp_path, "c"), "c")


def general_preset(folder, **more):
    """A preset with adversarial questions of two files and a file of general questions, among them clean ones."""
    clean = ask(*range(100, 104), begin="c")
    variants = [(f"{context} But no.", [{**qas[0], "id": f"{qas[0]['id']}-turk0"}]) for context, qas in clean]
    files = {
        "a/train.json": ask(*range(9)),
        "a/test.json": ask(*range(20, 24)),
        "many.json": clean + variants,
        "one.json": clean + variants,
        "general.json": [
            *ask(*range(200, 230)),
            *ask(101, 102, 20, begin="again"),
            *ask(103, 21, begin="b", text="{}?"),
        ],
    }
    write(folder, files)
    adversarial = AdversarialSettings(domain="a", AddSent="many.json", AddOneSent="one.json")
    data = data_of(folder, "a", adversarial=adversarial, test_size=2, **more)
    return presets.load_preset("smoke").model_copy(update={"data": data, "warmup_data": "general.json"})


def test_general_questions_are_no_test_questions_and_no_adversarial_ones_of_the_preset(tmp_path):
    preset = general_preset(tmp_path)
    reader = general_reader(preset)
    general = load(reader.preset.data, GENERAL)
    used = {example.question for example in general.train + general.valid}
    assert not used & {"Who has 101?", "Who has 102?", "Who has 20?", "103?", "21?"} and len(general.train) > 15
    (note,) = general.overlaps
    assert re.fullmatch(r"general: \d of \d\d questions of train are about passages of test .*AddSent.* left out", note)
    adversarial = question_set(preset.data, "AddSent")
    assert len(adversarial) == 4 and not used & {example.question for example in adversarial}
    assert state_overlaps(preset.data) == []  # the domain itself is not touched


def test_files_are_read_once_for_all_draws_and_for_general_questions(tmp_path, monkeypatch):
    preset = general_preset(tmp_path, train_size=3)
    files, compared = [], []
    read, leave_out = questions.read_questions, splits.leave_out
    monkeypatch.setattr(questions, "read_questions", lambda path, *more: files.append(path.name) or read(path, *more))
    monkeypatch.setattr(splits, "leave_out", lambda *more, **how: compared.append(more[0]) or leave_out(*more, **how))
    first, second = (load(preset.for_seed(seed).data, "a") for seed in range(2))
    assert first.train != second.train and first.test == second.test
    load(general_reader(preset).preset.data, GENERAL)
    assert sorted(files) == ["general.json", "many.json", "one.json", "test.json", "train.json"]
    assert compared == ["a", GENERAL]


def test_without_its_adversarial_files_a_folder_is_still_read(tmp_path):
    preset = general_preset(tmp_path)
    (tmp_path / "many.json").unlink()
    assert len(load(preset.data, "a").train) == 7


def test_a_domain_called_general_is_refused(tmp_path):
    preset = general_preset(tmp_path)
    changed = preset.changed("data", domains={"a": "a", GENERAL: "general.json"}, adversarial=None)
    with pytest.raises(UserError, match="a domain is called 'general', as the questions to learn first are"):
        waves_of(start_from_general(changed))


def rows(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def texts(numbers, begin="text"):
    return [{"text": f"{begin} {n}", "label": ("bad", "good")[n % 2]} for n in numbers]


@pytest.mark.parametrize("split", ["content", "joint"])
def test_texts(tmp_path, split):
    if split == "joint":
        rows(tmp_path / "a.jsonl", texts(range(100)))
        rows(tmp_path / "b.jsonl", texts(range(100), begin="TEXT "))
    else:
        for name, numbers in {"a": range(60), "b": range(60, 120)}.items():
            rows(tmp_path / f"{name}.train.jsonl", texts(numbers) + texts(range(200, 220), begin=" Text"))
            rows(tmp_path / f"{name}.test.jsonl", texts(range(200, 220)) if name == "a" else texts(range(300, 320)))
    where = {"folder": str(tmp_path), "domains": {"a": "a", "b": "b"}, "split": split}
    if split == "joint":
        where["domains"] = {"a": "a.jsonl", "b": "b.jsonl"}
    domains = load_domains(TextsSettings(**where))
    tested = {pair.first.casefold().split()[-1] for domain in domains.values() for pair in domain.test}
    for domain in domains.values():
        assert tested.isdisjoint(pair.first.split()[-1] for pair in domain.train + domain.valid)
    notes = [note for domain in domains.values() for note in domain.overlaps]
    if split == "content":
        note = "20 of 80 texts of train are test texts too (a) and are left out"
        assert notes == [f"a: {note}", f"b: {note}"]
    else:
        assert notes and all("texts of train" in note or "texts of valid" in note for note in notes)


def test_the_test_texts_of_every_task_count(tmp_path):
    write_task(tmp_path / "one", "RTE")
    header, row, *_, labels = LAYOUTS["RTE"]
    for part, begin, size in (("train", "DEV", 80), ("dev", "late", 30)):  # the dev pairs of one are in two's train
        write_rows(tmp_path / f"two/{part}.tsv", header, row, size, labels.split(), begin)
    tasks = load_domains(TasksSettings(folder=str(tmp_path), tasks={"one": "RTE:one", "two": "RTE:two"}))
    assert tasks["one"].overlaps == []
    assert tasks["two"].overlaps == ["two: 30 of 80 texts of train are test texts too (one) and are left out"]
    assert len(tasks["two"].train) + len(tasks["two"].valid) == 50


def test_a_pair_is_both_texts(tmp_path):
    pairs = [{"premise": f"Ada {n}", "hypothesis": f"Bela {n}", "label": ("no", "yes")[n % 2]} for n in range(60)]
    near = [{**pairs[0], "hypothesis": "Bela 1"}, {**pairs[1], "premise": "Ada 0"}]
    rows(tmp_path / "a.train.jsonl", [*pairs[20:], *near, {**pairs[3], "premise": "ADA  3"}])
    rows(tmp_path / "a.test.jsonl", pairs[:20])
    domain = load(TextsSettings(folder=str(tmp_path), domains={"a": "a"}), "a")
    assert domain.overlaps == ["a: 1 of 43 texts of train are test texts too (a) and are left out"]


def test_a_choice_is_its_context_and_its_endings_in_any_order(tmp_path):
    write_choices(tmp_path, SWAG, SWAG_ROW, train_csv=60, val_csv=30)
    turned = SWAG_ROW.replace("walked.,ran.", "ran.,walked.")
    content = (tmp_path / "train.csv").read_text()
    (tmp_path / "train.csv").write_text(
        content + turned.format(n="val_csv 3", right=0) + turned.format(n="new", right=0)
    )
    task = load(TasksSettings(folder=str(tmp_path), tasks={"SWAG": "swag:."}), "SWAG")
    assert task.overlaps == ["SWAG: 1 of 62 texts of train are test texts too (SWAG) and are left out"]


def test_unlabelled_texts_are_left_out(tmp_path):
    write_task(tmp_path, "CoLA")
    with (tmp_path / "test.tsv").open("a") as file:
        file.write('9\t"DEV 3 says so\n')
    task = load(TasksSettings(folder=str(tmp_path), tasks={"CoLA": "CoLA:."}), "CoLA")
    assert task.overlaps == ["CoLA: 1 of 6 texts of unlabelled are test texts too (CoLA) and are left out"]
    assert len(task.unlabelled) == 5


def test_records_state_what_was_left_out_and_nothing_else(tmp_path, results):
    write(tmp_path, {"a/train.json": ask(*range(9), 20), "a/test.json": ask(*range(20, 24))})
    rows(tmp_path / "b.train.jsonl", texts(range(30)))
    rows(tmp_path / "b.test.jsonl", texts(range(25, 50)))
    preset = presets.load_preset("smoke")
    questions, labelled = data_of(tmp_path, "a"), TextsSettings(folder=str(tmp_path), domains={"b": "b"})
    notes = {
        "a": "a: 1 of 10 questions of train are test questions too (a) and are left out",
        "b": "b: 5 of 30 texts of train are test texts too (b) and are left out",
    }
    for artefact, changes, expected in (
        ("imm/your_domains", {}, []),
        ("imm/your_domains", {"data": questions, "reviews": labelled}, [notes["a"]]),
        ("hrkd/table1", {"data": questions, "reviews": labelled}, [notes["b"]]),
        ("hrkd/table1", {"mnli": TextsSettings(), "reviews": labelled}, [notes["b"]]),
        ("imm/similarity", {"data": questions}, [notes["a"]]),
    ):
        scores = [Score(method="a", column="a", seed=0, value=1.0)]
        record = Session(preset.model_copy(update=changes), {}, "smoke+x").save(artefact, scores=scores)
        assert [line for line in record.notes if "too (" in line] == expected


def test_shards_with_equal_ids(tmp_path):
    for shard in range(3):
        write(tmp_path, {f"a/train-{shard}.json": ask(*range(20), passage=f"Ada{shard} has {{}}.")})
    for shard in range(2):
        write(tmp_path, {f"a/test-{shard}.json": ask(*range(10), passage=f"Bela{shard} has {{}}.")})
    domain = load(data_of(tmp_path, "a", train_size=20), "a")
    ids = [example.id for example in domain.train + domain.valid + domain.test]
    assert len(domain.train) == 20 and len(domain.test) == 20 and len(set(ids)) == len(ids)
    answers = ["Bel" if example.context.startswith("Bela0") else "" for example in domain.test]
    scores = metrics.adversarial_scores(domain.test, metrics.score(domain.test, answers))
    assert len(scores.f1) == 20 and scores.f1.mean() == 50.0


def test_splits_of_the_hub_with_equal_ids(monkeypatch):
    def load_split(name, configuration, split, *more):
        size = {"train": 30, "validation": 10}[split]
        answers = {"text": ["Ada"], "answer_start": [0]}
        rows = [{"id": str(n), "question": f"Who has {n}?", "context": f"Ada of {split} has {n}."} for n in range(size)]
        return [(f"row {n}", {**row, "answers": answers}) for n, row in enumerate(rows)]

    monkeypatch.setattr(hub, "load_split", load_split)
    domain = load(DataSettings(source="hub", domains={"a": "some/questions"}, valid_size=2), "a")
    assert domain.overlaps == [] and len(domain.train) + len(domain.valid) == 30
    examples = domain.train + domain.valid + domain.test
    assert len({example.id for example in examples}) == 40 and all(one.id == one.group for one in examples)


def test_the_variants_of_a_shard_stay_with_their_original(tmp_path):
    varied = [(f"Bela{{}} has {n}. No.", [question(f"n{n}-turk0", "Who?", [("Bel", 0)])]) for n in range(3)]
    for shard in range(2):
        of_shard = [(context.format(shard), qas) for context, qas in varied]
        write(tmp_path, {f"a/test-{shard}.json": [*ask(*range(3), passage=f"Bela{shard} has {{}}."), *of_shard]})
    write(tmp_path, {"a/train.json": ask(*range(10))})
    groups = {}
    for example in load(data_of(tmp_path, "a"), "a").test:
        groups.setdefault(example.group, set()).add(example.context[:5])
    assert len(groups) == 6 and all(len(shards) == 1 for shards in groups.values())


def test_a_sample_has_its_size_where_ids_are_equal(tmp_path):
    write(tmp_path, {"a.json": ask(*range(30))})
    examples = [replace(example, id="x") for example in load(data_of(tmp_path, "a.json"), "a").train]
    assert len(sample(examples, 7, seed=0)) == 7


def test_given_files_whose_test_questions_are_all_trained_on(shared):
    data = DataSettings(
        source="files", folder=str(shared / "cases/public/b13_test_equals_train"), domains={"d": "legal"}
    )
    with pytest.raises(DataError, match=r"d: (\d+) of \1 questions of train are test questions too \(d\)"):
        load(data, "d")
