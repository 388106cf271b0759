"""Results of other settings than a preset's own lie beside its published ones."""

import hashlib
import shutil

import nbformat
import pytest

from helpers import __main__ as cli
from helpers import paths
from helpers.notebooks import runner, session
from helpers.papers import imm
from helpers.results import figures, records, report


@pytest.mark.parametrize(
    ("notebook", "parameters", "folder"),
    [
        ("02_imm_main", {"preset": "mini", "seeds": None}, "mini"),
        ("02_imm_main", {"preset": "mini", "seeds": 1}, "mini"),  # which is its own number
        ("02_imm_main", {"preset": "mini", "seeds": 2}, "mini+seeds=2"),
        ("06_a2d_main", {"preset": "mini", "seeds": 1, "rmr": False}, "mini+rmr=False"),
        ("02_imm_main", {"preset": "mini", "encoder": "bert-base-uncased"}, "mini+encoder=bert-base-uncased"),
        ("02_imm_main", {"preset": "mini", "encoder": str(paths.ROOT / "data/mini")}, "mini"),  # its own encoder
        ("02_imm_main", {"preset": "lab", "encoder": "bert-base-uncased"}, "lab+encoder=bert-base-uncased"),
        ("06_a2d_main", {"preset": "lab", "glove": "glove.txt"}, "lab+glove=glove.txt"),
        ("10_hrkd_main", {"preset": "smoke", "keep": "there"}, "smoke"),
        ("19_your_domains", {"preset": "lab", "methods": "Mix", "keep": "there"}, "lab+methods=Mix"),
        ("02_imm_main", {"preset": "smoke", "rounds": 2, "annealing": "half"}, "smoke+rounds=2,annealing=half"),
    ],
)
def test_only_settings_that_change_results_have_a_folder_of_their_own(notebook, parameters, folder):
    assert session.place_of(notebook, parameters) == folder


def test_results_elsewhere_leave_readme_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path))
    monkeypatch.setattr(runner, "run", lambda *names, **settings: 0)
    monkeypatch.setattr(report, "README", tmp_path / "README.md")
    report.README.write_text(f"{report.BEGIN}as it was{report.END}")
    records.write(records.read(paths.ROOT / "results/mini/imm/table1.json"))
    assert cli.main(["figures", "--preset", "mini"]) == 0
    assert "table1.png" in capsys.readouterr().out and "as it was" in report.README.read_text()


def place_of_lab(notebook="02_imm_main", **parameters):
    return session.place_of(notebook, {"preset": "lab", **parameters})


def test_two_encoders_of_one_name_have_two_folders_and_one_encoder_has_one(tmp_path, monkeypatch):
    for name in ("x", "y"):
        (tmp_path / name / "encoder").mkdir(parents=True)
        (tmp_path / name / "encoder/config.json").write_text(f'{{"hidden_size": "{name}"}}')
    monkeypatch.chdir(tmp_path)
    first, second = (place_of_lab(encoder=f"{name}/encoder") for name in ("x", "y"))
    assert first != second and place_of_lab(encoder=str(tmp_path / "x/encoder")).startswith("lab+encoder=encoder-")
    assert place_of_lab(encoder=str(tmp_path / "x/encoder"))[-6:] == first[-6:]
    shutil.copytree(tmp_path / "x", tmp_path / "z")
    assert place_of_lab(encoder=str(tmp_path / "z/encoder")) == place_of_lab(encoder=str(tmp_path / "x/encoder"))


def write_files(folder, **texts):
    for name, text in texts.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "all.json").write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    ("notebook", "parameter"),
    [("02_imm_main", "data_dir"), ("10_hrkd_main", "reviews_dir"), ("13_mtdnn_kd_main", "tasks_dir")],
)
def test_files_are_told_apart_by_their_content(tmp_path, notebook, parameter):
    first = write_files(tmp_path / "first/mine", law="1", tax="2")
    place = place_of_lab(notebook, **{parameter: first})
    assert place.startswith(f"lab+{parameter}=mine-") and len(place) < 40  # no folder of this machine
    assert place == place_of_lab(notebook, **{parameter: write_files(tmp_path / "again/mine", law="1", tax="2")})
    others = {"law": "2", "tax": "1"}, {"law": "1", "tax": "2", "web": "3"}, {"law": "1", "taxes": "2"}
    for number, texts in enumerate(others):
        folder = write_files(tmp_path / f"{number}/mine", **texts)
        assert place_of_lab(notebook, **{parameter: folder}) != place


def test_a_file_of_vectors_or_of_general_questions_is_told_by_its_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(name)
    for notebook, name in (("06_a2d_main", "glove"), ("19_your_domains", "general")):
        first, second = (place_of_lab(notebook, **{name: str(tmp_path / one / "file.txt")}) for one in ("one", "two"))
        assert first != second and first.startswith(f"lab+{name}=file.txt-")


def test_values_that_a_folder_cannot_be_named_by_stay_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Mix").mkdir()  # no method is a folder
    assert place_of_lab("19_your_domains", methods="Mix") == "lab+methods=Mix"
    both, combined = (place_of_lab("19_your_domains", methods=text) for text in ("IMM A2D", "IMM+A2D"))
    assert both != combined and both.startswith("lab+methods=IMM-A2D-")


COPIES = """
name = "mine"
extends = "lab"
general = "law/all.json"
[data]
narrative = ""
[data.domains]
law = "law"
tax = "tax"
[copies]
law = "{law}"
tax = "{tax}"
"law/all.json" = "{file}"
"some/encoder" = "{encoder}"
"""


def test_a_copy_with_the_content_that_a_preset_states_is_the_presets_own(tmp_path):
    folder = tmp_path / "copy"
    write_files(folder, law="1", tax="2", other="3")
    stated = {name: session.content_of(folder / name) for name in ("law", "tax")}
    stated |= {"file": session.content_of(folder / "law/all.json"), "encoder": "0" * 16}
    assert stated["file"] == hashlib.sha256(b"1").hexdigest()[:16]  # as it stands among the downloads

    def place(**changes):
        (tmp_path / "mine.toml").write_text(COPIES.format(**stated | changes))
        return session.place_of("00_corpora", {"preset": str(tmp_path / "mine.toml"), "data_dir": str(folder)})

    assert place() == "mine"
    for name in ("law", "tax", "file"):
        assert place(**{name: "0" * 16}).startswith("mine+data_dir=copy-")
    (folder / "tax/more.json").write_text("4")
    session.content_of.cache_clear()
    assert place().startswith("mine+data_dir=copy-")


LAB = {
    "02_imm_main": {"data_dir": "data/qa"},
    "06_a2d_main": {"data_dir": "data/qa"},
    "10_hrkd_main": {"mnli_dir": "data/nlu/mnli-genres", "reviews_dir": "data/nlu/amazon-reviews"},
    "13_mtdnn_kd_main": {"tasks_dir": "data/nlu"},
    "15_mtdnn_main": {"data_dir": "data/qa", "tasks_dir": "data/nlu"},
    "19_your_domains": {"data_dir": "data/qa"},
}


@pytest.mark.parametrize("notebook", LAB)
@pytest.mark.parametrize("preset", ["lab", "lab-large"])
def test_lab_is_itself_from_copies_of_its_corpora_and_encoder(notebook, preset, shared):
    parameters = {name: str(shared / place) for name, place in LAB[notebook].items()}
    parameters |= {"preset": preset, "encoder": str(shared / "models/all-MiniLM-L6-v2")}
    assert session.place_of(notebook, parameters) == preset
    for name in LAB[notebook]:
        other = parameters | {name: str(shared / "data")}
        assert session.place_of(notebook, other).startswith(f"{preset}+{name}=data-")


def test_long_differences_are_cut_and_stay_apart():
    parameters = {"preset": "smoke", "similarity": "uniform", "annealing": "constant", "multi_domain_start": "theta"}
    first, second = (session.place_of("02_imm_main", {**parameters, "seeds": seeds}) for seeds in (3, 4))
    assert first != second and len(first) < 80


def test_a_run_with_another_size_leaves_the_published_record_alone(results):
    preset = session.preset_for("01_imm_similarity", {"preset": "smoke"})
    first = session.Session(preset, {}, "smoke").save("imm/similarity", **imm.similarity(preset))
    published = [paths.record("smoke", first.artefact, end) for end in ("json", "png", "svg")]
    before = [path.read_bytes() for path in published]
    job, of_report = runner.select_jobs(["01_imm_similarity"], {"preset": "smoke", "train_size": 12})
    assert runner.execute(job, force=False).endswith(" s")
    assert [path.read_bytes() for path in published] == before
    other = records.read(paths.record("smoke+train_size=12", "imm/similarity"))
    assert other.preset == "smoke+train_size=12" and other.scores != first.scores
    assert of_report.place == job.place == "smoke+train_size=12"
    executed = nbformat.read(paths.notebooks(other.preset) / "01_imm_similarity.ipynb", as_version=4)
    texts = [output.get("text", "") for cell in executed.cells for output in cell.get("outputs", [])]
    assert "smoke+train_size=12, as these are not the preset's own settings" in "".join(texts)
    assert paths.models(other.preset) == paths.models("smoke")


def test_the_report_of_a_presets_file_is_redrawn_wherever_that_lies(results, monkeypatch, tmp_path):
    called, file = [], tmp_path / "a+b/mine.toml"
    file.parent.mkdir()
    file.write_text('name = "mine"\nextends = "smoke"\n')
    monkeypatch.setattr(figures, "redraw", lambda preset: [tmp_path])
    monkeypatch.setattr(runner, "run", lambda names, parameters, force: called.append(parameters) or 0)
    for preset in (str(file), "smoke+seeds=1", "smoke"):
        assert cli.main(["figures", "--preset", preset]) == 0
    assert called == [{"preset": str(file)}, {"preset": "smoke", "results": "smoke+seeds=1"}, {"preset": "smoke"}]
