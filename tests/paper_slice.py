"""Preset paper-slice: preset paper with 200 invented examples per corpus in the true layouts, and tiny models.

``python tests/paper_slice.py`` writes it into a temporary folder and runs notebooks 00 to 17 on it (make test-extras).
"""

import csv
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import datasets

from helpers import paths
from helpers.data.texts import GLUE
from helpers.presets.load import load_preset

SIZE, TESTS = 200, 40  # of a corpus, and of its other parts
PAPER = load_preset("paper")
NAMES = "Ada Bela Carl Dora Emil Fred Gina Hugo Irma Jack".split()
PLACES = "London Paris Rome Oslo Lima Cairo Delhi Quito Tokyo Bern".split()
VERBS = "leads joins leaves finds likes".split()
FOLDERS = ("data_dir", "mnli_dir", "reviews_dir", "tasks_dir")
SETTINGS = """
name = "paper-slice"
extends = "paper"
seeds = 1
control_seeds = 0
encoder = "data/mini"
random_layers = 1

[data]
valid_size = 20

[windows]
max_length = 64
stride = 32
max_question = 16

[training]
batch_size = 4
epochs = 0.05
evaluations = 1

[papers.hrkd]
"training.epochs" = 0.25

[engine]
threads = 1

[imm]
max_rounds = 1
figure3_max_rounds = 1

[mnemonic]
word_width = 8
letter_width = 4
hidden = 4
blocks = 2
batch_size = 8
epochs = 0.05

[a2d]
members = 2

[mnli]
max_length = 32
[reviews]
max_length = 32
[tasks]
max_length = 32

[hrkd]
mnli_student = ""
reviews_student = ""
student_layers = 1
mnli_epochs = 0.25
reviews_epochs = 0.05
heads = 2
graph_width = 4
shares = [0.5]

[mtdnn_kd]
models = 2
members = 2
tuning_epochs = 0.05

[mtdnn]
question_probs = [0.8]
large = "data/mini"
"""


def sentence(number: int, about: str) -> str:
    """Invent a sentence that no other number has."""
    draw = random.Random(f"{about} {number}")
    return f"{draw.choice(NAMES)} {draw.choice(VERBS)} team {number} of {draw.choice(PLACES)} in {about}"


def passage(number: int, about: str) -> tuple[str, str, int]:
    """Invent a passage, and an answer in it with its place."""
    person, place = (random.Random(f"{about} {number} {kind}").choice(kind) for kind in (NAMES, PLACES))
    begin = f"[TLE] Team {number} [PAR] {sentence(number, about)}. {person} met team {number} in "
    return f"{begin}{place} . Café « {about} ».", place, len(begin)


def write_mrqa(path: Path, corpus: str, split: str, size: int) -> None:
    """Write gzipped lines of JSON with MRQA's header, two questions per passage."""
    lines = [json.dumps({"header": {"dataset": corpus, "split": split}})]
    for number in range(size // 2):
        text, answer, start = passage(number, f"{corpus} {split}")
        end, qas = start + len(answer) - 1, []
        for each in range(2):
            detected = [{"text": answer, "char_spans": [[start, end]], "token_spans": [[0, 0]]}]
            question = f"{('Where', 'In which town')[each]} did one meet team {number}?"
            qid = hashlib.md5(f"{corpus} {split} {number} {each}".encode()).hexdigest()
            parts = {"question": question, "question_tokens": [["Where", 0]], "detected_answers": detected}
            qas.append({"id": "", "qid": qid, **parts, "answers": [answer]})
        tokens = [[word, text.index(word)] for word in text.split()]
        lines.append(json.dumps({"id": "", "context": text, "qas": qas, "context_tokens": tokens}))
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


def write_adversarial(path: Path, size: int) -> None:
    """Write SQuAD's JSON with clean questions, each before a variant of its passage."""
    paragraphs = []
    for number in range(size // 2):
        text, answer, start = passage(number, "adversarial")
        answers = [{"text": answer, "answer_start": start}]
        for name, more in (("", ""), ("-high-conf-turk0", " Zed met group 0 in Bonn.")):
            qas = [{"id": f"q{number}{name}", "question": f"Where did one meet team {number}?", "answers": answers}]
            paragraphs.append({"context": text + more, "qas": qas})
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "Teams", "paragraphs": paragraphs}]}))


def table(header: str, rows: list[list]) -> str:
    """Return a CSV file."""
    csv.writer(buffer := io.StringIO()).writerows([header.split(","), *rows])
    return buffer.getvalue()


def write_narrative(path: Path, members: dict[str, str]) -> None:
    """Write the archive of NarrativeQA's repository, two questions per story."""
    summaries, questions = [], []
    for part, size in (("train", SIZE), ("valid", TESTS), ("test", TESTS)):
        for number in range(size // 2):
            text, answer, _ = passage(number, f"story {part}")
            summaries.append([f"{part}{number}", part, text, text.lower()])
            for start in ("Where", "In which town"):
                question = f"{start} did one meet team {number} ?"
                row = [question, answer, f"in {answer}", question.lower(), answer.lower(), f"in {answer.lower()}"]
                questions.append([f"{part}{number}", part, *row])
    kept = "question,answer1,answer2,question_tokenized,answer1_tokenized,answer2_tokenized"
    tables = {
        "summaries.csv": table("document_id,set,summary,summary_tokenized", summaries),
        "qaps.csv": table(f"document_id,set,{kept}", questions),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, inside in members.items():
            archive.writestr(inside, tables[name])


def write_reviews(path: Path, members: dict[str, str]) -> None:
    """Write the archive of Amazon's reviews; texts are latin-1, as the authors' are."""
    with tarfile.open(path, "w:gz") as archive:
        for name, inside in members.items():
            word = "good" if "positive" in name else "bad"
            bodies = (
                f"<review>\n<unique_id>\n{n}\n</unique_id>\n<review_text>\n{word} café & {sentence(n, name)}\n"
                "</review_text>\n</review>\n"
                for n in range(SIZE // 2)
            )
            content = "".join(bodies).encode("latin-1")
            (info := tarfile.TarInfo(inside)).size = len(content)
            archive.addfile(info, io.BytesIO(content))


def make_value(column: str, number: int, about: str) -> object:
    """Invent the content of a column of a dataset on the Hub."""
    numbers = {"idx": number, "promptID": number}
    if column in numbers:
        return numbers[column]
    if column == "answers":
        _, answer, start = passage(number, about)
        return {"text": [answer], "answer_start": [start]} if number % 3 else {"text": [], "answer_start": []}
    if column == "context":
        return passage(number, about)[0]
    if column in ("id", "pairID"):
        return f"{about} {number}"
    return f"{sentence(number, about)} ({column})"


LABELS = {task.configuration: list(task.labels) for task in GLUE.values()}  # in the order of the Hub's numbers
LABELS |= {"multi_nli": LABELS["mnli"], "regular": ["0", "1", "2", "3"]}
GENRES = [source.rpartition(":")[2] for source in PAPER.mnli.domains.values()]


def write_dataset(folder: Path, name: str, columns: list[str], rows: dict[str, int]) -> None:
    """Write a configuration of a dataset on the Hub as Parquet files."""
    labels = LABELS.get(name, [])
    for split, size in rows.items():
        table = []
        for number in range(size):
            row = {column: make_value(column, number, f"{name} {split}") for column in columns}
            if "genre" in row:
                row["genre"] = GENRES[number % len(GENRES)]
            if "label" in row:
                row["label"] = number // len(GENRES) % len(labels) if labels else float(number % 6)
                row["label"] = -1 if split.startswith("test") else row["label"]
            table.append(row)
        rows_of_split = datasets.Dataset.from_list(table)
        if labels:
            rows_of_split = rows_of_split.cast_column("label", datasets.ClassLabel(names=labels))
        rows_of_split.to_parquet(folder / name / f"{split}-00000-of-00001.parquet")


def write_slice(folder: Path) -> Path:
    """Write copies of all corpora of preset paper into a folder, and the preset; return the preset's file."""
    lines, configurations = [SETTINGS], {}
    for section in ("data", "mnli", "reviews", "tasks"):
        for source, download in getattr(PAPER, section).downloads.items():
            begin, words = f'{section}.downloads."{source}"', source.split(":")
            rows = {split: SIZE if split == "train" or section == "reviews" else TESTS for split in download.rows}
            lines.append(f"[{begin}.rows]\n" + "".join(f"{split} = {size}\n" for split, size in rows.items()))
            for name, file in download.files.items():
                path = folder.joinpath(*words, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                if words[0] == "mrqa-2019":
                    split = name.partition(".")[0]
                    write_mrqa(path, words[1], split, rows[split])
                elif words[0] == "adversarial-squad":
                    write_adversarial(path, TESTS)
                else:
                    (write_narrative if words[0] == "narrativeqa" else write_reviews)(path, file.members)
                if file.sha256:
                    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
                    lines.append(f'[{begin}.files."{name}"]\nsha256 = "{checksum}"\n')
            if download.columns:
                name = words[1] if len(words) > 1 else words[0].rpartition("/")[2]
                write_dataset(folder / words[0], name, download.columns, rows)
                configurations.setdefault(words[0], {})[name] = [*rows]
    for repository, splits in configurations.items():  # its README tells `datasets` what is where
        entries = [
            {"config_name": name, "data_files": [{"split": split, "path": f"{name}/{split}-*"} for split in of_config]}
            for name, of_config in splits.items()
        ]
        (folder / repository / "README.md").write_text(f"---\nconfigs: {json.dumps(entries)}\n---\n")
    (preset := folder / "paper-slice.toml").write_text("\n".join(lines))
    return preset


def main(folder: Path) -> int:
    """Write the slice, and run notebooks 00 to 17 on it; return the exit status.

    Two runs share the folder of results, with a core each: one begins with the first notebook, the other with the last.
    """
    corpora, project = folder / "corpora", folder / "project"
    preset = write_slice(corpora)
    for name in ("helpers", "notebooks", "data/mini"):  # a copy with a cache and results of its own
        shutil.copytree(paths.ROOT / name, project / name)
    parameters = [word for name in FOLDERS for word in ("-p", name, str(corpora))]
    command = [sys.executable, "-m", "helpers", "run", "--preset", str(preset), *parameters]
    environment = {"PYTHONPATH": str(project), "HF_DATASETS_CACHE": str(folder / "hub")}
    environment |= {"HELPERS_PROCESSES": "1", "OMP_NUM_THREADS": "1"}
    forward, backward = [f"{number:02}" for number in range(17)], [f"{number:02}" for number in reversed(range(18))]
    runs = [
        subprocess.Popen([*command, *order], cwd=project, env=os.environ | environment) for order in (forward, backward)
    ]
    return int(any([run.wait() for run in runs]))


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        sys.exit(main(Path(name)))
