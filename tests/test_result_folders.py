"""Results of other settings than a preset's own lie beside its published ones."""

import time

import nbformat
import pytest

from helpers import __main__ as cli
from helpers import paths
from helpers.notebooks import runner, session
from helpers.papers.imm import tables
from helpers.results import figures, records


@pytest.mark.parametrize(
    ("notebook", "given", "folder"),
    [
        ("02_imm_main", {"preset": "mini", "seeds": None}, "mini"),
        ("02_imm_main", {"preset": "mini", "seeds": 2}, "mini"),  # which is its own number
        ("02_imm_main", {"preset": "mini", "seeds": 1}, "mini+seeds=1"),
        ("06_a2d_main", {"preset": "mini", "seeds": 2, "readers": "RMR"}, "mini+readers=RMR"),
        ("02_imm_main", {"preset": "mini", "encoder": "my/encoder v2"}, "mini+encoder=my-encoder-v2"),
        ("02_imm_main", {"preset": "lab", "encoder": "my/encoder", "data_dir": "somewhere"}, "lab"),
        ("10_hrkd_main", {"preset": "lab", "mnli_dir": "m", "corpora": "mnli"}, "lab"),  # a part of the same results
        ("02_imm_main", {"preset": "smoke", "rounds": 2, "annealing": "half"}, "smoke+rounds=2,annealing=half"),
    ],
)
def test_only_settings_that_change_results_have_a_folder_of_their_own(notebook, given, folder):
    assert session.place(given, notebook) == folder


def test_long_differences_are_cut_and_stay_apart():
    given = {"preset": "smoke", "similarity": "uniform", "annealing": "constant", "multi_domain_start": "theta"}
    first, second = (session.place({**given, "seeds": seeds}, "02_imm_main") for seeds in (3, 4))
    assert first != second and len(first) < 80 and paths.preset_name(first) == first


def test_a_run_with_another_size_leaves_the_published_record_alone(results):
    preset = session.preset_for({"preset": "smoke"}, "01_imm_similarity")
    own = session.Session(preset, {}).save("imm/similarity", **tables.similarity(preset))
    paths.report("smoke").write_text("the report of the published record")
    published = [paths.report("smoke"), *(paths.record("smoke", own.artefact, end) for end in ("json", "png", "svg"))]
    before = [path.read_bytes() for path in published]
    assert runner.run(["01_imm_similarity"], {"preset": "smoke", "train_size": 12}) == 0
    assert [path.read_bytes() for path in published] == before
    other = records.read(paths.record("smoke+train_size=12", "imm/similarity"))
    assert other.preset == "smoke+train_size=12" and other.scores != own.scores
    assert "smoke+train_size=12" in paths.report("smoke+train_size=12").read_text()
    said = "".join(
        output.get("text", "")
        for cell in nbformat.read(paths.notebooks(other.preset) / "01_imm_similarity.ipynb", as_version=4).cells
        for output in cell.get("outputs", [])
    )
    assert "these are not the preset's own settings, so results lie in" in said
    assert paths.models(other.preset) == paths.models("smoke")
    assert paths.other_results("smoke") == ["smoke+train_size=12"]


def test_the_report_of_a_presets_file_is_redrawn_wherever_that_lies(results, monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr(figures, "redraw", lambda preset: [tmp_path])
    monkeypatch.setattr(runner, "run", lambda wanted, parameters, force: called.append(parameters) or 0)
    for preset in (f"{tmp_path}/a+b/mine.toml", "smoke+seeds=1", "smoke", "imm-of-my-files"):
        assert cli.main(["figures", "--preset", preset]) == 0
    assert called == [
        {"preset": f"{tmp_path}/a+b/mine.toml"},
        {"preset": "smoke", "results": "smoke+seeds=1"},
        {"preset": "smoke"},
    ]


def test_a_run_that_finds_all_done_keeps_the_first_cost(results):
    preset = session.preset_for({"preset": "smoke"}, "02_imm_main")
    score = {"method": "IMM", "column": "news", "seed": 0, "value": 50.0}

    def seconds(begun, note="", **changes):
        made = session.Session(preset, {}, started=begun)
        parts = {"scores": [records.Score(**score | changes)], "claims": [], "notes": [note]}
        return made.save("imm/table1", **parts).run.seconds

    now = time.perf_counter()
    first = seconds(now - 300)
    assert first >= 300 and seconds(now, "in other words") == first
    assert seconds(now, value=51.0) < 300
    paths.record("smoke", "imm/table1").write_text("{")  # which cannot be read, and does not keep a run from its own
    assert seconds(now - 400) >= 400
