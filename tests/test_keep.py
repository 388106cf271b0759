"""Models that are kept: which seed's, where they are written, and what is never overwritten."""

import os
import shutil
from types import SimpleNamespace

import pytest

from helpers.errors import UserError
from helpers.papers import model_folders
from helpers.papers.model_folders import check_keep, choose_best, is_saved, keep_models
from helpers.papers.shared import Models
from helpers.records import Score

RECORD = SimpleNamespace(
    scores=[Score(method="Mix", column=name, seed=0, value=50.0) for name in ("law", "tax")],
    title="F1 of readers",
    unit="F1",
    notes=[],
)


@pytest.fixture
def trained(tmp_path):
    """A training whose model has two files."""
    folder = tmp_path / "trained"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_text(f"new {name}")
    return SimpleNamespace(
        saved=lambda: folder, label="Mix, seed 0", preset=SimpleNamespace(encoder="e", warmup_data="")
    )


def keep(training, folder, *names):
    keep_models({name: ("Mix", training) for name in names}, str(folder), RECORD, "load FOLDER")


def contents(folder):
    return {file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("*") if file.is_file()}


def reader(validation):
    """A reader of two domains, whose validations are (mean, law, tax)."""
    history = [[step, mean, {"scores": {"law": law, "tax": tax}}] for step, (mean, law, tax) in enumerate(validation)]
    best = max(mean for mean, *_ in validation)
    scores = max(history, key=lambda point: point[1])[2]["scores"]
    return SimpleNamespace(best=best, best_scores=lambda: scores)


def test_a_domain_s_best_seed_is_that_with_its_own_best_score_of_the_weights_that_stay():
    first = reader([(50.0, 70.0, 30.0), (40.0, 80.0, 0.0)])  # whose last weights do not stay
    second = reader([(55.0, 50.0, 60.0)])
    models = Models(None)
    for seed, model in enumerate((first, second)):
        models.add("Mix", seed, {"law": model, "tax": model})
    assert choose_best(models, "Mix") == {"law": ("Mix", first), "tax": ("Mix", second)}


def test_a_kept_model_is_a_copy_with_a_readme(trained, tmp_path):
    keep(trained, tmp_path / "kept", "law", "tax")
    for name in ("law", "tax"):
        folder = tmp_path / "kept" / name
        assert (folder / "model.safetensors").read_text() == "new model.safetensors"
        readme = (folder / "README.md").read_text()
        assert readme.startswith(f"# {name}: Mix\n") and f"load {folder}" in readme


def test_what_is_kept_again_replaces_what_was_kept_and_leaves_no_old_shard(trained, tmp_path):
    shard = trained.saved() / "model-00001-of-00002.safetensors"
    shard.write_text("a shard")
    keep(trained, tmp_path / "kept", "law")
    shard.unlink()
    (trained.saved() / "config.json").write_text("newer")
    keep(trained, tmp_path / "kept", "law")
    files = contents(tmp_path / "kept")
    assert files["law/config.json"] == "newer" and f"law/{shard.name}" not in files
    assert all(name.startswith("law/") for name in files) and len(list((tmp_path / "kept").iterdir())) == 1


def put_file(folder):
    (folder / "law").write_text("mine")


def put_other_model(folder):
    (folder / "law").mkdir()
    (folder / "law/model.safetensors").write_text("mine")


def put_link_to_file(folder):
    (folder / "precious").write_text("mine")
    (folder / "law").mkdir()
    (folder / "law/model.safetensors").symlink_to(folder / "precious")


def put_link_to_folder(folder):
    (folder / "precious").mkdir()
    (folder / "precious/config.json").write_text("mine")
    (folder / "law").symlink_to(folder / "precious")


@pytest.mark.parametrize(
    ("put", "message"),
    [
        (put_file, r"law: expected a folder, found a file"),
        (put_other_model, r"law: model\.safetensors was not kept there"),
        (put_link_to_file, r"law: model\.safetensors is a link"),
        (put_link_to_folder, r"law: it is a link"),
    ],
)
def test_foreign_files_and_links_are_refused_and_stay(trained, tmp_path, put, message):
    folder = tmp_path / "kept"
    folder.mkdir()
    put(folder)
    before = contents(folder)
    with pytest.raises(UserError, match=message):
        check_keep(str(folder), ["tax", "law"])
    with pytest.raises(UserError, match=message):
        keep(trained, folder, "tax", "law")
    assert contents(folder) == before  # and nothing was written for the other name either


def test_a_kept_model_that_was_changed_or_added_to_is_refused(trained, tmp_path):
    keep(trained, tmp_path, "law")
    check_keep(str(tmp_path), ["law"])
    (tmp_path / "law/model.safetensors").write_text("trained further")
    with pytest.raises(UserError, match=r"law: model\.safetensors has changed since it was kept; choose"):
        keep(trained, tmp_path, "law")
    assert (tmp_path / "law/model.safetensors").read_text() == "trained further"
    shutil.rmtree(tmp_path / "law")
    keep(trained, tmp_path, "law")
    (tmp_path / "law/notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"law: notes\.txt was not kept there"):
        check_keep(str(tmp_path), ["law"])


@pytest.mark.parametrize("text", ["", "[]", "null", "[1]", "{}"])
def test_a_damaged_list_of_kept_files_protects_all_of_them(trained, tmp_path, text):
    keep(trained, tmp_path, "law")
    (tmp_path / "law" / model_folders.FILE_LIST).write_text(text)
    with pytest.raises(UserError, match="law: "):
        check_keep(str(tmp_path), ["law"])
    assert not is_saved(str(tmp_path), ["law"])


def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    for place, message in {
        "file": "expected a folder, found a file",
        "file/below": "file: expected a folder, found a file",
        "link": "it is a link; give the folder that it leads to",
    }.items():
        with pytest.raises(UserError, match=f"^keep: .*{message}"):
            check_keep(str(tmp_path / place), ["law"])
    with pytest.raises(UserError, match=r"^keep: .*cannot be written \(.*choose another folder"):
        check_keep("/proc/models", ["law"])
    for place in (tmp_path / ("x" * 300), tmp_path / "new" / ("x" * 300)):
        with pytest.raises(UserError, match=r"^keep: .* cannot be written \(File name too long\); choose"):
            check_keep(str(place), ["law"])
    monkeypatch.chdir(tmp_path)
    for place in (str(tmp_path / "new/and below"), "new/../../other", "~nobody-here/models"):
        check_keep(place, ["law"])
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "there"]


def test_a_folder_of_data_is_refused_as_its_entries_are_domains(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for place in (data, data / "models"):
        with pytest.raises(UserError, match="every entry is a domain; choose a folder outside"):
            check_keep(str(place), ["law"], [str(data), ""])
    check_keep(str(tmp_path / "models"), ["law"], [str(data)])


def test_kept_is_what_is_there_with_all_its_files(trained, tmp_path):
    assert not is_saved(str(tmp_path / "kept"), ["law"])
    keep(trained, tmp_path / "kept", "law", "tax")
    assert is_saved(str(tmp_path / "kept"), ["law", "tax"])
    (tmp_path / "kept/tax/model.safetensors").unlink()
    assert is_saved(str(tmp_path / "kept"), ["law"]) and not is_saved(str(tmp_path / "kept"), ["law", "tax"])


def test_a_kill_while_a_model_is_kept_leaves_the_old_or_nothing_and_the_next_keep_succeeds(trained, tmp_path):
    keep(trained, tmp_path, "law")

    def stop(training, name, folder):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keep_models({"law": ("Mix", trained)}, str(tmp_path), RECORD, "", stop)
    assert (tmp_path / "law/config.json").read_text() == "new config.json"
    keep(trained, tmp_path, "law")


def test_files_follow_the_umask(trained, tmp_path):
    for mask, mode in ((0o077, 0o600), (0o022, 0o644)):
        before = os.umask(mask)
        try:
            keep(trained, tmp_path / str(mask), "law")
        finally:
            os.umask(before)
        assert {file.stat().st_mode & 0o777 for file in (tmp_path / str(mask) / "law").iterdir()} == {mode}
