"""Which method is chosen for one's own domains, what that is worth, and what readers begin as."""

import re

import pytest
import torch
from conftest import arguments, write_squad
from transformers import AutoModelForQuestionAnswering

from helpers import __main__ as cli
from helpers import model_cards, papers, paths
from helpers.data.mini import domains as mini
from helpers.models.pretrained import load_encoder, load_tokenizer, save_encoder, weights_digest
from helpers.results import provenance, records

METHOD = papers.load("imm").own_domains


def improve(files, out, *more):
    return cli.main(arguments(files, out, *more))


def record_of(results):
    (file,) = (results / "own/imm").glob("*.json")
    return records.read(file)


def test_the_methods_that_are_asked_for_and_the_best_on_validation(results, files, tmp_path, capsys, monkeypatch):
    from helpers.papers.imm import algorithm

    def valid(reader):  # of news Single is best, of trivia FT
        return {"Single": 60.0, "FT": 40.0}[reader.label.partition(",")[0]] * (1 if "news" in reader.target else -1)

    monkeypatch.setattr(algorithm, "valid", valid)
    out = tmp_path / "out"
    assert improve(files, out, "--methods", "FT", "-p", "seeds", "1") == 0
    record, said = record_of(results), capsys.readouterr().out
    assert {score.method for score in record.scores} == {"Single", "FT", "Chosen"}
    assert record.payload["chosen"] == {"news": "Single", "trivia": "FT"}
    f1 = {(score.method, score.column): score.value for score in record.scores}
    assert [f1["Chosen", name] for name in files] == [f1["Single", "news"], f1["FT", "trivia"]]
    models = paths.models("own").rglob("*.safetensors")
    made = {weights_digest(path.parent): str(path) for path in models}
    assert "target=(news)" in made[weights_digest(out / "news")]
    assert "start=" not in made[weights_digest(out / "news")] and "start=" in made[weights_digest(out / "trivia")]
    assert "trained on news alone" in (out / "news/README.md").read_text()
    assert "trained on the other domains, then on trivia" in (out / "trivia/README.md").read_text()
    # FT trains a first stage and a second for every domain, and takes longer than Single.
    seconds = record.payload["seconds"]
    assert seconds["FT"] > 0 and list(seconds) == ["Single", "FT"]
    assert re.search(r"^FT .* \d+\.\d$", said, re.M) and "seconds of training" in said
    assert "on average the choice is not shown to be better than Single" in said or "is better than Single" in said


def test_an_unknown_method_is_refused(results, files, tmp_path, capsys):
    assert improve(files, tmp_path / "out", "--methods", "Single MTL") == 1
    said = capsys.readouterr().err
    assert "imm.methods" in said and "'MTL'" in said and said.count("\n") == 1 and not list(results.rglob("job.pkl"))


def scored(single, ft, imm, chosen="IMM"):
    """A record of one domain: every question's F1 by each method, and its cost."""
    rows = {"Single": single, "FT": ft, "IMM": imm}
    rows["Chosen"] = rows[chosen]
    cells = {(row, "news", 0): values for row, values in rows.items()}
    return records.Record(
        artefact="imm/own",
        preset="own",
        title="F1",
        run=provenance.run_info({}, 0.0, provenance.Code("0", False)),
        baselines=["Single"],
        payload={"seconds": {"Single": 10.0, "FT": 30.0, "IMM": 90.0}, "chosen": {"news": chosen}},
        unit="F1",
        **records.scored(cells, {("news", 0): [str(number) for number in range(len(single))]}),
    )


def test_what_is_cheaper_and_as_good_is_computed():
    low, high = [10.0, 30.0] * 50, [60.0, 80.0] * 50
    worth = model_cards.worth(scored(low, high, [60.2, 80.4] * 50), "Chosen", "news")
    assert worth == "chosen on validation: IMM (90 s of training); FT (30 s) is as good: IMM is above it by " + (
        "+0.3 (+0.3 to +0.3) F1"
    )
    wide = [value + 40 * (-1) ** (number // 2) for number, value in enumerate(high)]
    unsure = model_cards.worth(scored(low, high, wide), "Chosen", "news")
    assert "; FT (30 s) may be as good: IMM is above it by 0.0 (" in unsure
    above = model_cards.worth(scored(low, low, high), "Chosen", "news")
    assert above == "chosen on validation: IMM (90 s of training), better than all that are cheaper"
    alone = model_cards.worth(scored(high, low, low, "Single"), "Chosen", "news")
    assert alone == "chosen on validation: Single (10 s of training), the cheapest"
    assert "the choice is better than Single: +50.0" in model_cards.overview(scored(low, low, high), METHOD)
    assert "is not shown to be better than Single: 0.0" in model_cards.overview(scored(low, high, low), METHOD)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A reader of one layer with weights of its own, head and all."""
    place = tmp_path_factory.mktemp("reader")
    save_encoder(load_encoder("data/mini", seed=5, random_layers=1), load_tokenizer("data/mini"), place)
    return place


def test_a_reader_to_start_from_keeps_its_head(results, files, reader, tmp_path, monkeypatch):
    from helpers.notebooks.session import preset_for
    from helpers.own import overrides
    from helpers.papers.imm import own, trainings

    given = METHOD.settings | overrides(METHOD, files, "smoke")
    preset = preset_for({"preset": "smoke", "imm.start": str(reader)}, METHOD.notebook, **given)
    begun, general = own.begun(preset)
    assert general is None
    saved = AutoModelForQuestionAnswering.from_pretrained(reader).state_dict()
    for seed in (0, 1):
        single = trainings.singles(begun, seed)["news"].initial().state_dict()
        assert all(torch.equal(single[name], saved[name]) for name in saved)
    without, _ = own.begun(preset_for({"preset": "smoke"}, METHOD.notebook, **given))
    fresh = trainings.singles(without, 0)["news"].initial().state_dict()
    assert not torch.equal(fresh["qa_outputs.weight"], saved["qa_outputs.weight"])


def test_an_encoder_without_a_head_is_no_reader_to_start_from(results, files, tmp_path, capsys):
    assert improve(files, tmp_path / "out", "--start", "data/mini") == 1
    said = capsys.readouterr().err
    assert "'data/mini' is no trained reader" in said and not list(results.rglob("job.pkl"))


def test_a_general_reader_is_trained_first_and_all_begin_as_it(results, files, tmp_path, capsys):
    write_squad(tmp_path / "general.json", mini.load_domain("encyclopedia", train_size=60).train)
    usual = ("--methods", "Single Mix", "-p", "seeds", "1")
    assert improve(files, tmp_path / "out", *usual) == 0  # with the encoder
    before = {path.parent.name for path in paths.models("own").rglob("job.pkl")}
    more = ("--general", str(tmp_path / "general.json"), *usual)
    capsys.readouterr()
    assert improve(files, tmp_path / "out", "--dry-run", *more) == 0
    said = capsys.readouterr().out
    assert re.search(r"^general: \d+ train, \d+ valid, \d+ test questions$", said, re.M)
    # the general reader; Single 2, asked 2; Mix 1, asked 2, on validation 2
    assert "10 trainings and scorings at most, 0 done before" in said and re.search(r"^general reader +1 ", said, re.M)
    assert improve(files, tmp_path / "out", *more) == 0
    done = [path.parent.name for path in paths.models("own").rglob("job.pkl") if path.parent.name not in before]
    assert len(done) == 10
    assert sum("domains=(general)" in name for name in done) == sum("domains=(news)," in name for name in done) == 1
    card = (tmp_path / "out/news/README.md").read_text()
    assert "trained on general questions first (general.json)" in card and str(tmp_path) not in card
    capsys.readouterr()
    assert improve(files, tmp_path / "out", *more) == 0
    assert "all 10 trainings and scorings are done" in capsys.readouterr().out


def test_a_general_file_that_is_not_there_is_named(results, files, tmp_path, capsys):
    assert improve(files, tmp_path / "out", "--general", str(tmp_path / "none.json")) == 1
    said = capsys.readouterr().err
    assert "none.json" in said and said.count("\n") == 1 and not list(results.rglob("job.pkl"))


def test_four_lines_of_the_card_load_a_reader_with_transformers_alone(results, files, tmp_path, capsys):
    assert improve(files, tmp_path / "out", "--methods", "Single", "-p", "seeds", "1") == 0
    card = (tmp_path / "out/news/README.md").read_text()
    front = card.split("---")[1]
    assert "base_model: data/mini" in front and "license: " in front
    code = re.search(r"```python\n(.*?)```", card, re.S)[1]
    assert len(code.replace("\n\n", "\n").splitlines()) == 4 and "helpers" not in code
    example = mini.load_domain("news", train_size=60).train[0]
    capsys.readouterr()
    names = {"folder": str(tmp_path / "out/news"), "question": example.question, "passage": example.context}
    exec(code, names)
    assert capsys.readouterr().out.endswith("\n")
    assert names["output"].start_logits.shape == names["read"].input_ids.shape
