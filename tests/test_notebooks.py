import ast
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from conftest import write_squad
from nbclient.exceptions import DeadKernelError
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from helpers import __main__ as cli
from helpers import papers, paths
from helpers.data import domains, sections
from helpers.data.domains import load_one
from helpers.data.mini import domains as mini
from helpers.files import write_whole
from helpers.notebooks import runner, session
from helpers.notebooks.parameters import ParameterError, parameters_of
from helpers.presets.load import PresetError, load
from helpers.presets.schema import Preset
from helpers.results import records
from helpers.results.comparisons import repeated

NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.slow
def test_every_notebook_runs_on_smoke(smoke):
    for path in NOTEBOOKS:
        executed = nbformat.read(smoke / "notebooks" / path.name, as_version=4)
        assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")
        assert (smoke / "notebooks" / path.name).stat().st_size < 500_000
    assert (smoke / "report.html").stat().st_size > 10_000


def test_a_damaged_list_of_what_is_done_counts_as_none(tmp_path):
    (tmp_path / "smoke.done").write_bytes(b'{"02_imm_main": "\xff"}')
    assert runner._keys(tmp_path / "smoke.done") == runner._keys(tmp_path / "none.done") == {}


def facts_of(path):
    """What of a record every run on one processor has to repeat, and the processor."""
    record = records.read(path)
    return without_words({**repeated(record), "processor": record.run.device.partition(",")[0]})


def without_words(facts):
    """Facts without title and texts of claims, and of notes only their numbers, so that words may be mended."""
    facts.pop("title", None)
    for claim in facts.get("claims", ()):
        claim.pop("text", None)
    facts["notes"] = re.findall(r"\b\d[\d,]*(?:\.\d+)?\b", " ".join(facts.get("notes", ())))
    return facts


@pytest.mark.slow
def test_smoke_gives_the_golden_records(smoke):
    """Written by GOLDEN=write pytest (CONTRIBUTING.md). Numbers are those of one processor: others round otherwise in
    their last digits, and so train other readers. On these all else has to agree."""
    made = {str(path.relative_to(smoke)): facts_of(path) for path in sorted(smoke.glob("*/*.json"))}
    if os.environ.get("GOLDEN") == "write":
        shutil.rmtree(GOLDEN, ignore_errors=True)
        for name, facts in made.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(json.dumps(facts, ensure_ascii=False) + "\n")
    files = sorted(GOLDEN.glob("*/*.json"))
    golden = {str(path.relative_to(GOLDEN)): without_words(json.loads(path.read_text())) for path in files}
    declared = {f"{paper.key}/{artefact.name}.json" for paper in papers.ALL for artefact in paper.artefacts}
    declared |= {f"{paper.key}/growth.json" for paper in papers.ALL if paper.growth} | {"imm/regimes.json"}
    elsewhere = {f"{key}/own.json" for key in ("imm", "hrkd", "mtdnn_kd")}
    elsewhere |= {f"imm/{name}.json" for name in ("table1_equal", "table3_later", "leads_later")}  # controls
    assert list(made) == list(golden) and set(golden) == declared - elsewhere
    for name, expected in golden.items():
        if expected.pop("processor") == made[name].pop("processor"):
            assert made[name] == expected, name
        for facts in (made[name], expected):
            for score in facts.get("scores", ()):
                score.pop("value")
            facts["payload"] = sorted(facts.get("payload") or ())
            facts["examples"] = {key: len(values) for key, values in facts.get("examples", {}).items()}
        assert made[name] == expected, name


@pytest.mark.slow
def test_what_is_done_is_skipped_and_force_runs_it_again(smoke, monkeypatch, capsys):
    monkeypatch.setenv("HELPERS_RESULTS", str(smoke.parent))
    executed = []

    def execute(name, parameters, output):
        executed.append(name)
        output.write_bytes((smoke / "notebooks" / f"{name}.ipynb").read_bytes())

    monkeypatch.setattr(runner, "_execute", execute)
    assert runner.run(["00_corpora"], {"preset": "smoke"}) == 0
    assert capsys.readouterr().out.count("done before") >= 2 and executed == []
    assert runner.run(["00_corpora"], {"preset": "smoke"}, force=True) == 0
    assert executed == ["00_corpora", "99_report"]


@pytest.mark.slow
def test_figures_and_report_are_redrawn_from_the_records(smoke, tmp_path, monkeypatch):
    others = ("models", "a2d", "hrkd", "mtdnn", "mtdnn_kd")  # one paper's records take a fifth of the time
    shutil.copytree(smoke, tmp_path / "smoke", ignore=shutil.ignore_patterns(*others))
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path))
    path, report = tmp_path / "smoke/imm/table1.json", tmp_path / "smoke/report.html"
    drawn = path.with_suffix(".png").read_bytes()
    record = records.read(path)
    scores = [score.model_copy(update={"value": 77.7}) for score in record.scores]
    changes = {"title": "A table that was changed", "scores": scores, "examples": {}, "examples_of": {}}
    records.write(record.model_copy(update=changes))
    assert "A table that was changed" not in report.read_text()
    assert cli.main(["figures", "--preset", "smoke"]) == 0
    assert "A table that was changed" in report.read_text() and path.with_suffix(".png").read_bytes() != drawn


@pytest.fixture
def kernel(results, monkeypatch):
    """Notebooks are executed by writing down which; those named in ``fails`` raise what is given."""
    monkeypatch.setattr(runner.report, "export", lambda preset, executed: paths.report(preset))
    said = SimpleNamespace(executed=[], fails={})

    def execute(name, parameters, output):
        output.write_text("half of it")
        if name in said.fails:
            raise said.fails[name]
        said.executed.append((name, parameters))
        output.write_text("{}")

    monkeypatch.setattr(runner, "_execute", execute)
    return said


def own_files(folder):
    """A preset of one's own for two files of one's own."""
    for name in ("news", "trivia"):
        write_squad(folder / "files" / name / "all.json", mini.load_domain(name, train_size=80).train)
    smoke = (paths.PRESETS / "smoke.toml").read_text()
    smoke = smoke.replace('name = "smoke"', 'name = "mine"').replace('source = "mini"', 'source = "files"')
    smoke = smoke.replace('encyclopedia = "encyclopedia"', 'trivia = "trivia"').replace('search = "search"', "")
    smoke = smoke.replace('[data.adversarial]\ndomain = "encyclopedia"\n', "")
    (folder / "mine.toml").write_text(smoke)
    return {"preset": str(folder / "mine.toml"), "data_dir": str(folder / "files")}


def test_files_of_ones_own_in_a_preset_of_ones_own(kernel, tmp_path, capsys):
    given = own_files(tmp_path)
    assert session.preset_for(given).name == "mine"
    assert load_one(session.preset_for(given).data, "trivia").train[0].id and kernel.executed == []
    for _ in range(2):
        assert runner.run(["00_corpora"], dict(given)) == 0
    assert capsys.readouterr().out.count("done before") == 4  # in the list and where it stands, of both
    assert [name for name, _ in kernel.executed] == ["00_corpora", "99_report"]
    before = runner.key_of("00_corpora", given)
    write_squad(tmp_path / "files/news/all.json", mini.load_domain("news", train_size=79).train)
    domains.load_one.cache_clear()
    sections.fingerprint.cache_clear()
    assert runner.key_of("00_corpora", given) != before


def test_every_notebook_is_keyed_by_all_data_and_by_its_own_papers_settings(tmp_path):
    def key(notebook, **changes):
        text = (paths.PRESETS / "smoke.toml").read_text()
        for old, new in changes.values():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "own.toml").write_text(text.replace('name = "smoke"', 'name = "own"'))
        return runner.key_of(notebook, {"preset": str(tmp_path / "own.toml")})

    stories, members = ('narrative = "stories"', 'narrative = ""'), ("members = 2", "members = 3")
    for notebook in ("02_imm_main", "06_a2d_main"):
        assert key(notebook, stories=stories) != key(notebook)
    assert key("02_imm_main", members=members) == key("02_imm_main")
    assert key("06_a2d_main", members=members) != key("06_a2d_main")
    texts, heads = ("train_size = 16\nvalid_size = 6", "train_size = 17\nvalid_size = 6"), ("heads = 2", "heads = 1")
    for change in (texts, heads):
        assert key("06_a2d_main", change=change) == key("06_a2d_main")
        assert key("10_hrkd_main", change=change) != key("10_hrkd_main")


def test_growth_is_keyed_by_the_records_of_all_sizes(results):
    before = runner.key_of("18_growth", {"preset": "smoke"})
    write_whole(paths.record("smoke", "hrkd/table2"), "{}")
    assert runner.key_of("18_growth", {"preset": "smoke"}) != before


def test_a_failing_notebook_does_not_stop_the_others(kernel, capsys):
    kernel.fails = {"01_imm_similarity": RuntimeError("as asked"), "02_imm_main": DeadKernelError("Kernel died")}
    names = ["00_corpora", "01_imm_similarity", "02_imm_main", "05_imm_adversarial"]
    assert runner.run(names, {"preset": "smoke"}) == 1
    printed = capsys.readouterr()
    assert "2 of 5 notebooks failed: 01_imm_similarity, 02_imm_main" in printed.err
    assert "FAILED: RuntimeError: as asked" in printed.out and "FAILED: DeadKernelError" in printed.out
    assert [name for name, _ in kernel.executed] == ["00_corpora", "05_imm_adversarial", "99_report"]
    kept = sorted(path.stem for path in paths.notebooks("smoke").iterdir())
    assert kept == ["00_corpora", "05_imm_adversarial", "99_report"]  # nothing half of it


def test_a_notebook_that_a_preset_has_nothing_for_is_left_out(kernel, tmp_path, capsys):
    text = (paths.PRESETS / "smoke.toml").read_text().replace('narrative = "stories"', "")
    (tmp_path / "own.toml").write_text(text.replace('name = "smoke"', 'name = "own"'))
    assert runner.run(["09_a2d_narrativeqa"], {"preset": str(tmp_path / "own.toml")}) == 0
    assert "left out, as data.narrative names no free answers" in capsys.readouterr().out
    assert [name for name, _ in kernel.executed] == ["99_report"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_form(path):
    cells = nbformat.read(path, as_version=4).cells
    assert len(cells) < 25
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert code[0].metadata.tags == ["parameters"] and "start(" in code[1].source
    for cell in code:
        assert not cell.outputs and cell.execution_count is None, "strip it: nbstripout --keep-id"
        assert len(cell.source.splitlines()) <= 30
        kinds = (ast.FunctionDef, ast.ClassDef)
        assert not any(isinstance(node, kinds) for node in ast.walk(ast.parse(cell.source))), "define it in helpers"
    assert all(parameter.help for parameter in parameters_of(path).values())
    assert f'start("{path.stem}", globals())' in code[1].source


ASKS = ("08_a2d_attention",)  # a notebook of a paper that has no loss or rule of its own
WIDEST = 90  # characters of a diagram, which a cell of JupyterLab shows unbroken in a window of 1280 pixels
OF_PAPERS = [card.name for paper in papers.ALL[1:] for card in paper.notebooks if card.name not in ASKS]


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_notebooks_name_is_there(path):
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    for name in re.findall(r"`(helpers\.[\w.]+)`", text):
        assert pkgutil.resolve_name(name) is not None  # raises where there is none
    assert set(re.findall(r"[Nn]otebook (\d\d)", text)) <= {path.stem[:2] for path in NOTEBOOKS}


FIRST = "# What to change first (None: as the preset has it)"
REST = "# The rest: settings of the method, and which parts of it are run"


def line_of(key):
    """The line of a cell of parameters for a key of the preset, from the preset's schema."""
    model, *_, name = Preset, *key.split(".")
    for section in key.split(".")[:-1]:
        model = model.model_fields[section].annotation
    known = model.model_fields[name]
    kind = known.annotation.__name__ if isinstance(known.annotation, type) else "str"
    return f"{papers.parameter_name(key)}: {kind} = None  # {known.description}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_parameters_are_those_of_the_card_as_the_schema_has_them(path):
    cell = nbformat.read(path, as_version=4).cells[1].source.splitlines()
    paper, card = papers.card_of(path.stem)
    assert paper is not None or path.stem == "99_report"
    usual = "mini" if not card.left_out(load("mini")) else "study"
    names = f'preset: str = "{usual}"  # smoke, mini, study, lab or paper, or the path of a TOML file'
    general = ("encoder", "seeds", "data", *papers.BESIDE)
    of_all, of_method = ([k for k in card.parameters if (k.partition(".")[0] in general) == g] for g in (True, False))
    expected = [names, *map(line_of, of_all)]
    if of_method:
        expected = [FIRST, *expected, REST, *map(line_of, of_method)]
    assert cell[: len(expected)] == expected, "write the cell anew:\n" + "\n".join(expected)
    own = [line.partition(":")[0] for line in cell[len(expected) :]]
    assert not set(own) & set(papers.parameters()) and len(own) <= 2


def namespace(**values):
    known = parameters_of(paths.NOTEBOOKS / "02_imm_main.ipynb")
    defaults = {name: parameter.default for name, parameter in known.items()}
    lines = [session.INJECTED, *(f"{name} = {value!r}" for name, value in values.items())]
    return {**defaults, **values, "In": ["", "preset: str = ''", "\n".join(lines)]}


def test_unknown_and_mistyped_parameters_are_refused():
    with pytest.raises(ParameterError, match="no parameter 'sed'; it has preset, data_dir"):
        session.start("02_imm_main", namespace(sed=3))
    with pytest.raises(ParameterError, match=r"seeds has to be int, not 1\.5"):
        session.start("02_imm_main", namespace(seeds=1.5))
    with pytest.raises(ParameterError, match="seeds has to be int, not True"):
        session.start("02_imm_main", namespace(seeds=True))
    with pytest.raises(PresetError, match="no preset 'minni'"):
        session.start("02_imm_main", namespace(preset="minni"))


def test_a_number_stands_for_a_text():
    given = namespace(preset="smoke", data_dir=3)
    assert session.start("02_imm_main", given).parameters["data_dir"] == given["data_dir"] == "3"


def test_known_parameters_take_effect():
    started = session.start("02_imm_main", namespace(preset="smoke", seeds=1, train_size=7))
    assert (started.preset.seeds, started.preset.data.train_size, started.preset.data.test_size) == (1, 7, 12)


def test_papermill_alone_refuses_a_parameter_too():
    source = load_notebook_node(str(paths.NOTEBOOKS / "00_corpora.ipynb"))
    cells = [cell.source for cell in parameterize_notebook(source, {"sed": 3}).cells if cell.cell_type == "code"]
    kernel = {"In": [""]}
    with pytest.raises(ParameterError, match="no parameter 'sed'"):
        for cell in cells[:3]:
            kernel["In"].append(cell)
            exec(cell, kernel)


def test_run_refuses_what_no_notebook_knows(results):
    with pytest.raises(ParameterError, match="no parameter 'sed'"):
        runner.run([], {"preset": "smoke", "sed": 3})
    with pytest.raises(ParameterError, match="no notebook 77_none; there are 00_corpora"):
        runner.run(["77_none"], {"preset": "smoke"})


@pytest.mark.parametrize(
    "command",
    [
        ["run", "02_imm_mian"],
        ["run", "02_imm_main", "-p", "sed", "3"],
        ["run", "02_imm_main", "-p", "seeds", "many"],
        ["run", "--preset", "minni"],
        ["status", "-p", "sed", "3"],
    ],
    ids=" ".join,
)
def test_what_is_mistyped_is_refused_before_torch_is_imported(command):
    code = f"import sys; from helpers.__main__ import main; print(main({command}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"] and done.stderr.startswith("error: ")


def test_one_missing_folder_is_said_once(kernel, capsys):
    names = ["00_corpora", "01_imm_similarity", "99_report"]
    assert runner.run(names[:2], {"preset": "lab", "data_dir": "nowhere"}) == 1
    printed = capsys.readouterr().out
    assert printed.count("'nowhere', which is no folder") == 2  # where it is found, and in the list
    assert "00_corpora, 01_imm_similarity FAILED: DataError: the folder of domains" in printed
    assert [name for name, _ in kernel.executed] == names[2:]


@pytest.mark.slow
def test_records_hold_no_path_of_this_machine(smoke):
    for path in smoke.glob("*/*.json"):
        text = path.read_text()
        assert str(paths.ROOT) not in text and "/tmp" not in text
        assert json.loads(text)["run"]["versions"]["torch"]
