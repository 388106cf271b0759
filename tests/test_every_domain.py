"""A folder without the preset's own domains: every file and subfolder is one, in every section."""

import json

import pytest

from helpers.data.load import label_names, load_domains, with_every_domain
from helpers.notebooks.session import preset_for
from helpers.presets.load import load


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
    settings = with_every_domain(getattr(load("lab", **{f"{section}.folder": folder}), section))
    assert settings.named == {"law": "law.jsonl", "my-med": "my med", "tax": "tax", "web-v2": "web.v2.jsonl"}
    if section == "data":
        assert settings.adversarial is None and settings.narrative == ""
        world = load("smoke", **{"data.folder": folder}).data
        assert with_every_domain(world) is world


def test_labels_are_those_of_the_texts(tmp_path):
    write(tmp_path, "law.jsonl", "tax.train.jsonl", "tax.dev.jsonl")
    preset = preset_for("10_hrkd_main", {"preset": "lab", "reviews_dir": str(tmp_path)})
    domains = load_domains(preset.reviews)
    assert label_names(preset.reviews) == ("no", "yes") and [len(domain.test) for domain in domains.values()] == [6, 60]
    tasks = preset_for("13_mtdnn_kd_main", {"preset": "lab", "tasks_dir": str(tmp_path)}).tasks
    assert {name: task.labels for name, task in load_domains(tasks).items()} == dict.fromkeys(domains, ("no", "yes"))


@pytest.mark.parametrize(("section", "entry"), [("mnli", "slate.train.jsonl"), ("tasks", "glue/RTE/train.tsv")])
def test_a_folder_with_one_of_the_presets_domains_is_the_presets(tmp_path, section, entry):
    folder = write(tmp_path, entry, "law.jsonl")
    settings = getattr(load("lab", "mtdnn_kd", **{f"{section}.folder": folder}), section)
    assert with_every_domain(settings) is settings


def test_a_folder_of_questions_with_one_of_the_presets_names_has_every_entry(tmp_path):
    folder = write(tmp_path, "news/all.json", "law.json")
    domains = with_every_domain(load("lab", "imm", **{"data.folder": folder}).data).domains
    assert domains == {"law": "law.json", "news": "news"}
