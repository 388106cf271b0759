"""A zip for GLUE's server: what is in it, and what is refused."""

import zipfile

import pytest
from task_files import LAYOUTS, PAIR_TEST, write, write_task

from helpers import __main__ as cli
from helpers import submission
from helpers.batches.texts import EncoderError
from helpers.data.formats.glue import GLUE
from helpers.models.pretrained import load_encoder, load_tokenizer, save_encoder

FILES = "CoLA SST-2 MRPC STS-B QQP MNLI-m MNLI-mm AX QNLI RTE WNLI".split()


@pytest.fixture
def official(tmp_path):
    """The official files of all tasks, the diagnostic texts too."""
    for name in LAYOUTS:
        write_task(tmp_path / "glue" / name, name)
    write(tmp_path / "glue/diagnostic/diagnostic.tsv", *PAIR_TEST, 7)
    return tmp_path / "glue"


def save(folder, name, labels=None):
    """A model of random weights for a task, by default with the task's labels."""
    labels = GLUE[name].labels if labels is None else labels
    model = load_encoder("data/mini", "labels", seed=0, classes=len(labels) or 1, random_layers=1)
    if labels:
        model.config.id2label = dict(enumerate(labels))
    save_encoder(model, load_tokenizer("data/mini"), folder / name)


@pytest.fixture
def models(tmp_path):
    """A model of every task."""
    for name in GLUE:
        save(tmp_path / "models", name)
    return tmp_path / "models"


def submit(models, official, out, *more):
    return cli.main(["glue-submission", str(models), "--tasks-dir", str(official), "--out", str(out), *more])


def rows(archive, file):
    header, *lines = archive.read(f"{file}.tsv").decode().splitlines()
    assert header == "index\tprediction"
    return [tuple(line.split("\t")) for line in lines]


def test_a_file_of_each_task(official, models, tmp_path, capsys):
    assert submit(models, official, tmp_path / "all.zip") == 0
    assert "AX.tsv: 7 predictions" in capsys.readouterr().out
    words = {"MNLI": {"entailment", "neutral", "contradiction"}, "QNLI": {"entailment", "not_entailment"}}
    words |= {"RTE": words["QNLI"], "AX": words["MNLI"]}
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert sorted(archive.namelist()) == sorted(f"{file}.tsv" for file in FILES)
        for file in FILES:
            found = rows(archive, file)
            assert [index for index, _ in found] == [str(number) for number in range(7 if file == "AX" else 5)]
            if file != "STS-B":
                assert {said for _, said in found} <= words.get(file.partition("-m")[0], {"0", "1"})


def test_scores_are_clipped_and_classes_go_by_their_names(models, tmp_path, monkeypatch):
    said = {}
    monkeypatch.setattr(submission.labels, "predict", lambda *_: submission.np.array(said["values"]))
    texts = [submission.Pair(str(number), "a", "b", None) for number in range(3)]
    said["values"] = [-0.3, 2.34567, 5.2]
    assert submission.predict(models, "STS-B", texts) == ["0.000", "2.346", "5.000"]
    said["values"] = [[0.1, 0.7, 0.2], [0.9, 0.1, 0.0], [0.0, 0.1, 0.9]]
    assert submission.predict(models, "MNLI", texts) == ["neutral", "entailment", "contradiction"]
    save(tmp_path / "other", "MNLI", ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"])
    assert submission.predict(tmp_path / "other", "MNLI", texts) == ["neutral", "contradiction", "entailment"]
    save(tmp_path / "other", "MNLI", ["LABEL_0", "LABEL_1", "LABEL_2"])
    assert submission.predict(tmp_path / "other", "MNLI", texts) == ["neutral", "entailment", "contradiction"]
    said["values"] = [[0.1, 0.9], [0.6, 0.4], [0.3, 0.7]]
    assert submission.predict(models, "WNLI", texts) == ["1", "0", "1"]
    save(tmp_path / "other", "WNLI", ["entailment", "not_entailment"])
    assert submission.predict(tmp_path / "other", "WNLI", texts) == ["0", "1", "0"]


@pytest.mark.parametrize(
    ("name", "labels", "says"),
    [
        ("RTE", ["good", "bad"], "RTE needs the labels entailment, not_entailment; it has good, bad"),
        ("MNLI", ["label_0", "label_1"], "MNLI needs the labels entailment, neutral, contradiction; it has label_0"),
        ("STS-B", ["no", "yes"], "STS-B needs one output, a score; it has no, yes"),
    ],
)
def test_a_model_of_other_labels_is_refused(official, tmp_path, name, labels, says):
    save(tmp_path / "models", name, labels)
    with pytest.raises(EncoderError, match=says):
        submission.prepare(tmp_path / "models", official)


def test_what_is_missing_is_named_before_anything_is_predicted(official, tmp_path, capsys, monkeypatch):
    for name in ("CoLA", "MNLI", "QNLI"):
        save(tmp_path / "models", name)
    (official / "QNLI/test.tsv").unlink()
    (official / "diagnostic/diagnostic.tsv").unlink()
    out = tmp_path / "some.zip"
    with monkeypatch.context() as patch:
        patch.setattr(submission, "predict", None)
        assert submit(tmp_path / "models", official, out) == 1
    said = capsys.readouterr()
    assert "the server needs every file, and 8 cannot be made" in said.err and not out.exists()
    missing = dict(line.removeprefix("missing: ").split(": ", 1) for line in said.out.splitlines())
    assert sorted(missing) == sorted(f"{file}.tsv" for file in FILES if file not in ("CoLA", "MNLI-m", "MNLI-mm"))
    assert missing["QNLI.tsv"].startswith(f"{official / 'QNLI/test.tsv'}: no such file")
    assert "no diagnostic.tsv" in missing["AX.tsv"] and "no model in" in missing["WNLI.tsv"]

    assert submit(tmp_path / "models", official, out, "--partial") == 0
    assert "missing: WNLI.tsv" in capsys.readouterr().out
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"]
    first = out.read_bytes()
    assert submit(tmp_path / "models", official, out, "--partial") == 0 and out.read_bytes() == first
    assert submit(tmp_path / "nothing", official, out, "--partial") == 1
    assert "11 cannot be made: give what is missing\n" in capsys.readouterr().err
