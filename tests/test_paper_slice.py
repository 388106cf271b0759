"""Preset paper on invented corpora in the layouts of the real ones (paper_slice.py)."""

import shutil

import datasets
import paper_slice
import pytest

from helpers import paths
from helpers.data.folders import state_files
from helpers.data.load import load_adversarial, load_domains
from helpers.notebooks import session
from helpers.notebooks.planning import list_missing


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return paper_slice.write_slice(tmp_path_factory.mktemp("slice"))


@pytest.fixture
def settings_of(written, tmp_path, monkeypatch):
    """``settings_of(notebook, section, folder)``: a section where a notebook is given a folder for it."""
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    monkeypatch.setattr(session, "content_of", None)  # it would hash gigabytes, which are checked when they are read

    def load_section(notebook, section, folder=written.parent):
        preset, run_name = session.settle(notebook, str(written), {f"{section}.folder": str(folder)}, {})
        assert run_name == "paper-slice"  # copies change nothing
        return getattr(preset, section)

    return load_section


SIZES = {  # of the training, validation and test parts
    ("02_imm_main", "data"): ("SQuAD", 180, 20, 40),
    ("09_a2d_narrativeqa", "data"): ("SQuAD", 180, 20, 40),
    ("10_hrkd_main", "mnli"): ("Travel", 36, 4, 8),
    ("10_hrkd_main", "reviews"): ("Kitchen", 167, 15, 18),
    ("13_mtdnn_kd_main", "tasks"): ("MNLI", 180, 20, 40),
    ("15_mtdnn_main", "tasks"): ("SWAG", 180, 20, 40),
    ("15_mtdnn_main", "data"): ("SQuAD2", 180, 20, 40),
}


@pytest.mark.slow
@pytest.mark.parametrize(("notebook", "section"), SIZES)
def test_every_corpus_is_read_in_its_true_layout(settings_of, notebook, section):
    name, *sizes = SIZES[notebook, section]
    settings = settings_of(notebook, section)
    domains = load_domains(settings)
    assert list(domains) == list(settings.named)
    assert [len(getattr(domains[name], part)) for part in ("train", "valid", "test")] == sizes
    if section == "reviews":
        assert all("café &" in text.first for text in domains[name].train)  # latin-1
    if section == "data" and name == "SQuAD":
        assert all(e.context[slice(*e.span)] == e.answers[0] for e in domains[name].train)
        assert len(load_adversarial(settings)["AddSent"]) == 40


def test_a_folder_with_half_of_the_corpora_is_read_and_the_others_are_asked_for(settings_of, written, tmp_path):
    half = tmp_path / "half"
    for name in ("SQuAD", "NewsQA"):
        shutil.copytree(written.parent / "mrqa-2019" / name, half / "mrqa-2019" / name)
    shutil.copytree(written.parent / "mrqa-2019/HotpotQA", half / "HotpotQA")  # as a person's own files
    settings = settings_of("02_imm_main", "data", written.parent).model_copy(update={"folder": str(half)})
    assert state_files(settings).splitlines() == [
        "SQuAD: mrqa-2019/SQuAD, checked as mrqa-2019:SQuAD",
        "NewsQA: mrqa-2019/NewsQA, checked as mrqa-2019:NewsQA",
        "HotpotQA: train.jsonl.gz, validation.jsonl.gz",
        "NQ: mrqa-2019:NaturalQuestionsShort, by URL",
        "TriviaQA: mrqa-2019:TriviaQA-web, by URL",
    ]
    assert [line.partition(" (")[0] for line in list_missing(settings, "data")] == [
        "mrqa-2019:NaturalQuestionsShort",
        "mrqa-2019:TriviaQA-web",
        "adversarial-squad:AddSent",
        "adversarial-squad:AddOneSent",
        "narrativeqa:summaries",
    ]
