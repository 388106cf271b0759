import pytest

from helpers.presets import load as presets
from helpers.presets.load import PresetError, load


@pytest.mark.parametrize("name", presets.NAMES)
def test_every_preset_loads(name):
    assert load(name).name == name


def copy(tmp_path, old, new):
    path = tmp_path / "mine.toml"
    text = (presets.paths.PRESETS / "mini.toml").read_text().replace('name = "mini"', 'name = "mine"')
    path.write_text(text.replace(old, new))
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "batch_size = 16",
            "batchsize = 16",
            "mine.toml: training.batch_size: Field required .*training.batchsize: unknown key",
        ),
        ("seeds = 5", 'seeds = "three"', "mine.toml: seeds: Input should be a valid integer .got 'three'"),
        ("learning_rate = ", "learning_rate = -", "training.learning_rate: Input should be greater than 0"),
        ('source = "mini"', 'source = "web"', "data.source: Input should be 'mini', 'files' or 'hub'"),
        ("seeds = 5", "seeds = ", "mine.toml: not valid TOML: .*line"),
    ],
)
def test_a_wrong_key_is_one_clear_line(tmp_path, old, new, words):
    with pytest.raises(PresetError, match=words) as error:
        load(copy(tmp_path, old, new))
    assert "\n" not in str(error.value)


def test_a_copy_with_another_value(tmp_path):
    path = copy(tmp_path, "seeds = 5", "seeds = 1")
    assert load(path).seeds == 1 and load(path, **{"training.epochs": 9.0}).training.epochs == 9.0


def test_what_applies_without_a_gpu_and_what_was_asked_for(monkeypatch):
    monkeypatch.setattr(presets.torch.cuda, "is_available", lambda: False)
    on_cpu = load("lab", **{"data.train_size": 200})
    assert on_cpu.seeds == 1 and on_cpu.data.train_size == 200
    assert "seeds" in on_cpu.cpu and "data.train_size" not in on_cpu.cpu
    monkeypatch.setattr(presets.torch.cuda, "is_available", lambda: True)
    assert load("lab").seeds == 3 and load("lab").cpu == {}


def test_an_unknown_name_lists_the_known():
    with pytest.raises(PresetError, match="no preset 'maxi': give one of smoke, mini, lab, paper or the path"):
        load("maxi")


def test_a_copy_needs_a_name_of_its_own(tmp_path):
    path = tmp_path / "copy.toml"
    path.write_text((presets.paths.PRESETS / "mini.toml").read_text())
    with pytest.raises(PresetError, match="the name 'mini' is taken"):
        load(str(path))


def test_settings_without_a_gpu_may_be_nested_and_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(presets.torch.cuda, "is_available", lambda: False)
    assert load(copy(tmp_path, "[engine]", "[cpu]\ntraining.epochs = 9.0\n[engine]")).training.epochs == 9.0
    monkeypatch.setattr(presets.torch.cuda, "is_available", lambda: True)
    with pytest.raises(PresetError, match=r"training\.epoch: unknown key"):
        load(copy(tmp_path, "[engine]", "[cpu]\ntraining.epoch = 9.0\n[engine]"))


def test_what_a_paper_says_for_itself_without_a_gpu_wins(tmp_path, monkeypatch):
    monkeypatch.setattr(presets.torch.cuda, "is_available", lambda: False)
    own = "[cpu]\ntraining.epochs = 9.0\n[papers.a2d.cpu]\ntraining.epochs = 7.0\n[engine]"
    path = copy(tmp_path, "[engine]", own)
    assert load(path).training.epochs == 9.0 and load(path, "a2d").training.epochs == 7.0
    monkeypatch.setattr(presets.torch.cuda, "is_available", lambda: True)
    assert load(path, "a2d").training.epochs == load("mini", "a2d").training.epochs
