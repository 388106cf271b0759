"""Results of other settings than a preset's own lie beside its published ones."""

import hashlib
import shutil
import subprocess
from functools import partial

import nbformat
import pytest
import torch
from record_files import claimed

from helpers import __main__ as cli
from helpers import papers, paths, records
from helpers.data.load import fingerprint_examples
from helpers.models.encoders import encoder_fingerprint
from helpers.notebooks import runner, session
from helpers.notebooks.session import ParameterError
from helpers.papers.imm import tables
from helpers.presets.load import load_preset
from helpers.results import figures, findings, report


def run_name_of(notebook, parameters):
    """The name of the run of a notebook with other parameters; nothing is kept."""
    return runner.make_job(notebook, {name: value for name, value in parameters.items() if name != "keep"}).run_name


@pytest.mark.parametrize(
    ("notebook", "parameters", "folder"),
    [
        ("02_imm_main", {"preset": "mini", "seeds": None}, "mini"),
        ("02_imm_main", {"preset": "mini", "seeds": 1}, "mini"),  # which is its own number
        ("02_imm_main", {"preset": "mini", "seeds": 2}, "mini+seeds=2"),
        ("06_a2d_main", {"preset": "mini", "seeds": 1, "rmr": False}, "mini+a2d.rmr=False"),
        ("02_imm_main", {"preset": "mini", "encoder": "bert-base-uncased"}, "mini+encoder=bert-base-uncased"),
        ("02_imm_main", {"preset": "mini", "encoder": str(paths.ROOT / "data/mini")}, "mini"),  # its own encoder
        ("02_imm_main", {"preset": "lab", "encoder": "bert-base-uncased"}, "lab+encoder=bert-base-uncased"),
        ("06_a2d_main", {"preset": "lab", "glove": "glove.txt"}, "lab+mnemonic.glove=glove.txt"),
        ("10_hrkd_main", {"preset": "smoke", "keep": "there"}, "smoke"),
        ("18_your_domains", {"preset": "lab", "methods": "Mix", "keep": "there"}, "lab+methods=Mix"),
        (
            "02_imm_main",
            {"preset": "smoke", "max_rounds": 2, "annealing": "half"},
            "smoke+imm.max_rounds=2,imm.annealing=half",
        ),
    ],
)
def test_only_settings_that_change_results_have_a_folder_of_their_own(notebook, parameters, folder):
    assert run_name_of(notebook, parameters) == folder


@pytest.fixture
def executed(results, monkeypatch):
    """Notebooks are executed by writing an empty file, or by a function of ``saves``; no page is exported."""
    saves = {}

    def execute(name, parameters, output):
        if name == runner.REPORT:
            report.page(parameters.get("results") or load_preset(parameters["preset"]).name, papers.list_papers())
        saves.get(name, lambda: None)()
        output.write_text("{}")

    monkeypatch.setattr(runner, "execute_notebook", execute)
    monkeypatch.setattr(runner.report, "export", lambda place, executed: paths.report(place))
    monkeypatch.setattr(runner.engine, "carry_out", lambda plans, settings: dict.fromkeys(plans))
    return saves


def test_results_elsewhere_leave_readme_alone(executed, tmp_path, monkeypatch):
    monkeypatch.setattr(findings, "README", tmp_path / "README.md")
    findings.README.write_text(f"{findings.BEGIN}as it was{findings.END}")
    records.write(records.read(paths.ROOT / "results/mini/imm/table1.json"))
    assert cli.main(["figures", "--preset", "mini"]) == 0
    assert paths.record("mini", "imm/table1", "svg").is_file() and "as it was" in findings.README.read_text()


def test_figures_and_report_of_a_preset_of_ones_own_are_redrawn_by_the_name_of_their_folder(executed, tmp_path, capsys):
    place, file = "mine+data.folder=files-0123ab", tmp_path / "mine.toml"
    file.write_text('name = "mine"\nextends = "smoke"\n')
    records.write(claimed().model_copy(update={"preset": place}))
    assert cli.main(["figures", "--preset", str(file)]) == 1
    assert capsys.readouterr().err == f"error: no records of preset 'mine'; give --preset '{place}'\n"
    assert cli.main(["figures", "--preset", place]) == 0
    assert paths.record(place, "imm/table1", "svg").is_file()
    assert (paths.notebooks(place) / "99_report.ipynb").is_file()
    paths.record(place, "imm/table1").write_text("{}")
    assert cli.main(["figures", "--preset", place]) == 1
    assert "artefact: Field required" in capsys.readouterr().err


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one committed record of preset mini; its function returns what git says that changed."""
    root, source = tmp_path / "checkout", paths.ROOT
    (root / "results/mini/imm").mkdir(parents=True)
    for name in ("README.md", ".gitignore", "results/mini/imm/similarity.json"):
        shutil.copy(source / name, root / name)
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setattr(findings, "README", root / "README.md")
    monkeypatch.setenv("HELPERS_RESULTS", "")

    def git(*arguments):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout

    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        git(*arguments)
    return partial(git, "status", "--porcelain", "--untracked-files=all")


def save_similarity(change):
    """Save the committed record of the similarity as a run would, with one value changed; show and read it."""
    (file,) = paths.find_results("mini", "imm/similarity.json")
    stored = records.read(file)
    first, *others = stored.scores
    records.write(stored.model_copy(update={"scores": [first.model_copy(update={"value": change}), *others]}))
    report.show(records.read_all("mini")[0])
    return [record.scores[0].value for record in records.read_all("mini", "imm")]


def test_a_run_leaves_git_clean_unless_it_is_published(executed, checkout, capsys, monkeypatch):
    executed["01_imm_similarity"] = partial(save_similarity, 0.25)
    monkeypatch.setattr(runner, "encoder_fingerprint", lambda encoder: "")
    assert cli.main(["run", "01"]) == 0 and checkout() == ""
    (printed,) = [line for line in capsys.readouterr().out.splitlines() if "committed" in line]
    size = len(records.read_all("mini")[0].scores)
    assert printed == f"beside the committed results: Reproduced: {size - 1} of {size} values."
    assert save_similarity(0.5) == [0.5] and paths.record("mini", "imm/similarity", "svg").is_file()  # by hand
    assert cli.main(["figures"]) == 0 and checkout() == ""
    assert paths.find_results("", "mini*") == [paths.results("mini")]
    assert cli.main(["run", "01", "--publish"]) == 0
    assert " M results/mini/imm/similarity.json\n" in checkout()
    assert "running" not in checkout() and "results/mini/notebooks/01_imm_similarity.ipynb" in checkout()


def test_trainings_are_shared_by_local_and_committed_results(monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", "")
    local = load_preset("study").models
    monkeypatch.setenv("HELPERS_RESULTS", str(paths.published("")))
    assert load_preset("study").models == local == paths.ROOT / "results/mini/models"


@pytest.mark.parametrize("place", ["../x", "nowhere", ".", "", "mini/imm"])
def test_the_report_shows_a_folder_of_results_and_no_other(results, place, tmp_path):
    for folder in ("../x", "mini/imm", "mini+seeds=2"):
        (results / folder).mkdir(parents=True, exist_ok=True)
    assert session.settle("99_report", "mini", {}, {"results": "mini+seeds=2"})[1] == "mini+seeds=2"
    if not place:
        assert session.settle("99_report", "mini", {}, {"results": place})[1] == "mini"
        return
    with pytest.raises(ParameterError, match=r"expected a folder of results, found no .*; give mini or mini\+seeds=2"):
        session.settle("99_report", "mini", {}, {"results": place})


def test_notebooks_do_not_take_the_reports_folder(results):
    (results / "mini+seeds=2").mkdir(parents=True)
    for names in (["01_imm_similarity"], []):
        with pytest.raises(ParameterError, match="unknown parameter 'results'"):
            runner.select_jobs(names, {"preset": "smoke", "results": "mini+seeds=2"})
    (job,) = runner.select_jobs(["99_report"], {"preset": "smoke", "results": "mini+seeds=2"})
    assert (job.run_name, job.parameters["results"]) == ("mini+seeds=2", "mini+seeds=2")


def save_headline(artefact):
    """Save a record whose headline is supported by itself (p = 0.04), and undecided beside another such."""
    scores = [("B", seed, value) for seed, value in enumerate((3.0, 2.0, 1.5, 1.0, 0.0))]
    scores = [*scores, *(("A", seed, 0.0) for seed in range(5))]
    scores = [records.Score(method=row, column="x", seed=seed, value=value) for row, seed, value in scores]
    claim = records.Claim(text="B beats A", above="B", below="A", primary=True)
    preset = session.preset_for("02_imm_main", "smoke")
    session.Session(preset, {}, "smoke").save(artefact, scores=scores, claims=[claim], baselines=["A"])


def test_a_record_identifies_its_encoder_and_the_examples_that_all_seeds_share(results):
    save_headline("imm/table1")
    several = records.read(paths.record("smoke", "imm/table1"))
    assert several.run.digests == {"encoder": encoder_fingerprint("data/mini")} and len(several.draws) == 5
    preset = session.preset_for("02_imm_main", "smoke")
    one = session.Session(preset, {}, "smoke").save("imm/table1", scores=[several.scores[0]]).run
    assert {*one.digests} == {"encoder", *(f"data/{name}" for name in preset.data.domains)}
    assert one.digests["data/news"] == fingerprint_examples(preset.data, "news")
    assert one.deterministic == (preset.engine.deterministic if torch.cuda.is_available() else None)


def test_figures_do_not_depend_on_the_order_in_which_notebooks_run(executed, tmp_path, monkeypatch):
    artefacts = {"02_imm_main": "imm/table1", "05_imm_adversarial": "imm/table2"}
    executed |= {name: partial(save_headline, artefact) for name, artefact in artefacts.items()}
    drawn = []
    for names in ([*artefacts], [*reversed(artefacts)]):
        monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path / names[0]))
        assert runner.run(names, {"preset": "smoke"}) == 0
        drawn.append({file.name: file.read_bytes() for file in paths.results("smoke").glob("imm/*.svg")})
    assert len(drawn[0]) == 2 and drawn[0] == drawn[1]


def run_name_of_lab(notebook="02_imm_main", **parameters):
    return run_name_of(notebook, {"preset": "lab", **parameters})


def test_two_encoders_of_one_name_have_two_folders_and_one_encoder_has_one(tmp_path, monkeypatch):
    for name in ("x", "y"):
        (tmp_path / name / "encoder").mkdir(parents=True)
        (tmp_path / name / "encoder/config.json").write_text(f'{{"hidden_size": "{name}"}}')
    monkeypatch.chdir(tmp_path)
    first, second = (run_name_of_lab(encoder=f"{name}/encoder") for name in ("x", "y"))
    assert first != second and run_name_of_lab(encoder=str(tmp_path / "x/encoder")).startswith("lab+encoder=encoder-")
    assert run_name_of_lab(encoder=str(tmp_path / "x/encoder"))[-6:] == first[-6:]
    shutil.copytree(tmp_path / "x", tmp_path / "z")
    assert run_name_of_lab(encoder=str(tmp_path / "z/encoder")) == run_name_of_lab(encoder=str(tmp_path / "x/encoder"))


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
    place = run_name_of_lab(notebook, **{parameter: first})
    assert (
        place.startswith(f"lab+{session.parameters_of(notebook)[parameter].key}=mine-") and len(place) < 40
    )  # no folder of this machine
    assert place == run_name_of_lab(notebook, **{parameter: write_files(tmp_path / "again/mine", law="1", tax="2")})
    others = {"law": "2", "tax": "1"}, {"law": "1", "tax": "2", "web": "3"}, {"law": "1", "taxes": "2"}
    for number, texts in enumerate(others):
        folder = write_files(tmp_path / f"{number}/mine", **texts)
        assert run_name_of_lab(notebook, **{parameter: folder}) != place


def test_a_file_of_vectors_or_of_general_questions_is_told_by_its_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(name)
    for notebook, name in (("06_a2d_main", "glove"), ("18_your_domains", "warmup_data")):
        first, second = (
            run_name_of_lab(notebook, **{name: str(tmp_path / one / "file.txt")}) for one in ("one", "two")
        )
        assert first != second and first.startswith(f"lab+{session.parameters_of(notebook)[name].key}=file.txt-")


def test_values_that_a_folder_cannot_be_named_by_stay_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Mix").mkdir()  # no method is a folder
    assert run_name_of_lab("18_your_domains", methods="Mix") == "lab+methods=Mix"
    both, combined = (run_name_of_lab("18_your_domains", methods=text) for text in ("IMM A2D", "IMM+A2D"))
    assert both != combined and both.startswith("lab+methods=IMM-A2D-")


COPIES = """
name = "mine"
extends = "lab"
warmup_data = "law/all.json"
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
        return run_name_of("00_corpora", {"preset": str(tmp_path / "mine.toml"), "data_dir": str(folder)})

    assert place() == "mine"
    for name in ("law", "tax", "file"):
        assert place(**{name: "0" * 16}).startswith("mine+data.folder=copy-")
    (folder / "tax/more.json").write_text("4")
    session.content_of.cache_clear()
    assert place().startswith("mine+data.folder=copy-")


LAB = {
    "02_imm_main": {"data_dir": "data/qa"},
    "06_a2d_main": {"data_dir": "data/qa"},
    "10_hrkd_main": {"mnli_dir": "data/nlu/mnli-genres", "reviews_dir": "data/nlu/amazon-reviews"},
    "13_mtdnn_kd_main": {"tasks_dir": "data/nlu"},
    "15_mtdnn_main": {"data_dir": "data/qa", "tasks_dir": "data/nlu"},
    "18_your_domains": {"data_dir": "data/qa"},
}


@pytest.mark.parametrize("notebook", LAB)
@pytest.mark.parametrize("preset", ["lab", "lab-large"])
def test_lab_is_itself_from_copies_of_its_corpora_and_encoder(notebook, preset, shared, tmp_path):
    parameters = {name: str(shared / place) for name, place in LAB[notebook].items()}
    parameters |= {"preset": preset, "encoder": str(shared / "models/all-MiniLM-L6-v2")}
    assert run_name_of(notebook, parameters) == preset
    folder = write_files(tmp_path / "data", law="1", tax="2")
    for name in LAB[notebook]:
        other = parameters | {name: folder}
        assert run_name_of(notebook, other).startswith(f"{preset}+{name.partition('_')[0]}.folder=data-")


def test_long_differences_are_cut_and_stay_apart():
    parameters = {"preset": "smoke", "similarity": "uniform", "annealing": "constant", "multi_domain_start": "theta"}
    first, second = (run_name_of("02_imm_main", {**parameters, "seeds": seeds}) for seeds in (3, 4))
    assert first != second and len(first) < 80


def test_a_run_with_another_size_leaves_the_published_record_alone(results):
    preset = session.preset_for("01_imm_similarity", "smoke")
    first = session.Session(preset, {}, "smoke").save("imm/similarity", **tables.similarity(preset))
    figures.save(first)
    published = [paths.record("smoke", first.artefact, end) for end in ("json", "svg")]
    before = [path.read_bytes() for path in published]
    job, of_report = runner.select_jobs(["01_imm_similarity"], {"preset": "smoke", "train_size": 12})
    assert runner.execute(job, force=False).endswith(" s")
    assert [path.read_bytes() for path in published] == before
    other = records.read(paths.record("smoke+data.train_size=12", "imm/similarity"))
    assert other.preset == "smoke+data.train_size=12" and other.scores != first.scores
    assert of_report.run_name == job.run_name == "smoke+data.train_size=12"
    executed = nbformat.read(paths.notebooks(other.preset) / "01_imm_similarity.ipynb", as_version=4)
    texts = [output.get("text", "") for cell in executed.cells for output in cell.get("outputs", [])]
    assert "smoke+data.train_size=12, as these are not the preset's own settings" in "".join(texts)
    assert paths.models(other.preset) == paths.models("smoke")


def test_the_report_of_a_presets_file_is_redrawn_wherever_that_lies(executed, tmp_path):
    file = tmp_path / "a+b/mine.toml"
    file.parent.mkdir()
    file.write_text('name = "mine"\nextends = "smoke"\n')
    for preset, place in ((str(file), "mine"), ("smoke+seeds=1", "smoke+seeds=1"), ("smoke", "smoke")):
        records.write(claimed().model_copy(update={"preset": place}))
        assert cli.main(["figures", "--preset", preset]) == 0
        assert paths.record(place, "imm/table1", "svg").is_file()
