"""Presets: what a file may say, what extends what, and messages about mistakes."""

import re

import pytest

from helpers import engine, paths
from helpers.papers.imm import algorithm
from helpers.presets.load import PRESET_NAMES, PresetError, load_preset
from helpers.training import trainings_of

MINI = (paths.PRESETS / "mini.toml").read_text().replace('name = "mini"', 'name = "mine"')


@pytest.fixture
def mine(tmp_path):
    """A function that writes the file mine.toml and returns its path."""

    def write(text):
        (path := tmp_path / "mine.toml").write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_loads_under_its_name_on_every_machine(name, monkeypatch):
    first = load_preset(name, "imm", "imm_main")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert load_preset(name, "imm", "imm_main") == first and first.name == name


def test_a_topic_is_a_paper_or_a_notebook():
    with pytest.raises(PresetError, match=r"^no topic 'im'; did you mean 'imm'\?$"):
        load_preset("mini", "im")
    with pytest.raises(PresetError, match=r"^no topic 'imn'; did you mean 'imm'\?$"):
        load_preset("mini", "imn")
    assert load_preset("mini", "a_paper_elsewhere") == load_preset("mini")
    with pytest.raises(PresetError, match=r"^expected a topic such as 'imm', found \{'seeds': 2\}; give"):
        load_preset("mini", {"seeds": 2})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch_size = 16", "batchsize = 16", "mine.toml: training.batch_size: the key is missing; add it; training."),
        ("batch_size = 16", "batchsize = 16", "training.batchsize: unknown key; did you mean training.batch_size?"),
        ("[engine]", "[imm.more]\nseeds = 1\n[engine]", "mine.toml: imm.more: unknown key; delete it"),
        ("seeds = 1", "epochs = 2", "epochs: unknown key; did you mean training.epochs?"),
        ("seeds = 1", 'data_dir = "files"', "data_dir: unknown key; did you mean data.folder?"),
        ("seeds = 1", "train_size = 2", "train_size: unknown key; did you mean data.train_size?"),
        ("seeds = 1", "seedz = 2", "seedz: unknown key; did you mean seeds?"),
        ("graph_width = 16", "graph_widht = 16", "hrkd.graph_widht: unknown key; did you mean hrkd.graph_width?"),
        ("seeds = 1", 'seeds = "three"', "mine.toml: seeds: expected a valid integer, found 'three'"),
        ("learning_rate = ", "learning_rate = -", "training.learning_rate: expected greater than 0, found -0.001"),
        ('source = "mini"', 'source = "web"', "data.source: expected 'mini', 'files' or 'hub', found 'web'"),
        ("dropouts = [0.0, 0.02, 0.04]", "dropouts = []", "mtdnn_kd.dropouts: List should have at least 1 item"),
        ("seeds = 1", "seeds = ", "mine.toml: not valid TOML: Invalid value (at line 4"),
        ("[papers.imm]", "[papers]\nother = 3\n[papers.imm]", "mine.toml: papers is not a table; write [papers."),
        ('name = "mine"', 'name = "mine"\npapers = 3', "mine.toml: "),
    ],
)
def test_a_wrong_key_is_one_clear_line(mine, old, new, message):
    assert old in MINI
    with pytest.raises(PresetError, match=re.escape(message)) as error:
        load_preset(mine(MINI.replace(old, new, 1)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"data.domains": {"law": "law", "med": "med"}, "data.adversarial.domain": "tax"},
            "data: adversarial.domain is 'tax', which is none of the domains law, med; correct it, or delete the "
            "section [data.adversarial]",
        ),
        (
            {"data.domains": {"my law": "law"}, "data.adversarial": None},
            "data.domains.my law: the name 'my law' has a space: give the domain a name of letters, digits, - and _",
        ),
        ({"data.domains": {}}, "data.domains: Dictionary should have at least 1 item after validation, not 0, found"),
        ({"data.unanswerable": 3}, "data.unanswerable.bool: expected a valid boolean, found 3; data.unanswerable.list"),
        ({"data.unanswerable": ["law"]}, "data: unanswerable lists 'law', which is none of the domains wikipedia, "),
    ],
)
def test_domains_that_cannot_be_are_one_clear_line(overrides, message):
    with pytest.raises(PresetError) as error:
        load_preset("lab", **overrides)
    assert str(error.value).startswith(f"preset lab: {message}")


def test_an_unknown_name_lists_the_presets_and_a_name_that_is_taken_is_refused(mine):
    names = "smoke, mini, study, lab, lab-large, paper"
    with pytest.raises(PresetError, match=f"no preset 'maxi': give one of {names} or the path of a TOML file"):
        load_preset("maxi")
    for text in (MINI.replace('"mine"', '"mini"'), 'extends = "mini"\n'):
        with pytest.raises(PresetError, match=r"mine\.toml: the name 'mini' is taken"):
            load_preset(mine(text))


def test_overrides_and_all_questions_win():
    assert load_preset("mini", "imm", **{"training.epochs": 9.0}).training.epochs == 9.0
    few, everything = load_preset("mini", "imm"), load_preset("mini", "imm", **{"data.train_size": 0})
    assert few.data.train_share < 1 and everything.data.train_share == 1 and everything.data.train_size == 0


def test_a_file_extends_a_shipped_preset(mine):
    text = (
        'name = "mine"\nextends = "mini"\nseeds = 7\n[imm]\nmax_rounds = 2\n[data]\nvalid_size = 30\n[data.domains]\n'
    )
    path = mine(text + 'news = "news"\n[papers.a2d]\n"training.epochs" = 9.0\n[papers.mine]\nseeds = 1\n')
    mini, extended = load_preset("mini"), load_preset(path)
    assert (extended.seeds, extended.imm.max_rounds) == (7, 2)
    assert extended.imm.figure3_max_rounds == mini.imm.figure3_max_rounds
    assert extended.data.domains == {"news": "news"} and extended.data.adversarial is None
    assert (extended.training, extended.encoder) == (mini.training, mini.encoder)
    a2d = load_preset(path, "a2d")
    assert (a2d.training.epochs, a2d.seeds, a2d.data.train_size) == (9.0, 7, 600)
    assert load_preset(path, "a2d", "mine").seeds == 1
    path = mine(MINI + '\n[papers.of_tasks]\n"tasks.tasks" = { RTE = "inference-small" }\n')  # replaces all tasks
    assert load_preset(path, "of_tasks").tasks.tasks == {"RTE": "inference-small"}
    with pytest.raises(PresetError, match=r"mine.toml: extends is 'mine.toml'; give one of smoke, mini"):
        load_preset(mine('name = "mine"\nextends = "mine.toml"\n'))


def test_what_a_file_sets_for_all_papers_wins_over_what_its_base_sets_for_one(mine):
    path = mine('name = "mine"\nextends = "mini"\n[training]\nbatch_size = 4\n[papers.imm]\n"data.test_size" = 9\n')
    imm, mini = load_preset(path, "imm"), load_preset("mini", "imm")
    assert (imm.training.batch_size, imm.data.test_size) == (4, 9)
    assert imm.training.epochs == mini.training.epochs and mini.training.batch_size == 8


def test_lab_large_is_lab_with_all_questions_or_more():
    for topics in ((), ("imm", "imm_main"), ("a2d",), ("a2d", "a2d_narrativeqa"), ("hrkd",), ("mtdnn_kd",), ("mtdnn",)):
        lab, large = load_preset("lab", *topics), load_preset("lab-large", *topics)
        assert large.tasks.train_size == 0 and large.data.train_size == (1000 if "imm" in topics else 0)
        assert 0 < lab.data.train_size < 1000 or "imm" not in topics
        assert (large.seeds, large.data.domains, large.encoder) == (5, lab.data.domains, lab.encoder)
        assert large.training.epochs >= lab.training.epochs and large.windows.max_length == 384


def test_presets_that_share_trainings_train_the_first_seeds_once(results):
    def readers(name):
        preset = load_preset(name, "imm")
        plans = {seed: algorithm.train_baselines(preset.for_seed(seed), seed) for seed in range(2)}
        return {task.folder for task in trainings_of(*engine.Schedule(plans).tasks.values())}

    mini = readers("mini")
    assert mini == readers("study") and {folder.parent for folder in mini} == {paths.models("mini")}
    assert load_preset("smoke").models == paths.models("smoke")


def test_questions_without_an_answer_are_a_setting_of_all_domains_or_some():
    for value, domains in ((False, ""), (True, "policy amazon"), (["policy", "reddit"], "policy")):
        data = load_preset("lab", **{"data.unanswerable": value}).data
        assert [name for name in ("policy", "amazon") if data.may_be_unanswerable(name)] == domains.split()
