"""Authors' files by URL, what preset paper says of all corpora, and the plan of its downloads."""

import json
import socket
import zipfile

import datasets
import pytest
from served import Served

from helpers import paths
from helpers.data import domains, originals, sections
from helpers.data.adversarial import load_adversarial
from helpers.data.downloads import plan
from helpers.data.examples import DataError
from helpers.data.mini import domains as mini
from helpers.presets.downloads import Collection, File
from helpers.presets.load import PresetError, load
from helpers.presets.schema import DataSettings

PAPER = load("paper").data


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path, cache):
    with (served := Served(tmp_path / "served")).server:
        yield served
        served.server.shutdown()


def lines(examples):
    """Questions with an answer each as a file of MRQA."""
    passages = [
        {
            "context": e.context,
            "qas": [
                {
                    "qid": e.id,
                    "question": e.question,
                    "answers": [e.answers[0]],
                    "detected_answers": [{"text": e.answers[0], "char_spans": [[e.span[0], e.span[1] - 1]]}],
                }
            ],
        }
        for e in examples
    ]
    return "\n".join(map(json.dumps, [{"header": {"dataset": "x"}}, *passages])).encode()


def test_a_file_is_downloaded_once_and_checked_whenever_it_is_used(server, cache):
    file, path = server.file("a.json", b"content"), cache / "x/a.json"
    originals.fetch(file, path)
    originals.fetch(file, path)
    assert path.read_bytes() == b"content" and server.asked == ["/a.json"]
    path.write_bytes(b"c0ntent")
    with pytest.raises(
        DataError, match=r"a.json: expected the SHA-256 \w{64}, found \w{64}; delete it, and it is fetched"
    ):
        originals.fetch(file, path)
    path.write_bytes(b"more content")
    with pytest.raises(DataError, match=r"a.json: expected 7 bytes, found 12; delete it"):
        originals.fetch(file, path)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_another_file_than_the_expected_is_not_kept(server, cache):
    for other, words in (
        ({"sha256": "0" * 64}, "expected the SHA-256 0000"),
        ({"bytes": 8}, "expected 8 bytes, found 7"),
    ):
        with pytest.raises(DataError, match=f"a.json: {words}.*correct bytes and sha256 in the preset"):
            originals.fetch(server.file("a.json", b"content", **other), cache / "x/a.json")
    assert names(cache / "x") == []


def test_a_connection_that_ends_early_leaves_nothing(server, cache):
    with pytest.raises(
        DataError, match=r"short.json: it cannot be downloaded .the connection ended after 7 of 12 bytes"
    ):
        originals.fetch(server.file("short.json", b"content", sha256="", bytes=0), cache / "x/short.json")
    assert names(cache / "x") == []


def test_what_a_killed_download_left_is_overwritten(server, cache):
    path = cache / "x/a.json"
    path.parent.mkdir(parents=True)
    path.with_name(".a.json.part").write_bytes(b"half of something longer")
    originals.fetch(server.file("a.json", b"content"), path)
    assert path.read_bytes() == b"content" and names(path.parent) == ["a.json"]


def test_without_a_network_address_and_place_are_said(cache):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.json"
    with pytest.raises(DataError, match=rf"{url}: it cannot be downloaded .*put it at {cache}/x/a.json$") as refused:
        originals.fetch(File(url=url), cache / "x/a.json")
    assert "\n" not in str(refused.value) and names(cache / "x") == []


def test_a_file_that_the_server_does_not_have(server, cache):
    file = server.file("a.json", b"content")
    (server.root / "a.json").unlink()
    with pytest.raises(DataError, match=r"a.json: it cannot be downloaded \(HTTP Error 404: File not found\)"):
        originals.fetch(file, cache / "x/a.json")


def collection(files, **rows):
    return Collection.model_validate({"corpora": {"c": {"rows": rows, "files": files}}})


def test_each_split_from_the_file_of_its_name(server, cache):
    world = mini.load_domain("news", train_size=20)
    files = {
        "train.jsonl": server.file("t.jsonl", lines(world.train)),
        "validation.jsonl": server.file("v.jsonl", lines(world.test)),
    }
    known = collection(files, train=20, validation=len(world.test))
    corpus = originals.load_original("x", known, "c", "train")
    assert [(e.id, e.span) for e in corpus.examples] == [(e.id, e.span) for e in world.train]
    assert server.asked == ["/t.jsonl"]
    known = collection(files, train=21)
    with pytest.raises(
        DataError, match=r"x:c\[train\]: expected 21 questions, as the preset says, found 20 in .*delete it"
    ):
        originals.load_original("x", known, "c", "train")
    with pytest.raises(DataError, match="x:c: the preset has no split 'test' of it; it has train"):
        originals.load_original("x", known, "c", "test")
    with pytest.raises(DataError, match="x:d: no such corpus; name one of x:c"):
        originals.load_original("x", known, "d", "train")


def test_narrativeqa_from_the_archive_of_its_authors(server, cache, tmp_path):
    files = PAPER.downloads["narrativeqa"].corpora["summaries"].files
    members = files["narrativeqa.zip"].members
    texts = {
        "summaries.csv": "document_id,set,summary\nd1,train,A young girl slept .\nd2,valid,An old man woke .\n",
        "qaps.csv": "document_id,set,question,answer1,answer2\n"
        "d1,train,Who ?,young girl,She\nd2,valid,Who ?,old man,He\n",
    }
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, inside in members.items():
            archive.writestr(inside, texts[name])
    content = (tmp_path / "x.zip").read_bytes()
    known = collection({"narrativeqa.zip": server.file("n.zip", content, members=members)}, train=1, validation=1)
    (example,) = originals.load_original("x", known, "c", "validation").examples
    assert (example.answers, example.context[slice(*example.span)]) == (("old man", "He"), "old man")
    known = collection({"n.zip": server.file("other.zip", content, members={"a.csv": "not/there.csv"})}, train=1)
    with pytest.raises(DataError, match=r"n.zip: .*not/there.csv.*; expected a .zip with not/there.csv"):
        originals.load_original("x", known, "c", "train")


def settings_of(known, **other):
    given = {"source": "hub", "domains": {"news": "x:c"}, "valid_size": 20, "downloads": {"x": known}}
    return DataSettings.model_validate(given | other)


def test_a_preset_trains_on_what_it_downloads_and_knows_it_by_its_content(server, cache):
    world = mini.load_domain("news", train_size=120)

    def settings(train):
        files = {"train.jsonl": lines(train), "validation.jsonl": lines(world.test)}
        files = {name: server.file(name, content) for name, content in files.items()}
        known = collection(files, train=len(train), validation=len(world.test))
        return settings_of(known.model_dump())

    data = settings(world.train)
    domain = domains.load_one(data, "news")
    assert len(domain.train) + len(domain.valid) == 120 and len(domain.test) == len(world.test)
    downloads = data.downloads | {"other": PAPER.downloads["rajpurkar/squad_v2"]}
    same = data.model_copy(update={"downloads": downloads})  # says more, yet gives the same questions
    assert sections.fingerprint(same, "news") == sections.fingerprint(data, "news")
    (cache / "x/c/train.jsonl").unlink()
    fewer = settings(world.train[:100])
    assert sections.fingerprint(fewer, "news") != sections.fingerprint(data, "news")


def test_real_adversarial_files_through_preset_paper(shared, cache):
    for name, file in (("AddSent", "sample1k-HCVerifyAll.json"), ("AddOneSent", "sample1k-HCVerifySample.json")):
        place = cache / "adversarial-squad" / name / "validation.json"
        place.parent.mkdir(parents=True)
        place.symlink_to(shared / "data/qa/squad-adversarial" / file)
    sets = load_adversarial(PAPER)
    assert {name: len(examples) for name, examples in sets.items()} == {
        "clean": 1000,
        "AddSent": 3560,
        "AddOneSent": 1787,
    }


# ----------------------------------------------------------------------------------------------- the preset itself


def sources(data):
    adversarial = [data.adversarial.AddSent, data.adversarial.AddOneSent]
    return [*data.domains.values(), data.narrative, *adversarial]


@pytest.mark.parametrize("topics", [(), ("a2d",), ("a2d", "a2d_narrativeqa")])
def test_preset_paper_knows_every_source_that_it_names(topics):
    data = load("paper", *topics).data
    for source in sources(data):
        name, _, corpus = source.partition(":")
        assert isinstance(data.downloads[name], Collection), source
        assert all(file.sha256 and file.bytes for file in data.downloads[name].corpora[corpus].files.values()), source


def test_the_subsets_of_mrqa_are_no_more_than_all_its_rows():
    known = PAPER.downloads["mrqa-workshop/mrqa"]
    table, files = known.configurations["plain_text"], PAPER.downloads["mrqa-2019"].corpora
    search = {"train": 117384, "validation": 16980}  # SearchQA, which IMM leaves out
    for split, rows in search.items():
        assert sum(subset[split] for subset in known.subsets.values()) + rows == table.rows[split]
    assert {name: originals.rows for name, originals in files.items()} == known.subsets


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "sha256 = ",
            "sha = ",
            r"paper.toml: data.downloads.mrqa-2019.files.corpora.SQuAD.files.train.jsonl.gz.sha: unknown",
        ),
        ('revision = "3ffb', 'revision = "', r"data.downloads.rajpurkar/squad_v2.hub.revision: String should match"),
        (
            "rows = { train = 130319",
            "rows = { train = 0",
            "squad_v2.rows.train: Input should be greater than or equal to 1",
        ),
        ("bytes = 17720493", 'bytes = "17 MB"', "configurations.squad_v2.bytes: Input should be a valid integer"),
    ],
)
def test_a_wrong_key_of_a_download_is_one_clear_line(tmp_path, old, new, words):
    text = (paths.PRESETS / "paper.toml").read_text().replace('name = "paper"', 'name = "mine"')
    (tmp_path / "paper.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(PresetError, match=words) as refused:
        load(str(tmp_path / "paper.toml"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("real", "corpus"), [("sample1k-HCVerifyAll.json", "AddSent"), ("sample1k-HCVerifySample.json", "AddOneSent")]
)
def test_real_files_are_those_that_preset_paper_means(shared, real, corpus):
    (file,) = PAPER.downloads["adversarial-squad"].corpora[corpus].files.values()
    assert originals._difference(file, shared / "data/qa/squad-adversarial" / real) == ""


# ----------------------------------------------------------------------------------------------------------- plan


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "prepared")

    def refuse(*_, **__):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path / "prepared"


def test_the_plan_of_preset_paper_lists_what_its_papers_share_once(cache, no_network):
    said = plan(PAPER, load("paper", "a2d").data)
    assert said == plan(PAPER)
    assert [line for line in said if "SQuAD:" in line] == [
        "SQuAD: mrqa-2019:SQuAD, rows: 86,588 train, 10,507 validation"
    ]
    files = [line for line in said if line.startswith("  ")]
    assert len(files) == 2 * 5 + 1 + 2 and all(line.endswith(": not here") for line in files)
    assert (
        "  https://s3.us-east-2.amazonaws.com/mrqa/release/v2/dev/SQuAD.jsonl.gz, 3.5 MB, checked: bytes, "
        "SHA-256 5afa4b088adf…, rows: not here"
    ) in files
    assert said[-1] == "in all 748.0 MB, still to download 748.0 MB"


def test_the_plan_says_what_is_here(cache, no_network):
    known = collection(
        {"train.json": File(url="http://x/a", bytes=2_000_000), "b.json": File(url="http://x/b")}, train=7
    )
    data = settings_of(known.model_dump())
    (cache / "x/c").mkdir(parents=True)
    (cache / "x/c/b.json").write_text("{}")
    assert plan(data) == [
        "news: x:c, rows: 7 train",
        "  http://x/a, 2.0 MB, checked: rows: not here",
        "  http://x/b, size not known, checked: rows: here",
        "in all 2.0 MB and 1 of unknown size, still to download 2.0 MB",
    ]
    (cache / "x/c/train.json").write_text("{}")  # not of its size
    assert plan(data)[1].endswith("not here")


def test_the_plan_of_datasets_on_the_hub(cache, no_network):
    places = {name: f"mrqa-workshop/mrqa:{name}" for name in ("SQuAD", "NewsQA")}
    adversarial = {"domain": "SQuAD"} | {
        name: f"stanfordnlp/squad_adversarial:{name}" for name in ("AddSent", "AddOneSent")
    }
    data = DataSettings.model_validate(
        {
            "source": "hub",
            "domains": places | {"own": "own/questions"},
            "adversarial": adversarial,
            "downloads": {name: known.model_dump() for name, known in PAPER.downloads.items()},
        }
    )
    mrqa = "mrqa-workshop/mrqa, rows: 516,819 train, 58,221 validation, 9,633 test"
    revision = PAPER.downloads["mrqa-workshop/mrqa"].revision
    said = plan(data)
    assert said == [
        f"SQuAD, NewsQA: {mrqa}",
        f"  the Hub, plain_text at revision {revision}, 1.68 GB, checked: columns, rows: not here",
        "own: own/questions",
        "  the Hub, latest revision, size not known, nothing checked: not here",
        "AddSent: stanfordnlp/squad_adversarial:AddSent, rows: 3,560 validation",
        "  the Hub, AddSent at revision refs/convert/parquet, size not known, checked: columns, rows: not here",
        "AddOneSent: stanfordnlp/squad_adversarial:AddOneSent, rows: 1,787 validation",
        "  the Hub, AddOneSent at revision refs/convert/parquet, size not known, checked: columns, rows: not here",
        "in all 1.68 GB and 3 of unknown size, still to download 1.68 GB and 3 of unknown size",
    ]
    prepared = no_network / "mrqa-workshop___mrqa/plain_text/0.0.0"
    (prepared / f"{revision}.incomplete").mkdir(parents=True)
    assert plan(data)[1].endswith(": not here")
    (prepared / revision).mkdir()
    assert plan(data)[1].endswith("rows: here")
    unfinished = no_network / "own___questions/default/0.0.0/0123.incomplete"
    unfinished.mkdir(parents=True)
    assert plan(data)[3].endswith(": not here")
    unfinished.with_suffix("").mkdir()
    assert plan(data)[3].endswith(": here")
    (no_network / "stanfordnlp___squad_adversarial").mkdir()
    assert plan(data)[5].endswith(": perhaps here")


@pytest.mark.parametrize("name", ["mini", "smoke", "lab"])
def test_other_presets_download_nothing(name, no_network):
    (line,) = plan(load(name).data)
    assert line.startswith("nothing is downloaded: ")
