"""Notebooks: their form and parameters, what is run and what is skipped, and a paper beside the five."""

import ast
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import nbformat
import pytest
from nbclient.exceptions import DeadKernelError
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from qa_files import write_examples
from record_files import contradictions, repeated

from helpers import __main__ as cli
from helpers import papers, paths, records
from helpers.data.mini import world as mini
from helpers.engine import TasksFailed
from helpers.errors import UserError
from helpers.files import write_whole
from helpers.notebooks import runner
from helpers.notebooks import session as sessions
from helpers.notebooks.session import ParameterError, parameters_of, preset_for, settle, with_settings
from helpers.presets.load import PRESET_NAMES, PresetError, keys, load_preset
from helpers.results import stats

NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
GOLDEN = Path(__file__).parent / "golden"
ADDING = ("02_imm_main", "15_mtdnn_main")  # which show readers of a seed
ADDED = ("imm/table1.json", "mtdnn/table1.json")


@pytest.mark.slow
def test_every_notebook_runs_on_smoke(smoke):
    for path in NOTEBOOKS:
        job = runner.make_job(path.stem, {"preset": "smoke"})
        if job.card.left_out(job.preset):
            continue
        executed = nbformat.read(smoke / "notebooks" / path.name, as_version=4)
        assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")
        assert (smoke / "notebooks" / path.name).stat().st_size < 500_000
    assert (smoke / "report.html").stat().st_size > 10_000
    page = (smoke / "notebooks/17_playground.ipynb").read_text(encoding="utf-8")
    assert "IMM theta" in page and "IMM phi" not in page  # from which theta is trained on
    cells = nbformat.read(smoke / "notebooks/18_your_domains.ipynb", as_version=4).cells
    (coverage,) = [cell for cell in cells if "draw_coverage" in cell.source]
    assert "image/png" in coverage.outputs[0].data


def facts_of(path):
    """What of a record every run on one processor has to repeat, and the processor."""
    record = records.read(path)
    return without_words({**repeated(record), "processor": record.run.processor})


def without_words(facts):
    """Leave out title, notes and texts of claims, so that words may be mended."""
    for claim in facts.get("claims", ()):
        claim.pop("text", None)
    names = ("method", "column", "seed", "x", "metric")  # the order of scores is no result
    facts.get("scores", []).sort(key=lambda score: repr([score.get(name) for name in names]))
    return {name: value for name, value in facts.items() if name not in ("title", "notes")}


@pytest.mark.slow
def test_smoke_gives_the_golden_records(smoke):
    """Written by GOLDEN=write pytest (CONTRIBUTING.md). Numbers are those of one processor: others round otherwise in
    their last digits, and so train other readers. On these all else has to agree."""
    written = {str(path.relative_to(smoke)): facts_of(path) for path in sorted(smoke.glob("*/*.json"))}
    if os.environ.get("GOLDEN") == "write":
        for folder in {path.parent for path in GOLDEN.glob("*/*.json")}:
            shutil.rmtree(folder)
        for name, facts in written.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(json.dumps(facts, ensure_ascii=False) + "\n")
    files = sorted(GOLDEN.glob("*/*.json"))
    golden = {str(path.relative_to(GOLDEN)): without_words(json.loads(path.read_text())) for path in files}
    declared = {f"{paper.key}/{exhibit.name}.json" for paper in papers.list_papers() for exhibit in paper.exhibits}
    assert list(written) == list(golden) and set(golden) == declared - {"imm/your_teacher.json"}  # it needs a teacher
    for name, expected in golden.items():
        if expected.pop("processor") == written[name].pop("processor"):
            assert written[name] == expected, name
        for facts in (written[name], expected):
            for score in facts.get("scores", ()):
                score.pop("value")
            payload = facts.get("payload") or {}
            facts["payload"] = sorted(payload), list(payload.get("panels", ()))
        assert written[name] == expected, name


@pytest.mark.slow
def test_notebooks_add_a_seed_to_the_records(smoke, tmp_path, monkeypatch):
    shutil.copytree(smoke, tmp_path / "smoke")
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path))
    more = {"preset": "smoke", "engine.first_seed": 1, "engine.max_seeds": 1}
    assert runner.run([*ADDING], more) == 0
    before, after = (
        {name: len(records.read(folder / name).seeds) for name in ADDED} for folder in (smoke, tmp_path / "smoke")
    )
    assert after == {name: number + 1 for name, number in before.items()}


@pytest.mark.slow
def test_records_have_the_settings_that_they_were_made_with(smoke):
    problems = {path.name: contradictions(records.read(path)) for path in smoke.glob("*/*.json")}
    assert {name: problem for name, problem in problems.items() if problem} == {}


@pytest.mark.slow
def test_figures_and_report_are_redrawn_from_the_records(smoke, tmp_path, monkeypatch):
    others = ("models", "a2d", "hrkd", "mtdnn", "mtdnn_kd")  # one paper's records take a fifth of the time
    shutil.copytree(smoke, tmp_path / "smoke", ignore=shutil.ignore_patterns(*others))
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path))
    path, report = tmp_path / "smoke/imm/table1.json", tmp_path / "smoke/report.html"
    drawn = path.with_suffix(".svg").read_bytes()
    record = records.read(path)
    scores = [score.model_copy(update={"value": 77.7}) for score in record.scores]
    changes = {"title": "A table that was changed", "scores": scores}
    records.write(record.model_copy(update=changes))
    assert "A table that was changed" not in report.read_text()
    assert cli.main(["figures", "--preset", "smoke"]) == 0
    assert "preset smoke on" not in report.read_text()  # what the notebook printed of this machine
    assert "A table that was changed" in report.read_text() and path.with_suffix(".svg").read_bytes() != drawn


@pytest.mark.slow
def test_a_list_tells_how_much_is_trained(smoke, results, monkeypatch, capsys):
    assert cli.main(["run", "--preset", "smoke", "--list", "00_corpora", "02_imm_main"]) == 0
    assert not list(results.rglob("*.json"))
    empty = capsys.readouterr().out.splitlines()
    assert empty[0] == "00_corpora: 0 tasks done, 0 left"
    left = re.fullmatch(r"02_imm_main: 0 tasks done, (\d+) left, and what follows from their results", empty[1])
    monkeypatch.setenv("HELPERS_RESULTS", str(smoke.parent))
    assert cli.main(["run", "--preset", "smoke", "--list", "02_imm_main"]) == 0
    done = re.fullmatch(r"02_imm_main: (\d+) tasks done, 0 left\n", capsys.readouterr().out)
    assert int(done[1]) > int(left[1]) > 20


@pytest.fixture
def kernel(results, monkeypatch):
    """Nothing is trained, and notebooks are executed by noting which; those in ``fails`` raise what is given."""
    noted = SimpleNamespace(executed=[], fails={}, values={})

    def execute(name, parameters, output):
        output.write_text("half of it")
        if name in noted.fails:
            raise noted.fails[name]
        noted.executed.append((name, parameters))
        output.write_text("{}")

    monkeypatch.setattr(runner.report, "export", lambda preset, executed: paths.report(preset))
    monkeypatch.setattr(runner, "execute_notebook", execute)
    monkeypatch.setattr(runner.engine, "carry_out", lambda plans, settings: dict.fromkeys(plans) | noted.values)
    return noted


def question_files(folder):
    """A preset of one's own, and the parameters for two files of one's own."""
    for name in ("news", "trivia"):
        write_examples(folder / "files" / name / "all.json", mini.load_domain(name, train_size=80).train)
    text = 'name = "mine"\nextends = "smoke"\n[data]\nsource = "files"\n[data.domains]\nlaw = "law"\n'
    (folder / "mine.toml").write_text(text)
    return {"preset": str(folder / "mine.toml"), "data_dir": str(folder / "files")}


def test_what_is_done_is_skipped_until_one_of_its_files_or_records_changes(kernel, tmp_path, capsys):
    files = [tmp_path / "general.json", tmp_path / "files/news/all.json"]
    parameters = question_files(tmp_path) | {"warmup_data": str(files[0])}
    for _ in range(2):
        assert runner.run(["18_your_domains"], dict(parameters)) == 0
    printed = capsys.readouterr().out
    assert printed.count("news: news/all.json") == 1  # what is read, unless all is done
    assert printed.count("done before") == 2  # the notebook and the report
    assert runner.run(["18_your_domains"], dict(parameters), force=True) == 0
    assert [name for name, _ in kernel.executed] == ["18_your_domains", "99_report"] * 2
    job, of_report = runner.select_jobs(["18_your_domains"], parameters)
    for file in files:
        before = runner.fingerprint_of(job)
        write_examples(file, mini.load_domain("news", train_size=79).train)
        assert runner.fingerprint_of(job) != before and job.is_done() is False
    before = runner.fingerprint_of(of_report)
    write_whole(paths.record("smoke", "hrkd/table2"), "{}")
    assert runner.fingerprint_of(of_report) != before


@pytest.mark.slow
def test_readers_of_your_own_files_by_one_notebook(results, tmp_path):
    parameters = question_files(tmp_path) | {"methods": "Mix IMM", "keep": str(tmp_path / "kept")}
    assert runner.execute(runner.make_job("18_your_domains", parameters), force=False).endswith(" s")
    (file,) = results.glob("*/imm/your_domains.json")
    record = records.read(file)
    assert record.rows == ["Single", "Mix", "IMM", "best on validation"]
    domains = record.by_metric()[0].columns
    assert domains == ["news", "trivia"]
    for verdict in stats.judge(record):
        low, high = record.passages[verdict.claim.text]  # all seeds have the same test questions
        assert low <= verdict.estimate.mean <= high
    for name in domains:
        assert (tmp_path / "kept" / name / "model.safetensors").exists()
        assert record.payload["best"][name] in (tmp_path / "kept" / name / "README.md").read_text()


def test_a_failing_notebook_does_not_stop_the_others(kernel, capsys):
    kernel.fails = {"01_imm_similarity": RuntimeError("as told"), "02_imm_main": DeadKernelError("Kernel died")}
    kernel.values = {"03_imm_iterations": TasksFailed("1 of 9 tasks failed")}
    names = ["00_corpora", "01_imm_similarity", "02_imm_main", "03_imm_iterations", "05_imm_adversarial"]
    assert runner.run(names, {"preset": "smoke"}) == 1
    printed = capsys.readouterr()
    assert "3 of 6 notebooks failed: 01_imm_similarity, 02_imm_main, 03_imm_iterations" in printed.err
    for text in ("RuntimeError: as told", "DeadKernelError: Kernel died", "TasksFailed: 1 of 9 tasks failed"):
        assert f"FAILED: {text}" in printed.out
    assert [name for name, _ in kernel.executed] == ["00_corpora", "05_imm_adversarial", "99_report"]
    there = sorted(path.stem for path in paths.notebooks("smoke").iterdir())
    assert there == ["00_corpora", "05_imm_adversarial", "99_report"]  # nothing half of it


def test_the_terminal_names_the_models_that_are_kept(kernel, tmp_path, capsys):
    parameters = {"preset": "smoke", "keep": str(tmp_path / "kept")}
    assert runner.run(["12_hrkd_ablation", "18_your_domains"], parameters) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("kept: ")]
    assert line == f"kept: {', '.join(str(tmp_path / 'kept' / name) for name in ('encyclopedia', 'news', 'search'))}"


def test_there_is_no_report_where_every_notebook_failed(kernel, capsys):
    kernel.values = {"03_imm_iterations": TasksFailed("1 of 9 tasks failed")}
    assert runner.run(["03_imm_iterations"], {"preset": "smoke"}) == 1
    printed = capsys.readouterr()
    assert kernel.executed == [] and "report" not in printed.out
    assert "1 of 1 notebooks failed" in printed.err


def test_a_notebook_that_a_preset_has_nothing_for_is_left_out(kernel, tmp_path, capsys):
    (tmp_path / "own.toml").write_text('name = "own"\nextends = "smoke"\ncontrol_seeds = 0\n[data]\nnarrative = ""\n')
    assert runner.run(["09_a2d_narrativeqa", "18_your_domains"], {"preset": str(tmp_path / "own.toml")}) == 0
    printed = capsys.readouterr().out
    assert "09_a2d_narrativeqa: left out, as " in printed and "18_your_domains: left out, as the preset has" in printed
    assert [name for name, _ in kernel.executed] == ["99_report"]


def is_start(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "start"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_form_and_what_is_named(path):
    cells = nbformat.read(path, as_version=4).cells
    assert len(cells) < 25
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert code[0].metadata.tags == ["parameters"] and all("#" in line for line in code[0].source.splitlines())
    (call,) = (node for node in ast.walk(ast.parse(code[1].source)) if is_start(node))
    assert [ast.unparse(argument) for argument in call.args[:2]] == [repr(path.stem), "preset"]
    parameters = parameters_of(path.stem)
    rest = [name for name, parameter in parameters.items() if not parameter.key]
    named = ["preset", *(argument.arg for argument in call.keywords)]
    assert sorted(rest) == sorted([*named, "changes"] if call.args[2:] else named), "each sets something"
    for cell in code:
        assert not cell.outputs and cell.execution_count is None, "strip it: nbstripout --keep-id"
        assert len(cell.source.splitlines()) <= 30
        kinds = (ast.FunctionDef, ast.ClassDef)
        assert not any(isinstance(node, kinds) for node in ast.walk(ast.parse(cell.source))), "define it in helpers"
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for name in re.findall(r"`(helpers\.[\w.]+)`", text):
        assert pkgutil.resolve_name(name) is not None  # raises where there is none
    assert set(re.findall(r"[Nn]otebook (\d\d)", text)) <= {path.stem[:2] for path in NOTEBOOKS}


WITHOUT = ("08_a2d_attention", "18_your_domains")  # notebooks of a paper without a loss or rule of their own
WIDEST = 90  # characters of a diagram, which a cell of JupyterLab shows unbroken in a window of 1280 pixels
OF_PAPERS = [card.name for paper in papers.list_papers()[1:] for card in paper.notebooks if card.name not in WITHOUT]


@pytest.mark.parametrize("name", OF_PAPERS)
def test_a_notebook_begins_with_idea_diagram_equation_and_what_is_shown(name):
    first = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4).cells[0].source
    for part in ("**Idea.** ", "$", "`helpers.", "**What is shown.** ", "| preset | cost |"):
        assert part in first, part
    assert re.search(r"([Ss]ections? \d|Eqs?\. \d|Table \d|Algorithm 1|official evaluation)", first)
    idea = first.partition("**Idea.** ")[2].partition("\n\n")[0]
    earlier = [number for number in re.findall(r"notebook (\d\d)", idea) if number < name[:2]]
    diagram = first.split("\n```\n")[1:2]
    assert diagram or earlier, "a diagram, or the notebook of the same idea that has it"
    assert all(len(line) <= WIDEST for line in "".join(diagram).splitlines())


OWN = {"preset", "results", "shown", "reader", "keep", "export", "changes"}  # that stand for no key of a preset


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_parameters_are_keys_of_a_preset_with_its_types_or_the_notebooks_own(path):
    paper, _ = papers.find_paper(path.stem)
    assert paper is not None or path.stem == runner.REPORT
    parameters = parameters_of(path.stem)
    assert next(iter(parameters)) == "preset"
    for name, parameter in parameters.items():
        if key := parameter.key:
            kind = keys()[key]
            assert parameter.type == (kind.__name__ if isinstance(kind, type) else "str"), name
            assert parameter.default is None, name
        else:
            assert name in OWN


@pytest.mark.parametrize(
    ("notebook", "name", "key"),
    [
        ("07_a2d_ablation", "batch_size", "training.batch_size"),  # not RMR's own
        ("06_a2d_main", "members", "a2d.members"),
        ("13_mtdnn_kd_main", "members", "mtdnn_kd.members"),
        ("10_hrkd_main", "mnli_epochs", "hrkd.mnli_epochs"),
        ("02_imm_main", "data_dir", "data.folder"),
        ("10_hrkd_main", "mnli_train_size", "mnli.train_size"),
        ("18_your_domains", "methods", "methods"),
        ("18_your_domains", "keep", ""),
    ],
)
def test_what_a_parameter_sets_is_read_from_the_call_of_start(notebook, name, key):
    assert parameters_of(notebook)[name].key == key


@pytest.mark.parametrize("path", NOTEBOOKS, ids=attrgetter("stem"))
def test_no_cell_asks_for_a_seed_that_a_run_from_another_on_has_not_trained(path):
    cells = nbformat.read(path, as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    assert not re.search(r"for_seed\(\d|_trainings?\([^()]*, \d", code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_that_trains_has_rate_epochs_and_batch_size(path):
    keys_of_parameters = {parameter.key for parameter in parameters_of(path.stem).values()}
    settings = {"training.learning_rate", "training.epochs", "training.batch_size"}
    assert keys_of_parameters & settings == (settings if papers.find_paper(path.stem)[1].plans else set())


def other_than(value, kind, key):
    """Another valid value of a parameter than the preset's."""
    choices = get_args(keys().get(key))  # of a text that is one of some
    more = {"bool": [True, False], "int": [3, 4], "float": [0.3, 0.4], "str": ["another"]}
    return next(choice for choice in (*choices, *more[kind]) if choice != value)


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_a_parameter_that_is_given_is_used_or_refused(preset, tmp_path):
    for name in ("law.json", "tax.json"):
        (tmp_path / name).write_text("{}")
    used, refused = set(), set()
    for notebook in (path.stem for path in NOTEBOOKS):
        default = preset_for(notebook, preset)
        code = [cell.source for cell in nbformat.read(paths.NOTEBOOKS / f"{notebook}.ipynb", 4).cells[2:]]
        for name, (kind, _, key) in list(parameters_of(notebook).items())[1:]:
            if not key:
                assert name == "changes" or re.search(rf"\b{name}\b", "\n".join(code)), f"{notebook}: {name}"
                continue
            is_folder = key.endswith(".folder")
            value = str(tmp_path) if is_folder else other_than(attrgetter(key)(default), kind, key)
            others = {}
            if name == "unlabelled":
                value, others = str(tmp_path), {"teacher": "data/mini"}
            section = attrgetter(key.rpartition(".")[0])(default) if is_folder else None
            try:
                changed, run_name = settle(notebook, preset, {key: value} | others, {})
            except ParameterError as error:
                assert name == "unlabelled" or (is_folder and section.source != "files"), error
                refused.add(name)
                continue
            used.add(name)
            assert attrgetter(key)(changed) == value
            assert run_name.startswith(f"{preset}+") and f"{key}=" in run_name
            if is_folder:
                assert [*attrgetter(key.rpartition(".")[0])(changed).named.values()] == ["law.json", "tax.json"]
    folders = {"data_dir", "mnli_dir", "reviews_dir", "tasks_dir"}
    assert len(used - folders) > 30 and folders == (used & folders if preset in ("lab", "lab-large") else refused)


def test_a_folder_that_a_preset_has_no_use_for_is_refused(tmp_path):
    def refuse(preset):
        with pytest.raises(ParameterError) as error:
            with_settings(preset_for("10_hrkd_main", preset), {"reviews.folder": str(tmp_path)})
        return str(error.value)

    assert refuse("smoke") == (
        "reviews_dir (reviews.folder): preset smoke reads no folder (its reviews.source is 'mini'); "
        'give preset lab, or a file of your own with source = "files" below [reviews]'
    )
    assert refuse("paper").startswith(
        f"reviews_dir (reviews.folder): expected corpora of preset paper in {tmp_path}, such as "
    )


def test_where_models_are_kept_is_checked_before_anything_is_trained(kernel, tmp_path):
    parameters, file = question_files(tmp_path), tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "kept/news").mkdir(parents=True)
    (tmp_path / "kept/news/config.json").write_text("mine")
    for keep, message in {
        str(file): r"keep: .*file: expected a folder, found a file",
        str(tmp_path / "files/models"): r"keep: .*files/models lies in .*files",
        "/proc/models": r"keep: /proc/models cannot be written",
        str(tmp_path / "kept"): r"keep: .*kept/news: config.json was not kept there",
    }.items():
        for make in (runner.make_job, lambda name, values: started(notebook=name, **values)):
            with pytest.raises(UserError, match=message):
                make("18_your_domains", parameters | {"keep": keep})
    for notebook, name in (("10_hrkd_main", "books"), ("15_mtdnn_main", "CoLA")):
        (tmp_path / "kept" / name).mkdir()
        (tmp_path / "kept" / name / "config.json").write_text("mine")
        with pytest.raises(UserError, match=f"keep: .*kept/{name}: config.json was not kept there"):
            runner.make_job(notebook, {"preset": "smoke", "keep": str(tmp_path / "kept")})
    runner.make_job("18_your_domains", parameters | {"keep": str(tmp_path / "new/models")})
    assert not (tmp_path / "new").exists() and not kernel.executed


def test_two_notebooks_do_not_keep_models_of_one_name_in_one_folder(tmp_path):
    parameters = {"preset": "smoke", "keep": str(tmp_path / "kept")}
    with pytest.raises(ParameterError, match="15_mtdnn_main and 18_your_domains would both keep 'encyclopedia'"):
        runner.select_jobs(["15", "18"], parameters)
    assert len(runner.select_jobs(["10", "15"], parameters)) == 3
    assert len(runner.select_jobs(["15", "18"], parameters | {"preset": "mini"})) == 3  # which leaves 18 out


def test_a_place_for_models_of_which_there_are_none_is_refused(tmp_path):
    (tmp_path / "law.jsonl").touch()
    parameters = {"preset": "lab", "mnli_dir": str(tmp_path), "keep": str(tmp_path / "kept")}
    with pytest.raises(ParameterError, match="10_hrkd_main: keep: there is no model to keep without texts"):
        runner.make_job("10_hrkd_main", parameters)


@pytest.mark.parametrize("name", [b"f\xfcr", b"\xe6\xb3\x95\xfe"])
def test_a_name_that_is_no_utf8_is_one_sentence_before_anything_is_trained(tmp_path, name):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/files")
    write_examples(Path(folder) / os.fsdecode(name) / "all.json", mini.load_domain("news", train_size=80).train)
    write_examples(Path(folder) / "law/all.json", mini.load_domain("news", train_size=80).train)
    with pytest.raises(UserError) as error:
        runner.make_job("00_corpora", {"preset": "lab", "data_dir": folder})
    assert "\n" not in str(error.value) and str(error.value).isascii()
    with pytest.raises(ParameterError, match="is not UTF-8 here; rename it, or set PYTHONUTF8=1"):
        runner.make_job("00_corpora", {"preset": "lab", "data_dir": f"{folder}/{os.fsdecode(name)}"})


def started(change=str, notebook="02_imm_main", before=None, **parameters):
    """What the first cells of a notebook define, changed as somebody may in Jupyter, or with injected parameters; in a
    kernel that has the names of ``before``."""
    source = load_notebook_node(str(paths.NOTEBOOKS / f"{notebook}.ipynb"))
    cells = parameterize_notebook(source, parameters).cells if parameters else source.cells
    names = {**(before or {}), "In": ["", "%matplotlib inline"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "get_ipython", lambda: SimpleNamespace(user_ns=names))
        for code in [change(cell.source) for cell in cells if cell.cell_type == "code"][: 2 + bool(parameters)]:
            names["In"].append(code)
            exec(code, names)
    return names


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sed": 3}, r"02_imm_main: unknown parameter 'sed'; did you mean 'seeds'\? There is preset, data_"),
        ({"seeds": True}, "^preset mini: seeds: expected a valid integer, found True"),
        ({"divergence": "gols"}, "imm.divergence: expected 'gold', 'probabilities' or 'logits', found 'gols'"),
        (
            {"changes": {"imm.divergense": "gold"}},
            r"unknown parameter 'imm.divergense'; did you mean 'imm.divergence'\?",
        ),
        ({"changes": {"data.folder": "gone"}}, r"data_dir \(data.folder\): expected a folder, found none at gone"),
    ],
)
def test_unknown_and_mistyped_parameters_are_refused(parameters, message):
    with pytest.raises((ParameterError, PresetError), match=message):
        started(**parameters)


@pytest.mark.parametrize(
    ("line", "other", "message"),
    [
        (
            "max_rounds: int",
            "max_roundz: int",
            r"02_imm_main: unknown parameter 'max_roundz'; did you mean 'max_rounds'\?",
        ),
        ("max_rounds: int = None", "max_rounds: int = None; roundz = 3", "unknown parameter 'roundz'"),
        (
            "max_rounds: int = None",
            "",
            "the parameters cell has no 'max_rounds'; write there the line max_rounds: int = None",
        ),
    ],
)
def test_a_misspelt_or_deleted_line_of_the_parameters_cell_is_refused(line, other, message):
    def change(source):
        return source.replace(line, other, 1)

    with pytest.raises(ParameterError, match=message):
        started(change, before={"max_rounds": 3})  # of the cell as it was
    if "roundz = 3" not in other:
        with pytest.raises(NameError, match="name 'max_rounds' is not defined"):
            started(change)


def test_known_parameters_take_effect_and_a_number_stands_for_a_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path / "3/law.json", mini.load_domain("news", train_size=80).train)
    session = started(preset="lab", seeds=1, train_size=7, data_dir=3, changes={"training.warmup": 0})["session"]
    assert (session.preset.seeds, session.preset.data.train_size, session.preset.data.test_size) == (1, 7, 200)
    assert session.preset.data.folder == "3" and session.preset.training.warmup == 0
    (job, _) = runner.select_jobs(["18"], {"preset": "mini", "methods": 3, "keep": 4})
    assert (job.preset.methods, job.parameters["keep"]) == ("3", "4")


@pytest.mark.parametrize("preset", ["smoke", "mini"])
def test_smoke_says_at_its_head_that_its_scores_mean_nothing(preset, capsys):
    started(preset=preset)
    assert ("its scores mean nothing" in capsys.readouterr().out) == (preset == "smoke")


def test_a_preset_is_loaded_once(monkeypatch):
    loaded = []
    monkeypatch.setattr(sessions, "load_preset", lambda *names: loaded.append(names) or load_preset(*names))
    started(seeds=2, divergence="logits")
    assert loaded == [("mini", "imm", "imm_main")]


def test_any_key_of_the_preset_is_a_parameter_of_the_runner():
    parameters = {"preset": "smoke", "max_rounds": 2, "training.learning_rate": 1e-4, "engine.processes": 2}
    job, of_report = runner.select_jobs(["02"], parameters)
    assert job.parameters["changes"] == {"training.learning_rate": 1e-4, "engine.processes": 2}
    preset = job.preset
    assert (preset.imm.max_rounds, preset.training.learning_rate, preset.engine.processes) == (2, 1e-4, 2)
    assert job.run_name == of_report.run_name == "smoke+training.learning_rate=0.0001,imm.max_rounds=2"
    session = started(**job.parameters)["session"]
    assert (session.preset, session.run_name) == (preset, job.run_name)
    (corpora, _) = runner.select_jobs(["00"], {"preset": "smoke", "encoder": "other"})  # which is no line there
    assert corpora.preset.encoder == "other" and corpora.run_name == "smoke+encoder=other"
    for name, meant in (
        ("seed", "seeds"),
        ("training.epoch", "training.epochs"),
        ("warmupp", "training.warmup"),
        ("sedes", "seeds"),
    ):
        with pytest.raises(ParameterError, match=f"02_imm_main: unknown parameter '{name}'; did you mean '{meant}'"):
            runner.select_jobs(["02"], {"preset": "smoke", name: 2})


@pytest.mark.slow
def test_records_hold_no_path_of_this_machine(smoke):
    for path in smoke.glob("*/*.json"):
        text = path.read_text()
        assert str(paths.ROOT) not in text and "/tmp" not in text
        assert json.loads(text)["run"]["versions"]["torch"]


@pytest.mark.parametrize("file", sorted(paths.NOTEBOOKS.glob("*.ipynb")), ids=lambda file: file.stem)
def test_names_that_a_notebook_uses_are_there(file):
    cells = [cell.source for cell in nbformat.read(file, 4).cells if cell.cell_type == "code"]
    tree, imported = ast.parse("\n".join(cells)), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("helpers"):
            for alias in node.names:
                imported[alias.asname or alias.name] = pkgutil.resolve_name(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            assert hasattr(imported[node.value.id], node.attr), ast.unparse(node)


@pytest.mark.slow
def test_the_way_from_a_cell_to_a_record_is_short(smoke, tmp_path):
    (tmp_path / "smoke").mkdir()
    (tmp_path / "smoke/models").symlink_to(smoke / "models")
    environment = {**os.environ, "HELPERS_RESULTS": str(tmp_path), "PYTHONPATH": str(paths.ROOT)}
    program = [sys.executable, str(paths.ROOT / "benchmarks/structure.py")]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout[done.stdout.index("{\n") :])  # behind what the session prints
    assert facts["loaded"] <= 28 and facts["lines"] <= 5_000
    assert len(facts["run"]) <= 21
    for key, functions in facts["stations"].items():
        assert len(functions) <= 10, f"{key}: {functions}"
    assert len(facts["repeated"]) <= 10
