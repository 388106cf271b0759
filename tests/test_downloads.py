"""Authors' files by URL, datasets on the Hub, and what preset paper says of both."""

import hashlib
import http.server
import io
import json
import socket
import tarfile
import threading
import zipfile
from functools import partial

import datasets
import httpx
import pyarrow
import pytest
from qa_files import question_of, write_examples

from helpers import paths
from helpers.data import downloads, folders, hub
from helpers.data import load as load_module
from helpers.data.examples import DataError
from helpers.data.load import fingerprint_examples, load, load_adversarial, load_domains
from helpers.data.mini import world as mini
from helpers.presets.load import load_preset
from helpers.presets.schema import DataSettings, Download, File, TasksSettings, TextsSettings

PAPER = load_preset("paper")
REVISION = "a" * 40


class Served:
    """A folder, and a server on this machine that gives what lies in it; ``requests`` are the paths that it gave."""

    def __init__(self, root):
        self.root, self.requests = root, []
        root.mkdir()
        served = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                served.requests.append(self.path)

            def send_header(self, key, value):
                ends_early = key == "Content-Length" and "short" in self.path
                super().send_header(key, str(int(value) + 5) if ends_early else value)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=root))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def file(self, name, content, **other):
        (self.root / name).write_bytes(content)
        checksum = {"sha256": hashlib.sha256(content).hexdigest()}
        return File(url=f"http://127.0.0.1:{self.server.server_port}/{name}", **(checksum | other))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path, cache):
    with (served := Served(tmp_path / "served")).server:
        yield served
        served.server.shutdown()


def corpus(files, **rows):
    return Download(rows=rows or {"train": 1}, files=files)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_folder_that_only_another_user_may_write_is_said(tmp_path, cache, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(downloads, "FileLock", refuse)
    corpus = Download(files={"a.json": File(url="http://127.0.0.1:9/a.json")})
    with pytest.raises(DataError, match=r"denied: .*a\.json\.lock.*; ask \w+ for permission to write there$"):
        downloads.fetch("corpus", corpus)


def test_a_file_is_downloaded_once_and_again_if_it_is_another(server, cache):
    download = corpus({"a.json": server.file("a.json", b"content")})
    for _ in range(2):
        assert downloads.fetch("x:c", download) == cache / "x/c" and server.requests == ["/a.json"]
    (cache / "x/c/a.json").write_bytes(b"c0ntent")
    downloads.fetch("x:c", download)
    assert (cache / "x/c/a.json").read_bytes() == b"content" and len(server.requests) == 2


def test_domains_are_downloaded_where_no_folder_is_given(server, cache, tmp_path):
    examples = mini.load_domain("news", train_size=60).train
    write_examples(tmp_path / "mine/news/all.json", examples)
    (tmp_path / "mine/squad.json").write_bytes(content := (tmp_path / "mine/news/all.json").read_bytes())
    corpora = {"news": corpus({"all.json": server.file("all.json", content)})}
    for source in ("news", "news/all.json"):
        there = DataSettings(source="files", domains={"n": source}, downloads=corpora, valid_size=8)
        here = there.model_copy(update={"folder": str(tmp_path / "mine")})
        assert fingerprint_examples(there, "n") == fingerprint_examples(here, "n")
    assert server.requests == ["/all.json"]
    with pytest.raises(DataError, match="is not a folder; name the one that holds squad"):
        load(there.model_copy(update={"domains": {"n": "squad.json"}}), "n")


def test_what_cannot_be_downloaded_leaves_nothing(server, cache):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        offline = File(url=f"http://127.0.0.1:{free.getsockname()[1]}/a.json")
    bad = {
        "a.json: SHA256 hash of downloaded file": server.file("a.json", b"content", sha256="0" * 64),
        "short.json: .*IncompleteRead": server.file("short.json", b"content", sha256=""),
        "a.json: .*[Cc]onnection refused": offline,
        "none.json: 404 Client Error": server.file("none.json", b"content"),
    }
    (server.root / "none.json").unlink()
    for says, file in bad.items():
        says = rf"{says}.*connect to the network, .* put the file at {cache}/x/c"
        with pytest.raises(DataError, match=says) as error:
            downloads.fetch("x:c", corpus({"a.json": file}))
        assert "\n" not in str(error.value) and names(cache / "x/c") == []


def lines(examples):
    """Questions with an answer each as lines of JSON."""
    return "\n".join(json.dumps({"context": e.context, **question_of(e)}) for e in examples).encode()


def settings_of(download, valid_size=20):
    return DataSettings(source="hub", domains={"news": "x:c"}, valid_size=valid_size, downloads={"x:c": download})


def test_a_preset_trains_on_what_it_downloads_and_knows_it_by_its_content(server, cache):
    world = mini.load_domain("news", train_size=120)
    files = {
        "train.jsonl": server.file("t.jsonl", lines(world.train)),
        "validation.jsonl": server.file("v.jsonl", lines(world.test)),
    }
    data = settings_of(corpus(files, train=120, validation=200))
    domain = load(data, "news")
    assert len(domain.train) + len(domain.valid) == 120 and {e.id for e in domain.test} == {e.id for e in world.test}
    more = data.model_copy(update={"downloads": data.downloads | PAPER.data.downloads})
    assert fingerprint_examples(more, "news") == fingerprint_examples(data, "news")
    with pytest.raises(DataError, match="x:c: expected 121 rows of 'train', found 120; correct the source or its rows"):
        load(settings_of(corpus(files, train=121, validation=200)), "news")


def test_narrativeqa_from_the_archive_of_its_authors(server, tmp_path):
    file = PAPER.data.downloads["narrativeqa:summaries"].files["narrativeqa.zip"]
    texts = {
        "summaries.csv": "document_id,set,summary\nd1,train,A girl .\nd2,train,A boy .\nd3,valid,An old man .\n",
        "qaps.csv": "document_id,set,question,answer1,answer2\n"
        "d1,train,Who ?,girl,She\nd2,train,Who ?,boy,He\nd3,valid,Who ?,old man,He\n",
    }
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, inside in file.members.items():
            archive.writestr(inside, texts[name])
    served = server.file("n.zip", (tmp_path / "x.zip").read_bytes(), members=file.members)
    (example,) = load(settings_of(corpus({"n.zip": served}, train=2, validation=1), valid_size=1), "news").test
    assert (example.answers, example.context[slice(*example.span)]) == (("old man", "He"), "old man")


def archive_of(contents):
    with tarfile.open(fileobj=(buffer := io.BytesIO()), mode="w:gz") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_reviews_from_the_archive_of_their_authors(server):
    download = PAPER.reviews.downloads["amazon-reviews:texts"]
    (name, file), contents = *download.files.items(), {}
    assert file.members["kitchen.negative.review"] == "sorted_data_acl/kitchen_&_housewares/negative.review"
    for here, inside in file.members.items():
        bodies = (f"<review>\n<review_text>\n{here} {n}\n</review_text>\n</review>\n" for n in range(1000))
        contents[inside] = "".join(bodies).encode()
    served = server.file("reviews.tar.gz", archive_of(contents), members=file.members)
    changed = {"amazon-reviews:texts": download.model_copy(update={"files": {name: served}})}
    loaded = load_domains(PAPER.reviews.model_copy(update={"downloads": changed}))
    assert [len(domain.train) for domain in loaded.values()] == [1631, 1621, 1615, 1613]
    assert server.requests == ["/reviews.tar.gz"]


def test_nothing_of_an_archive_leads_outside_of_its_folder(tmp_path, server, cache):
    content = archive_of({"../../evil.txt": b"evil", "good.txt": b"good"})
    members = {"good": "good.txt", "evil": "../../evil.txt"}
    downloads.fetch("x:c", corpus({"a.tar.gz": server.file("a.tar.gz", content, members=members)}))
    assert names(cache / "x/c") == ["a.tar.gz", "evil", "good"] and not list(tmp_path.rglob("evil.txt"))
    for inside, data in (("bad.txt", content), ("good.txt", content[:-20])):
        download = corpus({"b.tar.gz": server.file("b.tar.gz", data, members={"x": inside})})
        with pytest.raises(DataError, match=f"expected an archive with {inside}"):
            downloads.fetch(f"x:{len(data)}", download)


def zip_of(contents):
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", archive_of), ("a.zip", zip_of)])
def test_what_was_taken_out_of_an_archive_is_checked_by_it_again(server, cache, name, pack):
    content = pack({"one.txt": b"good", "two.txt": b"fine"})
    download = corpus({name: server.file(name, content, members={"one": "one.txt", "two": "two.txt"})})
    folder = downloads.fetch("x:c", download)
    before = (folder / "two").stat().st_mtime_ns
    (folder / "one").write_bytes(b"evil")
    server.server.shutdown()
    server.server.server_close()  # no network is needed
    downloads.fetch("x:c", download)
    assert (folder / "one").read_bytes() == b"good" and (folder / "two").stat().st_mtime_ns == before
    (folder / "one").unlink()
    downloads.fetch("x:c", download)
    assert (folder / "one").read_bytes() == b"good" and server.requests == [f"/{name}"]


@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", archive_of), ("a.zip", zip_of)])
def test_an_archive_that_cannot_be_unpacked_is_asked_for_again(server, cache, name, pack):
    good = pack({"one.txt": bytes(range(256)) * 40})
    broken = good[:-8] + bytes(8)  # the end of either has a checksum
    for bad in (b"<html>log in first</html>", good[: len(good) // 2], broken, pack({"other.txt": b"x"})):
        download = corpus({name: server.file(name, bad, sha256="", members={"one": "one.txt"})})
        with pytest.raises(DataError, match=r"expected an archive with one\.txt, so it was deleted; connect"):
            downloads.fetch("x:c", download)
        assert names(cache / "x/c") == []
        server.file(name, good)
        folder = downloads.fetch("x:c", download)
        assert names(folder) == [name, "one"]
        for file in names(folder):
            (folder / file).unlink()


def test_an_archive_of_the_right_checksum_stays_where_it_lacks_a_member(server, cache):
    download = corpus({"a.zip": server.file("a.zip", zip_of({"x": b"x"}), members={"one": "one.txt"})})
    for _ in range(2):
        with pytest.raises(DataError, match=r"expected an archive with one\.txt; connect"):
            downloads.fetch("x:c", download)
    assert names(cache / "x/c") == ["a.zip"] and server.requests == ["/a.zip"]


CONTEXT = "Ada Lovelace was born in 1815 and in London she died."


COLUMNS = ("id", "context", "question", "answers")


def squad_row(number, texts=("London",)):
    answers = {"text": list(texts), "answer_start": [37] * len(texts)}
    return dict(zip(COLUMNS, (f"q{number}", f"{CONTEXT} {number}", "Where?", answers), strict=True))


def pinned(rows, columns=COLUMNS):
    return Download(rows=rows, revision=REVISION, columns=list(columns))


def test_questions_of_the_hub_are_checked(tmp_path, cache):
    place = str(tmp_path / "dataset")
    parts = {"train": [squad_row(n) for n in range(9)], "validation": [squad_row(10), squad_row(11, ())]}
    for split, rows in parts.items():
        datasets.Dataset.from_list(rows).to_parquet(f"{place}/{split}.parquet")

    def domain(download):
        data = {"source": "hub", "domains": {"a": place}, "downloads": {place: download}, "unanswerable": True}
        return load(DataSettings(**data, valid_size=2), "a")

    assert [e.answers for e in domain(pinned({"train": 9, "validation": 2})).test].count(()) == 1
    with pytest.raises(DataError, match="expected 3 rows of 'validation', found 2"):
        domain(pinned({"train": 9, "validation": 3}))
    with pytest.raises(DataError, match=r"expected the columns \['id', 'other'\], found \['id', 'context'"):
        domain(pinned({"train": 9, "validation": 2}, ["id", "other"]))


def test_the_hubs_own_names_of_classes_decide(monkeypatch):
    label = datasets.ClassLabel(names=["neutral", "contradiction", "entailment"])
    features = dict.fromkeys(("premise", "hypothesis", "genre"), datasets.Value("string")) | {"label": label}

    def load_split(*_, split, **__):
        texts = {name: [f"{split}-{name} {n}" for n in range(80)] for name in ("premise", "hypothesis")}
        columns = texts | {"genre": ["x", "y"] * 40, "label": [n // 2 % 4 - 1 for n in range(80)]}
        return datasets.Dataset.from_dict(columns, features=datasets.Features(features))

    monkeypatch.setattr(datasets, "load_dataset", load_split)
    for labels in (["contradiction", "entailment", "neutral"], []):
        domain = load_domains(TextsSettings(source="hub", domains={"all": "d:x"}, labels=labels))["all"]
        assert len(domain.test) == 30  # of this genre, with a label
        for pair in domain.train:
            number = int(pair.first.split()[1]) // 2 % 4 - 1
            assert sorted(label.names)[pair.label] == label.names[number]


def test_another_revision_from_the_cache_is_rejected(monkeypatch, tmp_path):
    for commit in (REVISION, "b" * 40):
        place = tmp_path / commit / "x-train.arrow"
        place.parent.mkdir()
        writer = datasets.arrow_writer.ArrowWriter(path=str(place))
        writer.write(squad_row(1))
        writer.finalize()
        rows = datasets.Dataset.from_file(str(place))
        monkeypatch.setattr(datasets, "load_dataset", lambda *_, rows=rows, **__: rows)
        if commit == REVISION:
            assert len(hub.load_split("own/d", "", "train", pinned({"train": 1}))) == 1
        else:
            with pytest.raises(DataError, match=f"expected revision {REVISION}, found {commit}; connect"):
                hub.load_split("own/d", "", "train", pinned({"train": 1}))


@pytest.mark.parametrize(
    ("error", "cause", "says"),
    [
        (ConnectionError("Couldn't reach 'own/d' on the Hub"), None, "ConnectionError: Couldn't reach 'own/d'"),
        (RuntimeError("An error occurred"), httpx.ReadError("reset by peer"), "ReadError: reset by peer"),
        (RuntimeError("x"), pyarrow.ArrowInvalid("Snappy:\n corrupt"), "ArrowInvalid: Snappy: corrupt"),
        (ValueError("BuilderConfig 'c' not found."), None, "ValueError: BuilderConfig 'c' not found."),
    ],
)
def test_whatever_the_hub_raises_is_one_line_with_the_name_and_what_to_do(monkeypatch, error, cause, says):
    def load_dataset(*_, **__):
        raise error from cause

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    says = rf"^own/d, split 'train': cannot be loaded from the Hub: {says}.*; connect"
    with pytest.raises(DataError, match=says) as raised:
        hub.load_split("own/d", "c", "train", None)
    assert "\n" not in str(raised.value)


def test_preset_paper_knows_every_source_that_it_names():
    for topic in ("imm", "a2d", "mtdnn_kd", "mtdnn"):
        preset = load_preset("paper", topic)
        sources = [*preset.data.domains.values(), preset.data.narrative]
        if preset.data.adversarial:
            sources += [preset.data.adversarial.AddSent, preset.data.adversarial.AddOneSent]
        assert all(downloads.find_download(preset.data.downloads, source)[2] for source in sources)
        for section in (preset.mnli, preset.reviews, preset.tasks):
            for source in section.named.values():
                _, part, download = downloads.find_download(section.downloads, source)
                assert download and (not download.files or part in download.rows)
    assert downloads.find_download(PAPER.mnli.downloads, "nyu-mll/multi_nli:fiction")[:2] == (
        "nyu-mll/multi_nli",
        "fiction",
    )
    assert downloads.find_download({}, "own/d:part") == ("own/d", "part", None)


def test_real_adversarial_files_are_those_that_preset_paper_means(shared, cache, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", None)
    for name, file in (("AddSent", "sample1k-HCVerifyAll.json"), ("AddOneSent", "sample1k-HCVerifySample.json")):
        place = cache / "adversarial-squad" / name / "validation.json"
        place.parent.mkdir(parents=True)
        place.symlink_to(shared / "data/qa/squad-adversarial" / file)
    sizes = {name: len(examples) for name, examples in load_adversarial(PAPER.data).items()}
    assert sizes == {"clean": 1000, "AddSent": 3560, "AddOneSent": 1787}


def test_a_download_has_one_source():
    hub, files = {"revision": REVISION, "columns": ["a"]}, {"files": {"a": File(url="http://x")}}
    for source in ({}, {"revision": REVISION}, hub | files):
        with pytest.raises(ValueError, match="give either files, or a revision and columns"):
            Download(rows={"train": 1}, **source)


def hub_repository(place, **splits):
    """A copy of a dataset's repository on the Hub with one configuration, "cola"."""
    place.mkdir(parents=True)
    files = "".join(f"  - split: {split}\n    path: cola/{split}-*\n" for split in splits)
    (place / "README.md").write_text(f"---\nconfigs:\n- config_name: cola\n  data_files:\n{files}---\n")
    features = {"sentence": datasets.Value("string"), "idx": datasets.Value("int32")}
    features |= {"label": datasets.ClassLabel(names=["unacceptable", "acceptable"])}
    for split, rows in splits.items():
        columns = {"sentence": [f"{split} {n}" for n in range(rows)], "idx": range(rows)}
        labels = [-1 if split == "test" else n % 2 for n in range(rows)]
        table = datasets.Dataset.from_dict(columns | {"label": labels}, features=datasets.Features(features))
        table.to_parquet(f"{place}/cola/{split}-00000-of-00001.parquet")


def test_a_folder_with_half_of_the_corpora(server, tmp_path):
    """A copy of one, one's own files of another, and a third that is downloaded."""
    world = {name: mini.load_domain(name, train_size=60) for name in ("news", "search", "trivia")}
    corpora = {}
    for name, domain in world.items():
        files = {"train.jsonl": lines(domain.train), "validation.jsonl": lines(domain.test)}
        files = {file: server.file(f"{name}-{file}", content) for file, content in files.items()}
        corpora[f"c:{name}"] = corpus(files, train=60, validation=200)
    mine = tmp_path / "mine"
    for part in ("train", "validation"):
        (mine / "c/news").mkdir(parents=True, exist_ok=True)
        (mine / f"c/news/{part}.jsonl").write_bytes((server.root / f"news-{part}.jsonl").read_bytes())
    write_examples(mine / "search/train.json", world["search"].train[:40])
    write_examples(mine / "search/dev.json", world["search"].test)
    facts = {"source": "hub", "domains": {name: f"c:{name}" for name in world}, "valid_size": 8}
    data = DataSettings(**facts, downloads=corpora, folder=str(mine))
    sizes = {name: len(domain.train) + len(domain.valid) for name, domain in load_domains(data).items()}
    assert sizes == {"news": 60, "search": 40, "trivia": 60}
    assert {path.partition("-")[0] for path in server.requests} == {"/trivia"}
    assert folders.state_files(data).splitlines() == [
        "news: c/news, checked as c:news",
        "search: dev.json, train.json",
        "trivia: c:trivia, by URL",
    ]
    (mine / "c/news/train.jsonl").write_text("{}")
    says = r"news/train\.jsonl: expected the SHA-256 \w+, found \w+; fetch it from http.*, or remove .*c/news, so that"
    with pytest.raises(DataError, match=says):
        load(data.model_copy(update={"seed": 1}), "news")


def test_copies_of_the_hubs_repositories_and_of_archives(tmp_path, cache):
    hub_repository(tmp_path / "own/d", train=40, validation=20, test=8)
    download = pinned({"train": 40, "validation": 20, "test": 8}, ["sentence", "label", "idx"])
    facts = {"source": "hub", "tasks": {"CoLA": "own/d:cola"}, "downloads": {"own/d:cola": download}}
    task = load(TasksSettings(**facts, folder=str(tmp_path)), "CoLA")
    assert (len(task.train), len(task.valid), len(task.test), len(task.unlabelled)) == (36, 4, 20, 8)
    bodies = "".join(f"<review>\n<review_text>\n{n}\n</review_text>\n</review>\n" for n in range(40))
    other = bodies.replace("<review_text>", "<review_text>\nno")
    content = archive_of({"positive.review": bodies.encode(), "negative.review": other.encode()})
    members = {f"books.{label}.review": f"{label}.review" for label in ("positive", "negative")}
    download = Download(rows={"books": 80}, files={"a.tar.gz": File(url="http://127.0.0.1:9/a", members=members)})
    (tmp_path / "mine/x/c").mkdir(parents=True)
    (tmp_path / "mine/x/c/a.tar.gz").write_bytes(content)
    facts = {"source": "hub", "domains": {"Books": "x:c:books"}, "downloads": {"x:c": download}, "split": "content"}
    settings = TextsSettings(**facts, labels=["negative", "positive"], folder=str(tmp_path / "mine"))
    assert len(load(settings, "Books").train) == 64
    assert names(tmp_path / "mine/x/c") == ["a.tar.gz"]


def test_a_few_records_of_a_corpus_may_be_unusable(server):
    world = mini.load_domain("news", train_size=200)
    broken = lines(world.train).replace(b'"question": "', b'"question": "", "": "', 1)
    files = {"train.jsonl": server.file("t.jsonl", broken)}
    files["validation.jsonl"] = server.file("v.jsonl", lines(world.test))
    data = settings_of(corpus(files, train=200, validation=200))
    with pytest.raises(DataError, match="1 of 200 records rejected"):
        load(data, "news")
    domain = load(data.model_copy(update={"reject": "count"}), "news")
    assert len(domain.train) + len(domain.valid) == 199
    assert [note for note in domain.notes if "1 of 200 records rejected and left out, such as line 1: " in note]


def test_a_corpus_is_read_once_for_all_processes(server, cache, monkeypatch):
    world = mini.load_domain("news", train_size=120)
    files = {"train.jsonl": server.file("t.jsonl", lines(world.train))}
    files["validation.jsonl"] = server.file("v.jsonl", lines(world.test))
    data = settings_of(corpus(files, train=120, validation=200))
    first = load(data, "news")
    monkeypatch.setattr(hub, "read", None)
    for function in (load_module.load, load_module._prepare, load_module._split_off_test, load_module._test_texts):
        function.cache_clear()
    assert load(data, "news") == first
    assert len([*(cache / "prepared").glob("*.gz")]) == 1


def test_copies_are_read_once_although_other_files_lie_beside_them(server, cache, tmp_path, monkeypatch):
    world = mini.load_domain("news", train_size=120)
    contents = {"train.jsonl": lines(world.train), "validation.jsonl": lines(world.test)}
    download = corpus(
        {name: server.file(name, content) for name, content in contents.items()}, train=120, validation=200
    )
    (copy := tmp_path / "mine/c/news").mkdir(parents=True)
    for name, content in contents.items():
        (copy / name).write_bytes(content)
    facts = {"source": "hub", "domains": {"news": "c:news"}, "downloads": {"c:news": download}, "valid_size": 8}
    data = DataSettings(**facts, folder=str(tmp_path / "mine"))

    def load_in_another_process():
        for function in ("load", "_prepare", "_read", "_split_off_test", "_test_texts"):
            getattr(load_module, function).cache_clear()
        return load(data, "news")

    first = load_in_another_process()
    (tmp_path / "mine/results").mkdir()
    (tmp_path / "mine/results/result.json").write_text("{}")
    with monkeypatch.context() as patch:
        patch.setattr(hub, "read", None)
        assert load_in_another_process() == first
    (copy / "train.jsonl").write_text("{}")
    with pytest.raises(DataError, match="expected the SHA-256"):
        load_in_another_process()
