"""Files of labelled texts in, small classifiers out."""

import csv
import json
import re

import pytest
import torch
from conftest import are_alike
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from helpers import __main__ as cli
from helpers import paths
from helpers.batches.texts import EncoderError
from helpers.data.mini import texts as mini
from helpers.models.heads import head_of, last_layer
from helpers.models.pretrained import load_encoder, load_saved, load_tokenizer, save_encoder
from helpers.results import records

COMPRESS = ["--preset", "smoke", "--teacher", "data/mini", "-p", "hrkd.student_layers", "1", "-p", "seeds", "1"]


@pytest.fixture
def files(tmp_path):
    """Two domains of miniature reviews, one as JSON lines and one as CSV."""
    books, films = (mini.load_domain(f"{name}-reviews", train_size=60).train for name in ("book", "film"))
    named = mini.labels("book-reviews")
    lines = (json.dumps({"text": pair.first, "label": named[pair.label]}) for pair in books)
    (tmp_path / "books.jsonl").write_text("\n".join(lines))
    with (tmp_path / "films.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((pair.first, named[pair.label]) for pair in films)])
    return {"books": tmp_path / "books.jsonl", "films": tmp_path / "films.csv"}


def run(files, out, *more):
    domains = [part for name, file in files.items() for part in ("--domain", f"{name}={file}")]
    return cli.main(["compress", *domains, *COMPRESS, "--out", str(out), *more])


def logits_of(folder, texts):
    """What transformers alone says."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        return model.eval()(**tokenizer(texts, padding=True, return_tensors="pt")).logits


def test_classifiers_with_model_cards_and_a_record(results, files, tmp_path, capsys):
    out = tmp_path / "models"
    assert run(files, out) == 0
    said = capsys.readouterr().out
    assert "books: 16 train, 6 valid, 6 test texts" in said and "reviews:" not in said
    # Teacher, student alone and student of two domains, and each of them asked.
    assert re.search(r"6 trainings and scorings at most, 0 done before; about \d+ s \(a step takes", said)
    (file,) = (results / "own/hrkd").glob("*.json")
    record = records.read(file)
    rows = ("HRKD-teacher", "BERT_S, no teacher", "HRKD-teacher → HRKD")
    assert {(s.method, s.column) for s in record.scores} == {(row, name) for row in rows for name in files}
    assert str(tmp_path) not in file.read_text() and record.unit == "accuracy"
    place = next(line for line in said.splitlines() if line.startswith("record: ")).removeprefix("record: ")
    assert paths.Path(place).resolve() == file.resolve()

    (folder,) = (path.parent / "model" for path in (results / "own/models").rglob("relations.safetensors"))
    whole, texts = load_saved(folder, "labels"), ["a fine story", "a dull one, and far too long"]
    assert whole.num_labels == 4
    for number, name in enumerate(files):
        assert re.search(rf"^{name}: teacher .*, student alone .*, student .*; student over student alone", said, re.M)
        assert are_alike(logits_of(out / name, texts), logits_of(folder, texts)[:, 2 * number : 2 * number + 2])
        config = AutoConfig.from_pretrained(out / name)
        assert config.id2label == {0: "negative", 1: "positive"} and config.num_hidden_layers == 1
        assert config.problem_type == "single_label_classification"
        assert pipeline("text-classification", str(out / name))(texts)[0]["label"] in ("negative", "positive")
        card = (out / name / "README.md").read_text()
        (own,) = (s.value for s in record.scores if (s.method, s.column) == (rows[-1], name))
        assert f"| accuracy on test texts | {name} (6) |" in card and f"| this classifier | {own:.1f} |" in card
        assert "| student alone, same seed |" in card and "negative, positive" in card and str(tmp_path) not in card
        assert "pipeline_tag: text-classification" in card and "books 16, films 16" in card

    # Again, with the domains in another order: nothing is trained, and the record is the same one.
    before = {path: path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl")}
    assert run(dict(reversed(files.items())), out) == 0
    assert {path: path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl")} == before
    assert [path.name for path in (results / "own/hrkd").glob("*.json")] == [file.name]
    assert "all 6 trainings and scorings are done" in capsys.readouterr().out


def test_one_classifier_for_all_domains_shares_the_teacher(results, files, tmp_path, capsys):
    out = tmp_path / "models"
    assert run(files, out, "--unified") == 0
    assert [path.name for path in out.iterdir()] == ["all"]
    (folder,) = (path.parent / "model" for path in (results / "own/models").rglob("relations.safetensors"))
    texts = ["a fine story", "a dull one"]
    whole = logits_of(folder, texts)
    assert are_alike(logits_of(out / "all", texts), whole) and whole.shape == (2, 2)
    card = (out / "all" / "README.md").read_text()
    assert "# A classifier of books, films\n" in card and "| books (6) | films (6) |" in card
    capsys.readouterr()
    assert run(files, tmp_path / "other", "--dry-run") == 0
    assert "6 trainings and scorings at most, 2 done before" in capsys.readouterr().out  # the teacher, and its scores
    assert not (tmp_path / "other").exists()


def test_texts_that_are_too_long_are_counted(results, files, tmp_path, capsys):
    assert run(files, tmp_path / "models", "--dry-run", "-p", "reviews.max_length", "8") == 0
    pattern = r"warning: (\w+), train: (\d+) of 16 texts are cut to 8 tokens; raise reviews.max_length"
    warned = re.findall(pattern, capsys.readouterr().out)
    assert dict(warned).keys() == files.keys() and all(int(number) > 8 for _, number in warned)
    assert run(files, tmp_path / "models", "--dry-run") == 0 and "are cut to" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_a_head_by_itself_says_what_it_said_among_the_others(kind, tmp_path):
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    small = {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8} if kind == "distilbert" else small
    labels = {
        number: name for number, name in enumerate(["a no", "a yes", "a maybe", "b c no", "b c yes", "b c maybe"])
    }
    config = AutoConfig.for_model(
        kind, vocab_size=99, id2label=labels, label2id={v: k for k, v in labels.items()}, **small
    )
    config.heads = ["a", "b c"]
    model = AutoModelForSequenceClassification.from_config(config).eval()
    torch.nn.init.normal_(last_layer(model).bias)
    words = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        whole = model(words).logits
        own = head_of(model, "b c")
        own.save_pretrained(tmp_path)
        loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
        assert are_alike(whole[:, 3:], own(words).logits, loaded(words).logits)
        assert are_alike(model(words).logits, whole) and model.config.num_labels == 6
    assert loaded.config.id2label == {0: "no", 1: "yes", 2: "maybe"} and loaded.config.heads == ["b c"]
    with pytest.raises(EncoderError, match="no head of 'd'; it has 'a', 'b c'"):
        head_of(model, "d")
    model.config.id2label = {0: "one"}
    with pytest.raises(EncoderError, match=f"a {kind} has no linear layer of 1 outputs"):
        last_layer(model)


def test_wrong_use_is_one_line(results, files, tmp_path, capsys):
    def error(files, *more):
        assert run(files, tmp_path / "out", *more) == 1
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    assert "HRKD needs 2 to 16 domains, not 1" in error({"books": files["books"]})
    many = {f"d{number}": files["books"] for number in range(17)}
    assert "HRKD needs 2 to 16 domains, not 17" in error(many)
    assert "none.csv: no such file or folder" in error({**files, "cars": tmp_path / "none.csv"})
    (tmp_path / "one.csv").write_text("text,label\n" + "".join(f"story {i},good\n" for i in range(30)))
    assert "cars: every text is labelled good; give texts of at least two" in error(
        {**files, "cars": tmp_path / "one.csv"}
    )
    (tmp_path / "bare.csv").write_text("words,label\na,b\n")
    assert "bare.csv: expected a column 'text'" in error({**files, "cars": tmp_path / "bare.csv"})
    assert "-p reviews.folder has no meaning here" in error(files, "-p", "reviews.folder", "x")
    assert "-p data.train_size has no meaning here: HRKD does not depend on it; there is reviews.train_size" in error(
        files, "-p", "data.train_size", "5"
    )
    assert "encoder 'none' cannot be loaded" in error(files, "--student", "none")
    tokenizer = load_tokenizer("data/mini")
    save_encoder(load_encoder("data/mini", seed=0, random_layers=1), tokenizer, tmp_path / "student")
    words = json.loads((tmp_path / "student/tokenizer.json").read_text())
    first, second = list(words["model"]["vocab"])[-2:]
    vocabulary = words["model"]["vocab"]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (tmp_path / "student/tokenizer.json").write_text(json.dumps(words))
    assert "read different word pieces; use two of one kind" in error(files, "--student", str(tmp_path / "student"))
    (tmp_path / "out/books").mkdir(parents=True)
    (tmp_path / "out/books/thesis.tex").write_text("important")
    assert "holds something that is no classifier of ours" in error(files)
    assert not list(results.rglob("job.pkl"))


def test_labels_may_be_put_in_another_order(results, files, tmp_path, capsys):
    assert run(files, tmp_path / "out", "--dry-run", "-p", "reviews.labels", "['positive', 'negative']") == 0
    assert re.search(r"  train: positive \d+%, negative \d+%", capsys.readouterr().out)
