"""Results of other settings than a preset's own lie beside its published ones."""

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
        ("02_imm_main", {"preset": "mini", "encoder": "my/encoder v2"}, "mini+encoder=my-encoder-v2"),
        ("19_your_domains", {"preset": "lab", "methods": "Mix", "keep": "there"}, "lab+methods=Mix"),
        ("99_report", {"preset": "mini", "results": "mini+seeds=1"}, "mini"),
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


def test_so_have_files_that_are_not_those_of_the_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (*session.preset_for("02_imm_main", {"preset": "lab"}).data.domains.values(), "mine/a.json"):
        path = tmp_path / ("lab" if "/" not in name else "") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for folder, place in {"lab": "lab", "mine": "lab+data_dir=mine,encoder=my-encoder"}.items():
        parameters = {"preset": "lab", "data_dir": folder, "encoder": "my/encoder", "keep": "there"}
        assert session.place_of("19_your_domains", parameters) == place


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
