import re

import pytest

from helpers import paths
from helpers.papers.imm import algorithm
from helpers.presets import load as presets
from helpers.presets.load import PresetError, load
from helpers.training import engine


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
            "mine.toml: training.batch_size: Field required; training.batchsize: unknown key",
        ),
        ("seeds = 2", 'seeds = "three"', "mine.toml: seeds: Input should be a valid integer .got 'three'"),
        ("learning_rate = ", "learning_rate = -", "training.learning_rate: Input should be greater than 0"),
        ('source = "mini"', 'source = "web"', "data.source: Input should be 'mini', 'files' or 'hub'"),
        ("dropouts = [0.0, 0.02, 0.04]", "dropouts = []", "mtdnn_kd.dropouts: List should have at least 1 item"),
        ("seeds = 2", "seeds = ", "mine.toml: not valid TOML: .*line"),
    ],
)
def test_a_wrong_key_is_one_clear_line(tmp_path, old, new, words):
    with pytest.raises(PresetError, match=words) as error:
        load(copy(tmp_path, old, new))
    assert "\n" not in str(error.value)


def test_a_copy_with_another_value(tmp_path):
    path = copy(tmp_path, "seeds = 2", "seeds = 1")
    assert load(path).seeds == 1 and load(path, **{"training.epochs": 9.0}).training.epochs == 9.0


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


def test_what_applies_without_a_gpu_and_what_was_asked_for(no_gpu, monkeypatch):
    on_cpu = load("lab", **{"data.train_size": 200})
    assert on_cpu.seeds == 1 and on_cpu.data.train_size == 200
    limited = {limit.key: (limit.value, limit.instead_of) for limit in on_cpu.limits}
    assert limited["seeds"] == (1, 5) and "data.train_size" not in limited
    assert all(limit.why for limit in on_cpu.limits)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert load("lab").seeds == 5 and load("lab").limits == ()


def test_asking_for_all_questions_wins_over_limits_and_shares(no_gpu):
    assert load("lab", **{"data.train_size": 0}).data.train_size == 0
    few, everything = load("mini", "imm"), load("mini", "imm", **{"data.train_size": 0})
    assert few.data.train_share < 1 and everything.data.train_share == 1 and everything.data.train_size == 0


def test_what_a_paper_is_limited_to_wins(no_gpu):
    assert load("lab").data.train_size == 500 and load("lab", "imm").data.train_size == 150


def test_limits_change_these_numbers_of_shipped_presets_and_nothing_else(no_gpu, monkeypatch):
    table = presets._read(presets.paths.PRESETS / "limits.toml")
    assert table and set(table) <= set(presets.NAMES)
    for name, topics in table.items():
        for topic in topics:
            limited = load(name, topic).model_dump(exclude={"limits"})
            monkeypatch.setattr("torch.cuda.is_available", lambda: True)
            plain = load(name, topic).model_dump(exclude={"limits"})
            monkeypatch.setattr("torch.cuda.is_available", lambda: False)
            expected = {}
            for group in [*topics["all"], *(topics[topic] if topic != "all" else [])]:
                assert group["why"]
                expected |= {key: value for key, value in group.items() if key != "why"}
            own = presets._flat(plain)
            expected = {key: value for key, value in expected.items() if value != own[key]}
            changed = {key: value for key, value in presets._flat(limited).items() if own[key] != value}
            assert changed == expected and all(type(value) in (bool, int, float) for value in expected.values())


def test_a_papers_domains_and_tasks_replace_those_of_the_others(tmp_path):
    assert load("mini", "a2d").data.domains == {"encyclopedia": "encyclopedia"}
    path = tmp_path / "mine.toml"
    text = (presets.paths.PRESETS / "mini.toml").read_text().replace('name = "mini"', 'name = "mine"')
    path.write_text(text + '\n[papers.of_tasks]\n"tasks.tasks" = { RTE = "inference-small" }\n')
    assert load(str(path), "of_tasks").tasks.tasks == {"RTE": "inference-small"}


def test_a_copy_runs_as_it_is_written(tmp_path, no_gpu):
    text = (presets.paths.PRESETS / "lab.toml").read_text()
    head, _, tail = text.partition("[data.domains]")
    own = '[data.domains]\nlaw = "law"\nwikipedia = "mine"\n\n' + tail[tail.index("[data.adversarial]") :]
    path = tmp_path / "mine.toml"
    path.write_text((head + own).replace('name = "lab"', 'name = "mine"'))
    mine = load(str(path), "imm", "imm_main")
    assert mine.data.domains == {"law": "law", "wikipedia": "mine"}
    assert mine.limits == () and (mine.seeds, mine.data.train_size, mine.training.epochs) == (5, 0, 2.0)


def test_a_file_extends_a_shipped_preset(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\nextends = "mini"\nseeds = 7\n[imm]\nrounds = 2\n[data.domains]\nnews = "news"\n'
        '[papers.a2d]\n"training.epochs" = 9.0\n[papers.mine]\nseeds = 1\n'
    )
    mini, mine = load("mini"), load(str(path))
    assert (mine.seeds, mine.imm.rounds, mine.imm.curve) == (7, 2, mini.imm.curve)
    assert mine.data.domains == {"news": "news"} and mine.data.adversarial is None
    assert (mine.training, mine.encoder) == (mini.training, mini.encoder)
    a2d = load(str(path), "a2d")
    assert (a2d.training.epochs, a2d.seeds, a2d.data.train_size) == (9.0, 7, 1500)
    assert load(str(path), "a2d", "mine").seeds == 1
    path.write_text('name = "mine"\nextends = "mine.toml"\n')
    with pytest.raises(PresetError, match=r"mine.toml: extends is 'mine.toml'; give one of smoke, mini"):
        load(str(path))


def test_presets_that_share_trainings_train_the_first_seeds_once(results):
    def readers(preset):
        known = load(preset, "imm")
        plans = (algorithm.baselines(known.drawn(seed), seed, ["Single", "Mix"]) for seed in range(3))
        return {task.infra.uid_folder() for plan in plans for task in engine.replay(plan, lambda task: True).tasks}

    mini = readers("mini")
    assert mini == readers("study") and {folder.parents[1].parent.name for folder in mini} == {"mini"}
    assert load("smoke").models == paths.models("smoke") and load("study-large").models == paths.models("mini")


def test_a_copy_has_no_section_for_machines_without_a_gpu(tmp_path):
    for table, says in {"[cpu]": "cpu: unk", "[papers.imm.cpu]": "cpu: unk", "[limits]": "limits: Input s"}.items():
        with pytest.raises(PresetError, match=f"^mine.toml: {says}"):
            load(copy(tmp_path, "[engine]", f"{table}\nseeds = 1\n[engine]"), "imm")


def test_domains_without_that_of_the_adversarial_questions_are_one_sentence():
    with pytest.raises(PresetError) as error:
        load("lab", **{"data.domains": {"law": "law", "med": "med"}})
    assert str(error.value) == (
        "lab.toml: data: adversarial.domain is 'wikipedia', which is none of the domains law, med; correct it, or "
        "delete the section [data.adversarial]"
    )


def test_a_name_of_a_domain_with_a_space_is_refused_in_these_words():
    with pytest.raises(PresetError, match="the name 'my law' has a space: give the domain a name of letters, digits"):
        load("lab", **{"data.domains": {"my law": "law"}, "data.adversarial": None})


def test_questions_without_an_answer_are_a_setting_of_all_domains_or_some():
    assert not load("lab").data.may_be_unanswerable("news")
    everywhere = load("lab", **{"data.unanswerable": True}).data
    assert everywhere.may_be_unanswerable("news") and everywhere.may_be_unanswerable("amazon")
    some = load("lab", **{"data.unanswerable": ["news"]}).data
    assert some.may_be_unanswerable("news") and not some.may_be_unanswerable("amazon")
    with pytest.raises(PresetError, match="unanswerable lists 'law', which is none of the domains wikipedia"):
        load("lab", **{"data.unanswerable": ["law"]})


def test_an_unknown_name_lists_the_known():
    with pytest.raises(
        PresetError, match="no preset 'maxi': give one of smoke, mini, study, study-small, study-large, lab, paper or"
    ):
        load("maxi")


def test_a_copy_needs_a_name_of_its_own(tmp_path):
    path = tmp_path / "copy.toml"
    path.write_text((presets.paths.PRESETS / "mini.toml").read_text())
    with pytest.raises(PresetError, match="the name 'mini' is taken"):
        load(str(path))


def test_names_of_domains_may_be_a_text(tmp_path):
    assert load("lab", **{"data.unanswerable": "news amazon"}).data.unanswerable == ["news", "amazon"]
    with pytest.raises(
        PresetError, match=r"lab\.toml: data\.unanswerable: give true, false, or a list of domains, not 3"
    ):
        load("lab", **{"data.unanswerable": 3})
    with pytest.raises(PresetError, match=r"data\.domains: Dictionary should have at least 1 item"):
        load("lab", **{"data.domains": {}})


@pytest.mark.parametrize("line", ["papers = 3", "[papers]\nimm = 3"])
def test_papers_that_are_no_tables_are_refused(tmp_path, line):
    path = tmp_path / "mine.toml"
    path.write_text(f"{line.replace('[papers]', '')}\n" if line == "papers = 3" else "")
    text = (presets.paths.PRESETS / "smoke.toml").read_text().replace('name = "smoke"', 'name = "mine"')
    text = re.sub(r'\[papers\..*\n(".*\n)+', "", text)
    path.write_text(path.read_text() + text + ("" if line == "papers = 3" else f"\n{line}\n"))
    with pytest.raises(PresetError, match=r"mine\.toml: papers is no table; write"):
        load(str(path))
