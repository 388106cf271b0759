"""Notebook 18: readers of somebody's own domains by several methods, and the best of each."""

import json
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from conftest import waves_of
from qa_files import MINE, write_examples

import helpers
from helpers import engine, papers, paths
from helpers.data.load import load_domains
from helpers.data.mini import world
from helpers.data.questions import read_questions
from helpers.errors import UserError
from helpers.notebooks import runner
from helpers.notebooks.session import Session, preset_for, with_settings
from helpers.papers import shared
from helpers.papers.your_domains import comparison, coverage, tables
from helpers.presets.load import load_preset
from helpers.records import Record, Score
from helpers.training import Training

ENSEMBLE, DISTILLED, COMBINED = (comparison.METHODS[word].row for word in ("Ensemble", "A2D", "IMM+A2D"))
ALONE = """
import sys, torch, transformers
model = transformers.AutoModelForQuestionAnswering.from_pretrained(sys.argv[1])
pair = transformers.AutoTokenizer.from_pretrained(sys.argv[1])("Who?", "Ann Lee leads Gamma.", return_tensors="pt")
print(model(**pair).start_logits.shape[0], "helpers" in sys.modules)
"""


@pytest.fixture(scope="module")
def files(module_results):
    """A file and a subfolder of questions, a preset for them, and a file of general questions."""
    folder = module_results / "mine"
    for name in ("my news.json", "trivia/all.json"):
        domain = "trivia" if "trivia" in name else "news"
        write_examples(folder / "files" / name, world.load_domain(domain, train_size=60).train)
    write_examples(folder / "general.json", world.load_domain("search", train_size=40).train)
    (folder / "mine.toml").write_text(MINE)
    return folder


@pytest.fixture(scope="module")
def preset(files):
    """The preset of notebook 18 for these files."""
    preset = preset_for("18_your_domains", str(files / "mine.toml"))
    return with_settings(preset, {"data.folder": str(files / "files")})


@pytest.fixture(scope="module")
def trained(preset, files):
    """Readers that start from a general one, by all methods but two, and their record."""
    changes = {"warmup_data": str(files / "general.json"), "methods": "Mix IMM+A2D Ensemble A2D"}
    preset = preset.model_copy(update=changes)
    models = engine.run(comparison.train_readers(preset), preset.engine)
    parts = engine.run(tables.table(models), preset.engine)
    parts["scores"] += tables.measure(models)
    return models, Session(preset, {}, "mine").save("imm/your_domains", **parts)


def test_methods_are_selected_by_name():
    assert comparison.select_methods("all") == [*comparison.METHODS]
    assert comparison.select_methods("IMM Mix") == ["Single", "Mix", "IMM"]
    assert comparison.select_methods("IMM+A2D") == ["Single", "IMM", "IMM+A2D"]
    assert comparison.select_methods("Ensemble") == ["Single", "Ensemble"]
    with pytest.raises(UserError, match=r"^methods: 'MIX'; expected all, or some of Single, Mix, FT"):
        comparison.select_methods("MIX IMM")


def make_job(files, **parameters):
    parameters |= {"preset": str(files / "mine.toml"), "data_dir": str(files / "files")}
    return runner.make_job("18_your_domains", parameters)


def test_readers_are_chosen_by_the_record_and_of_the_first_seed_where_its_seed_was_not_trained():
    models = SimpleNamespace(by_row={"Mix": {5: {"news": ("of 5",)}, 6: {"news": ("of 6",)}}})
    for seed, reader in {6: "of 6", 0: "of 5"}.items():  # a record to which seeds were added has its first choice
        payload = {"best": {"news": "Mix"}, "seeds": {"news": seed}}
        assert comparison.choose_readers(models, payload) == {"news": reader}


def test_the_methods_that_are_named_are_trained_before_the_notebook_begins(files):
    schedule = engine.Schedule({"": make_job(files, methods="Mix").plan()})
    labels = {task.label for task in schedule.tasks.values() if isinstance(task, Training)}
    assert labels == {"Single, my-news, seed 0", "Single, trivia, seed 0", "Mix, seed 0"}
    every = engine.Schedule({"": make_job(files).plan()})
    assert schedule.tasks.keys() < every.tasks.keys() and any("BAM" in task.label for task in every.tasks.values())
    refused = engine.Schedule({"": make_job(files, methods="MIX").plan()}).outcomes[""]
    assert isinstance(refused, UserError) and "'MIX'" in str(refused)


def test_the_control_with_equal_steps_is_trained_where_the_preset_has_one(preset):
    two = (preset.model_copy(update={"methods": "Mix", "control_seeds": number}) for number in range(2))
    _, notebook = papers.find_paper("18_your_domains")
    without, with_control = (engine.Schedule(notebook.make_plans(one)) for one in two)
    assert without.outcomes == {f"your_domains.tables:{name}": {} for name in ("side_by_side_equal", "learning_curve")}
    assert with_control.outcomes == {}
    assert without.tasks.keys() < with_control.tasks.keys()


def test_every_file_and_subfolder_is_a_domain(preset, files):
    assert preset.data.domains == {"my-news": "my news.json", "trivia": "trivia"}
    lab = preset_for("15_mtdnn_main", "lab")
    changed = with_settings(lab, {"data.folder": preset.data.folder})
    assert lab.warmup_data and not changed.warmup_data  # it is a file of lab's
    assert tables.state_sizes(preset)[1] == "fewer than 100 questions to train or to test on: my-news, trivia"


def test_all_that_is_wrong_with_files_is_told_at_once(files, tmp_path):
    shutil.copytree(files / "files", tmp_path / "files")
    for name in ("empty", "void"):
        (tmp_path / f"files/{name}.json").write_text("")
    preset = preset_for("18_your_domains", str(files / "mine.toml"))
    changed = with_settings(preset, {"data.folder": str(tmp_path / "files")})
    with pytest.raises(UserError) as error:
        load_domains(changed.data)
    lines = str(error.value).splitlines()
    assert [line.rpartition("/")[2] for line in lines] == [
        f"{name}.json: is empty; fill it in, or remove it" for name in ("empty", "void")
    ]


def test_a_language_that_the_encoder_does_not_know_is_named(preset, monkeypatch):
    monkeypatch.setattr(tables, "PIECES", 0.9)
    (*_, news, trivia) = tables.state_sizes(preset)
    assert re.match(r"my-news: the encoder cuts a word into 1\.\d pieces, so it may not know", news), trivia


@pytest.mark.parametrize("page", ["data/README.md", "notebooks/18_your_domains.ipynb"])
def test_the_file_of_questions_that_a_stranger_sees_first_is_one(page, tmp_path):
    text = (paths.ROOT / page).read_text(encoding="utf-8")
    if page.endswith("ipynb"):
        text = "".join(json.loads(text)["cells"][0]["source"])
    (tmp_path / "reviews.csv").write_text(text.split("```\n")[1])
    records, _ = read_questions(tmp_path / "reviews.csv")
    answers = [record.example.answers for record in records]
    assert answers == [("ice",), ("every day",), ("The handle",), ("The box",)]


def test_all_readers_start_from_one_of_general_questions(trained):
    models, _ = trained
    of_rows = [models.by_row[row][0]["trivia"][0].preset for row in ("Single", ENSEMBLE, DISTILLED)]
    assert len({(preset.encoder, preset.random_layers) for preset in of_rows}) == 1
    assert of_rows[0].encoder.endswith("/model") and of_rows[0].random_layers == 0


def test_the_combined_reader_is_taught_by_each_domains_own_reader_of_imm(trained):
    models, record = trained
    (student,) = models.by_row[COMBINED][0]["trivia"]
    readers = models.by_row["IMM"][0]
    assert student.data.names == ("my-news", "trivia") and "ANS" in student.loss.keywords["weights"]
    outputs = [of_domain.models for of_domain in student.teacher.outputs]
    assert outputs == [{f"train/{name}": readers[name]} for name in ("my-news", "trivia")]
    cost = Record.model_construct(**tables.cost(models, record))
    steps = {score.method: score.value for score in cost.scores if score.metric == tables.STEPS}
    assert steps["Single"] <= steps["Mix"] < steps[ENSEMBLE] < steps[DISTILLED]
    assert steps["IMM"] < steps[COMBINED] and comparison.BEST not in steps


def test_each_seed_costs_its_own_steps(trained):
    models, record = trained

    class TwoSeeds(list):
        by_row, preset = {"IMM": {0: {}, 1: {}}}, models.preset

        def trainings(self, row, seed):  # the second seed stopped a round earlier
            return [SimpleNamespace(result=lambda: {"steps": 20})] * (3 - seed)

    scores = [Score(method="IMM", column="x", seed=seed, value=80.0, metric="F1") for seed in (0, 1)]
    parts = tables.cost(TwoSeeds(), record.model_copy(update={"scores": scores}))
    assert [score.value for score in parts["scores"] if score.metric == tables.STEPS] == [60, 40]


def test_the_best_on_validation_is_no_ensemble_and_has_a_row_of_its_own(trained, monkeypatch):
    models, record = trained
    rows = ["Single", "Mix", "IMM", ENSEMBLE, DISTILLED, COMBINED, comparison.BEST]
    assert record.rows == rows
    assert set(record.payload["best"]) == {"my-news", "trivia"}
    monkeypatch.setattr(papers.shared, "answer_sets", lambda preset, cells: iter(()))
    f1 = {"Single": (20.0, 60.0), "Mix": (50.0, 10.0), "IMM": (30.0, 30.0), DISTILLED: (40.0, 40.0)}
    f1[COMBINED] = (0.0, 0.0)
    by_cell = {(row, name, 0): of[n] for row, of in f1.items() for n, name in enumerate(("my-news", "trivia"))}
    monkeypatch.setattr(papers.shared, "average_f1", lambda *_: by_cell)
    best = engine.run(comparison.choose_on_validation(models), models.preset.engine)
    assert best == {"my-news": ("Mix", 0), "trivia": ("Single", 0)}


def test_the_seed_is_chosen_on_questions_as_hard_as_its_own(trained, monkeypatch):
    models, _ = trained
    two = shared.Models(models.preset.model_copy(update={"seeds": 2}))
    for row in ("Single", "Mix"):
        for seed in range(2):
            two.add(row, seed, models.by_row[row][0])
    f1 = {("Single", 0): 50.0, ("Single", 1): 80.0, ("Mix", 0): 70.0, ("Mix", 1): 81.0}
    by_cell = {(row, name, seed): value for (row, seed), value in f1.items() for name in ("my-news", "trivia")}
    monkeypatch.setattr(papers.shared, "answer_sets", lambda preset, cells: iter(()))
    monkeypatch.setattr(papers.shared, "average_f1", lambda *_: by_cell)
    for draws, seed in (("ab", 0), ("aa", 1)):  # of validation questions: easier ones with seed 1, or the same
        prints = iter(draws * 2)
        monkeypatch.setattr(comparison, "fingerprint_examples", lambda *_, prints=prints: next(prints))
        best = engine.run(comparison.choose_on_validation(two), two.preset.engine)
        assert best == {"my-news": ("Mix", seed), "trivia": ("Mix", seed)}


def test_the_table_says_how_sure_each_difference_is(trained):
    _, record = trained
    assert record.baselines == ["Single", "Mix"]
    above = {(each["method"], each["baseline"], each["column"]): each for each in record.payload["differences"]}
    assert len(above) == 2 * 3 * len(record.rows) - 2 * 3  # two baselines, of two domains and over both
    parts = {part.unit: part for part in record.by_metric()}
    f1 = {(score.method, score.column): score.value for score in parts["F1"].scores}
    for (row, baseline, column), each in above.items():
        columns = [column] if column != tables.ALL else ["my-news", "trivia"]
        mean = sum(f1[row, name] - f1[baseline, name] for name in columns) / len(columns)
        assert each["mean"] == pytest.approx(mean, abs=1e-4) and each["low"] <= each["mean"] <= each["high"]
    sizes = {score.method: score.value for score in parts[tables.SIZE].scores}
    assert sizes[ENSEMBLE] == pytest.approx(2 * sizes["Mix"]) and {score.method for score in parts["EM"].scores}
    table = tables.summarise(record)
    assert list(table.index.levels[0]) == sorted([tables.ALL, "my-news", "trivia"])
    assert table.loc[(tables.ALL, "Mix"), tables.MILLISECONDS] and not table.loc[("trivia", "Mix"), tables.MILLISECONDS]
    sure = {"mean": 2.0, "low": 0.5, "high": 3.0, "passages": 9, "method": "Mix", "baseline": "Single", "column": "a"}
    assert (
        tables.is_sure(sure) and not tables.is_sure(sure | {"passages": 1}) and not tables.is_sure(sure | {"low": 0.0})
    )
    notes = tables.state_choices({"a": "Mix", "b": "Single"}, [sure])
    assert notes[0].endswith("+2.0 F1 above Single (+0.5 to +3.0 over 9 passages: above 0)")
    assert notes[1] == "b: Single is best on validation questions"


def test_kept_readers_load_with_transformers_alone_and_answer(trained, tmp_path, capsys):
    models, record = trained
    tables.keep_best_readers(models, record, str(tmp_path / "kept"))
    for name, row in record.payload["best"].items():
        folder = tmp_path / "kept" / name
        readme = (folder / "README.md").read_text()
        assert readme.startswith(f"# {name}: {row}\n") and f"\n| {name} |\n| --- |\n" in readme
        answer = helpers.load_reader(folder).answer("Who leads Gamma?", "Ann Lee leads Gamma.")
        assert answer.text and answer.text in "Ann Lee leads Gamma."
    alone = subprocess.check_output([sys.executable, "-c", ALONE, folder], cwd=tmp_path, text=True)
    assert alone.split() == ["1", "False"]


def test_fewer_answers_are_wrong_where_the_surest_are_given(trained):
    models, record = trained
    table = engine.run(coverage.coverage(models, record), models.preset.engine)
    assert [*table] == ["my-news", "my-news, expected", "trivia", "trivia, expected"]
    expected = table["trivia, expected"]
    assert [*table.index] == [*range(10, 101, 10)] and expected.is_monotonic_increasing
    assert table.to_numpy().min() >= 0 and table.to_numpy().max() <= 100
    lines = coverage.draw_coverage(table).axes[0].get_lines()
    assert lines[0].get_color() == lines[1].get_color() != lines[2].get_color()


def test_a_notebook_is_not_done_where_a_model_that_it_kept_is_gone(trained, files, tmp_path, capsys):
    job = make_job(files, keep=str(tmp_path / "kept"))
    for file, text in {job.output: "", job.running / job.notebook: runner.fingerprint_of(job)}.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert make_job(files).card is job.card and not job.is_done()
    tables.keep_best_readers(*trained, str(tmp_path / "kept"))
    assert job.is_done()
    shutil.rmtree(tmp_path / "kept/trivia")
    assert not job.is_done()


def test_all_methods_of_a_seed_read_the_same_draw(monkeypatch):
    preset = load_preset("smoke", "imm", seeds=2, **{"data.domains": {"news": "news", "encyclopedia": "encyclopedia"}})

    def untrained(*_):
        yield []
        return shared.Models(preset), {}

    def train(methods):
        return readers_of(comparison.train_readers(preset.model_copy(update={"methods": methods})))

    monkeypatch.setattr(comparison.imm_algorithm, "train_methods", untrained)
    first, again, models = train("Ensemble A2D")
    assert list(models.by_row) == [ENSEMBLE, DISTILLED] and len(first) == 2 * 2 * 3
    assert [one.key for one in first] == [one.key for one in again]
    for row, _, seed, members in models:
        assert {reader.preset.data.draw for reader in members} == {preset.for_seed(seed).data.draw}, row
    for methods, rows in (("Single", []), ("Ensemble", [ENSEMBLE])):
        *_, models = train(methods)
        assert list(models.by_row) == rows


def readers_of(plan):
    """The trainings that are to be done at once with the rows of Table 1, those that come after, and all models."""
    starts = {seed: waves_of(start)[1] for seed, start in next(plan).items()}
    side_by_side = plan.send(starts)
    assert list(side_by_side) == ["rows", "others"]
    (others,), _ = waves_of(side_by_side["others"])
    rows = waves_of(side_by_side["rows"])[1]
    after = plan.send({"rows": rows})
    with pytest.raises(StopIteration) as stop:
        next(plan)
    return others, list(after), stop.value.value
