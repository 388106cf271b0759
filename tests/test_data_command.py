"""``python -m helpers data``: the domains of a preset with their limits, files by themselves, what would be fetched."""

import json
import shutil

import pytest
from conftest import answer_of, write_squad

from helpers import __main__ as cli
from helpers.data import questions
from helpers.data.mini import domains as mini


@pytest.fixture
def examples():
    return mini.load_domain("news", train_size=60).train


def damaged(path, examples):
    """A file with an answer one character off, one that does not stand in its passage, and a question without one."""
    answers = [[answer_of(example)] for example in examples]
    answers[0][0]["answer_start"] += 1
    answers[1][0]["text"] = "nowhere to be found"
    answers[2] = []
    paragraphs = [
        {"context": e.context, "qas": [{"id": e.id, "question": e.question, "answers": given}]}
        for e, given in zip(examples, answers, strict=True)
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return path


def test_sizes_are_shown_with_what_limits_them(tmp_path, capsys, examples, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in ("wikipedia", "amazon", "reddit", "news", "policy", "stories"):
        write_squad(tmp_path / name / "all.json", mini.load_domain("news", train_size=500).train)
    asked = ["data", "--preset", "lab", "-p", "data_dir", str(tmp_path)]
    assert cli.main([*asked, "-p", "train_size", "100"]) == 0
    said = capsys.readouterr().out
    limits, _, sizes = said.partition("wikipedia:")
    assert limits.startswith("no GPU, hence these limits of preset lab") and "why" in limits.splitlines()[1]
    assert "data.valid_size" in limits and "data.test_size" in limits
    assert "train_size" not in limits and "seeds" not in limits  # it was asked for; it does not matter here
    assert sizes.startswith(" 100 train, 100 valid, 100 test questions")
    assert "100 of 300 training questions are used (train_size)" in sizes
    assert cli.main([*asked, "-p", "train_size", "0", "-p", "valid_size", "20", "-p", "test_size", "0"]) == 0
    said = capsys.readouterr().out
    assert "limits" not in said and "warning: wikipedia: 20 questions to validate on" in said


def test_passages_that_another_domain_trains_on_are_warned_of(tmp_path, capsys, examples):
    head, middle, tail = examples[:40], examples[40:50], examples[50:]
    for name, parts in {"news": (head, middle, tail), "search": (tail, middle, head)}.items():
        for part, given in zip(("train", "valid", "test"), parts, strict=True):
            write_squad(tmp_path / name / f"{part}.json", given)
    paragraphs = [
        {
            "context": head[0].context + more,
            "qas": [{"id": f"q{tag}", "question": "Who?", "answers": [answer_of(head[0])]}],
        }
        for more, tag in (("", ""), (" It rains.", "-turk1"))
    ]
    (tmp_path / "hard.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    shutil.copy("helpers/presets/lab.toml", own := tmp_path / "own.toml")
    content = own.read_text().replace('name = "lab"', 'name = "own-lab"')
    begin, _, rest = content.partition("[data.domains]")
    _, _, rest = rest.partition("[windows]")
    domains = '[data.domains]\nnews = "news"\nsearch = "search"\n'
    hard = '[data.adversarial]\ndomain = "news"\nAddSent = "hard.json"\nAddOneSent = "hard.json"\n'
    own.write_text(f"{begin}{domains}{hard}[windows]{rest}")
    assert cli.main(["data", "--preset", str(own), "-p", "data_dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    both = len({example.context for example in tail})
    assert f"warning: news: {both} of {both} test passages are trained on in search; leave them out there" in said
    both = len({example.context for example in head})
    assert f"warning: search: {both} of {both} test passages are trained on in news; leave them out there" in said
    assert "warning: adversarial questions: 1 of 1 test passages are trained on in news" in said


def test_a_file_is_checked_by_itself(tmp_path, capsys, examples):
    good, bad = tmp_path / "good.json", damaged(tmp_path / "bad.json", examples)
    write_squad(good, examples)
    assert cli.main(["data", str(good), str(bad)]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{good}: 60 questions on ")
    assert f"{bad}: 2 of 60 records refused" in captured.err
    assert "'nowhere to be found' does not stand in the context" in captured.err
    assert "data.unanswerable" in captured.err


def test_a_folder_of_a_domains_files_is_checked_as_one(tmp_path, capsys, examples):
    for part, given in (("train", examples[:40]), ("valid", examples[40:50]), ("test", examples[50:])):
        write_squad(tmp_path / "news" / f"{part}.json", given)
    assert cli.main(["data", str(tmp_path / "news")]) == 0
    said = capsys.readouterr().out
    assert "news: 60 questions on" in said and "questions: train 40" in said


def test_a_folder_that_is_not_there_is_said_once(tmp_path, capsys):
    assert cli.main(["data", "--preset", "lab", "-p", "data_dir", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.count("is no folder") == 1


def test_a_folder_of_other_domains_is_said_once(tmp_path, capsys, examples):
    write_squad(tmp_path / "legal" / "train.json", examples)
    assert cli.main(["data", "--preset", "lab", "-p", "data_dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert (
        said.count("holds legal/, and none of the preset's domains wikipedia, amazon, ") == 1
        and "[data.domains]" in said
    )


def test_a_file_is_written_mended_with_a_list_of_what_was_left_out(tmp_path, capsys, examples):
    bad, out = damaged(tmp_path / "bad.json", examples), tmp_path / "mended.json"
    assert cli.main(["data", str(bad), "--drop-bad", "--write-repaired", str(out)]) == 0
    said = capsys.readouterr().out
    assert "58 questions on" in said and "bad.json: 1 answers were placed" in said
    assert "left out: article 1, paragraph 2, question 1" in said
    assert len((tmp_path / "mended.left_out.txt").read_text().splitlines()) == 2
    mended = questions.read(out)
    assert mended.notes == [] and len(mended.examples) == 58
    assert mended.examples[0].span == examples[0].span
    assert cli.main(["data", str(bad), "--drop-bad", "-p", "unanswerable", "True", "--write-repaired", str(out)]) == 0
    assert len(questions.read(out, unanswerable=True).examples) == 59
    assert not (tmp_path / "other.left_out.txt").exists()
    before = bad.read_bytes()
    places = {bad: "give another name", tmp_path: "is a folder", tmp_path / "a.json.gz": "give another name"}
    for place, says in places.items():
        assert cli.main(["data", str(bad), "--drop-bad", "--write-repaired", str(place)]) == 1
        assert says in capsys.readouterr().err
    assert bad.read_bytes() == before
    assert cli.main(["data", "--write-repaired", str(out)]) == 1
    assert "error: give one file, and another to write: python -m helpers data FILE" in capsys.readouterr().err


def test_what_would_be_downloaded_is_printed(capsys):
    assert cli.main(["data", "--preset", "paper", "--plan"]) == 0
    said = capsys.readouterr().out
    assert "SQuAD: mrqa-2019:SQuAD, rows: 86,588 train" in said and said.count("train/SQuAD.jsonl.gz") == 1
    assert "free answers: narrativeqa:summaries" in said and "in all 1.15 GB and 2 of unknown size" in said
    assert "Books, DVD, Electronics, Kitchen: amazon-reviews:texts, rows: 2,000 books" in said
    assert cli.main(["data", "--plan"]) == 0
    assert "nothing is downloaded" in capsys.readouterr().out
