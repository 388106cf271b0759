"""Files of every format, each changed at one place: refused with a message, or read as far as the change explains."""

import copy
import csv
import gzip
import io
import itertools
import json
import random
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest

from helpers.data.examples import DataError
from helpers.data.questions import LOOSE, MOVED, OTHER, UNPLACED, read_questions

FILES = 2000
RECORDS = 8
WORDS = "amber birch cedar delta ember flint grove haven Ivory jade kelp lotus maple north olive pearl".split()
pytestmark = pytest.mark.slow


def passages():
    """Passages, each with two or three (id, question, [(answer, offset)])."""
    draw = random.Random(7)
    for p in range(RECORDS):
        words = [draw.choice(WORDS) for _ in range(30)]
        context = f'{p}: "{" ".join(words[:15])}",\n{" ".join(words[15:])} Zürich {p}.'
        questions = []
        for q in range(2 + p % 2):
            text = " ".join(words[3 * q + 1 : 3 * q + 3])
            questions.append((f"id{p}-{q}", f"What is {words[3 * q]}, {p}.{q}?", [(text, context.index(text))]))
        yield context, questions


def of_squad(version):
    for number, (context, questions) in enumerate(passages()):
        qas = []
        for q, (identifier, text, answers) in enumerate(questions):
            answers = [{"text": a, "answer_start": s} for a, s in answers]
            qas.append({"id": identifier, "question": text, "answers": answers})
            if version == 2:
                more = {"answers": [], "plausible_answers": answers} if q == 1 else {}
                qas[-1] |= {"is_impossible": q == 1, **more}
        yield {"title": f"T{number}", "paragraphs": [{"context": context, "qas": qas}]}


def of_mrqa():
    for context, questions in passages():
        qas = []
        for identifier, text, answers in questions:
            detected = [{"text": a, "char_spans": [[s, s + len(a) - 1]], "token_spans": [[0, 1]]} for a, s in answers]
            texts = {"answers": [a for a, _ in answers], "detected_answers": detected}
            qas.append({"qid": identifier, "question": text, **texts})
        yield {"id": "", "context": context, "qas": qas}


def of_rows():
    for context, questions in passages():
        for identifier, text, answers in questions:
            placed = {"text": [a for a, _ in answers], "answer_start": [s for _, s in answers]}
            yield {"id": identifier, "title": "T", "context": context, "question": text, "answers": placed}


def of_stories():
    for number, (_, questions) in enumerate(passages()):
        for _, text, ((answer, _),) in questions:
            row = {"document_id": f"d{number}", "set": "train", "question": text}
            yield row | {"answer1": answer, "answer2": "x"}


SUMMARIES = [{"document_id": f"d{n}", "summary": context} for n, (context, _) in enumerate(passages())]


@dataclass
class Kind:
    """One format: its records, and ``parts``, which gives the text before them, each record's, and the text after."""

    records: list
    parts: object
    name: str = "data"
    zipped: bool = False


def as_json(records):
    texts = [json.dumps(record, ensure_ascii=False) for record in records]
    return '{"version": "x", "data": [', [t + ", " for t in texts[:-1]] + texts[-1:], "]}"


def as_lines(records):
    header = '{"header": {"dataset": "x"}}\n' if "qas" in records[0] else ""
    return header, [json.dumps(record, ensure_ascii=False) + "\n" for record in records], ""


def as_csv(records):
    names = list(dict.fromkeys(name for record in records for name in record))
    texts = []
    for record in [dict(zip(names, names, strict=True)), *records]:
        csv.DictWriter(buffer := io.StringIO(), names, lineterminator="\n").writerow(record)
        texts.append(buffer.getvalue())
    return texts[0], texts[1:], ""


def kinds():
    text = {
        "squad 1.1": Kind(list(of_squad(1)), as_json),
        "squad 2.0": Kind(list(of_squad(2)), as_json),
        "mrqa": Kind(list(of_mrqa()), as_lines),
        "narrativeqa": Kind(list(of_stories()), as_csv, "qaps.csv"),
        "narrativeqa's summaries": Kind(SUMMARIES, as_csv, "summaries.csv"),
        "rows": Kind(list(of_rows()), as_lines),
        "csv": Kind(list(of_rows()), as_csv),
    }
    zipped = {f"{name}, gzipped": replace(kind, zipped=True) for name, kind in text.items()}
    return text | zipped | {"parquet": Kind(list(of_rows()), None)}


def write(path, kind, content):
    """``content`` as the file of its kind in the folder ``path``; what `read_questions` is to be given."""
    path.mkdir(exist_ok=True)
    if kind.name != "data":
        for name, records in (("summaries.csv", SUMMARIES), ("qaps.csv", list(of_stories()))):
            (path / name).write_bytes(bytes_of(Kind(records, as_csv), records))
    (path / kind.name).write_bytes(gzip.compress(content, 1) if kind.zipped else content)
    return path / "data" if kind.name == "data" else path


def bytes_of(kind, records):
    if kind.parts is None:
        sink = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), sink)
        return sink.getvalue()
    before, texts, after = kind.parts(records)
    return (before + "".join(texts) + after).encode("utf-8", "surrogatepass")


def change_bytes(content, draw):
    """The content with one stretch changed, and that stretch's first and last position in the original."""
    first = draw.randrange(len(content))
    last = min(first + draw.choice((1, 1, 2, 5, 20, 100, 400)), len(content))
    mark = draw.choice((None, b'"', b",", b"{", b"\n"))
    if mark and mark in content[first:]:  # from mark to mark: what is left is often well formed
        first = content.index(mark, first)
        place = content.find(mark, max(last, first + 1))
        last = place if place > 0 else min(first + 1, len(content))
    match draw.choice(("flip", "cut", "insert", "delete", "duplicate")):
        case "flip":
            flipped = bytes([content[first] ^ (1 << draw.randrange(8))])
            return content[:first] + flipped + content[first + 1 :], first, first + 1
        case "cut":
            return content[:first], first, len(content)
        case "insert":
            new = draw.choice((bytes([draw.randrange(256)]), b'"', b"\n", b",", b"}", b"\\", b"\0", b"\xef\xbb\xbf"))
            return content[:first] + new + content[first:], first, first
        case "delete":
            return content[:first] + content[last:], first, last
        case _:
            return content[:last] + content[first:], first, last


def change_value(value, draw, whole):
    """Change one place in ``value`` (a record): its path and what was done are drawn."""
    places = []

    def walk(node):
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            walk(node[key])

    walk(value)
    node, key = draw.choice(places)
    old = node[key]
    match draw.choice(("drop", "type", "null", "empty", "duplicate", "huge", "nest", "deep", "alike", "alike")):
        case "drop":
            del node[key]
        case "type":
            others = ["text", 3, -1, 2.5, True, [], {}, [1], {"a": 1}, str(old), [old, old], {"text": old}, "\ud800"]
            node[key] = draw.choice([new for new in others if type(new) is not type(old)] + [str(old) + " "])
        case "null":
            node[key] = None
        case "empty":
            node[key] = type(old)()
        case "duplicate":
            if isinstance(node, list):
                node.insert(key, copy.deepcopy(old))
            elif isinstance(old, list | str):
                node[key] = old + copy.deepcopy(old)
        case "huge":
            node[key] = draw.choice((10**18, -(10**18), 1e308)) if whole else draw.choice((10**30, -(10**30), 10**4000))
        case "alike":
            if isinstance(old, str):
                node[key] = draw.choice((old.swapcase(), old.replace(" ", "  "), f" {old}"))
            elif isinstance(old, int):
                node[key] = old + draw.randrange(-6, 7)
        case "nest":
            node[key] = draw.choice(([old], {"a": old}))
        case "deep":
            for _ in range(50 if whole else 500):
                old = [old]
            node[key] = old
    return value


def touched(kind, first, last):
    """The records that a change between two positions of the original can reach; -1 is what stands around them."""
    before, texts, _ = kind.parts(kind.records)
    reached, start = set(), len(before.encode())
    if first <= start:
        reached.add(-1)
    for number, text in enumerate(texts):
        end = start + len(text.encode())
        if first <= end and last >= start:
            reached.add(number)
        start = end
    return reached if last < start else reached | {-1}


def read(path, unanswerable):
    records, notes = read_questions(path, unanswerable)
    return SimpleNamespace(examples=[record.example for record in records], notes=notes)


def content_of(example):
    return example.question, example.context, example.answers, example.span


def examples_by_record(kind, examples):
    """Which examples of the original each record gives."""
    owners = defaultdict(list)
    numbers = {record.get("question"): number for number, record in enumerate(kind.records)}
    for example in examples:
        passage = int(example.context.split(":")[0])
        owners[passage if len(kind.records) == RECORDS else numbers[example.question]].append(example)
    return owners


def bare(text):
    return "".join(filter(str.isalnum, text.lower()))


def check_message(error, path):
    """One line a record, with the file's name, none of them long."""
    lines = str(error).replace(str(path), "", 1).split("\n")
    assert str(error).startswith(str(path)), str(error)[:300]
    assert all(len(line) <= 502 + len(path.name) for line in lines), max(lines, key=len)
    assert len(lines) <= 13 and all(line.startswith("  ") for line in lines[1:]), lines


def check_spans(corpus, kind, name):
    """Spans are stretches of their passage, and answers, but for repairs that are counted as such."""
    assert len({example.id for example in corpus.examples}) == len(corpus.examples)
    unlike = 0
    for example in corpus.examples:
        assert example.context.strip() and example.question.strip() and all(map(str.strip, example.answers))
        if example.span:
            first, last = example.span
            assert 0 <= first < last <= len(example.context)
            stretch = example.context[first:last]
            if name.startswith("mrqa"):  # whose answers may differ from detected ones in white space and punctuation
                unlike += bare(stretch) not in map(bare, example.answers)
            else:
                unlike += stretch not in example.answers
    if not kind.name.endswith(".csv"):  # NarrativeQA's answers are free
        assert unlike <= sum(counted(note) for note in corpus.notes if note.endswith((MOVED, LOOSE, OTHER)))


def counted(note):
    return int(note.split(": ")[1].split()[0].replace(",", ""))


def check_explained(corpus, original, kind, reached, table=None):
    """Nothing is lost or new but where the change reaches."""
    now, before = (Counter(map(content_of, c.examples)) for c in (corpus, original))
    if table is not None:
        assert [(e.id, e.question, e.context) for e in corpus.examples] == table
        return
    owners = examples_by_record(kind, original.examples)
    allowed = Counter(content_of(example) for number in reached for example in owners[number])
    lost, new = before - now, now - before
    assert lost <= allowed, f"lost: {lost - allowed}"
    assert new.total() <= 2 * allowed.total(), f"new: {new}"
    same_ids = {e.id: content_of(e) for e in corpus.examples}
    if not any(re.fullmatch("[0-9a-f]{8}-[0-9a-f]{8}", e.id) for e in corpus.examples):  # ids made of the content
        for number, examples in owners.items():
            if number not in reached:
                assert all(same_ids.get(e.id) == content_of(e) for e in examples)


def changed_text(path):
    content = path.read_bytes()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def mutated(kind, content, draw):
    """A changed file's bytes before zipping, the records that the change reaches, and whether to zip anew."""
    if draw.random() < 0.5:
        records, number = copy.deepcopy(kind.records), draw.randrange(len(kind.records))
        change_value(records[number], draw, kind.parts is None)
        return bytes_of(kind, records), {number}
    changed, first, last = change_bytes(content, draw)
    return changed, touched(kind, first, last) if kind.parts else None


def test_changed_files_are_refused_or_read_as_the_change_explains(tmp_path):
    draw, began, outcomes = random.Random(20), time.perf_counter(), Counter()
    every, originals = kinds(), {}
    for name, kind in every.items():
        path = write(tmp_path / "original", kind, bytes_of(kind, kind.records))
        originals[name] = read(path, name.startswith("squad 2"))
        assert len(originals[name].examples) == 20
        assert all(note.endswith(UNPLACED) for note in originals[name].notes)
    names = list(every)
    for number in itertools.count():
        if outcomes.total() == FILES:
            break
        name = names[number % len(names)]
        kind, original = every[name], originals[name]
        content = bytes_of(kind, kind.records)
        if kind.zipped and draw.random() < 0.3:  # the zipped bytes themselves: their checksum guards the content
            changed, *_ = change_bytes(gzip.compress(content, 1), draw)
            reached, kind_written = set(), replace(kind, zipped=False)
        else:
            try:
                (changed, reached), kind_written = mutated(kind, content, draw), kind
            except (pyarrow.ArrowException, OverflowError):  # such a column cannot be written
                continue
        path = write(tmp_path / f"{number}", kind_written, changed)
        try:
            corpus = read(path, name.startswith("squad 2"))
        except DataError as error:
            check_message(error, path)
            outcomes["refused"] += 1
            continue
        try:
            check_spans(corpus, kind, name)
            table = None
            if kind.parts is None:
                rows = pyarrow.parquet.read_table(path).to_pylist()
                table = [(str(row.get("id")), row["question"], row["context"]) for row in rows]
            if kind.parts in (as_json, as_lines):  # no question disappears: each has this key once
                assert len(corpus.examples) == len(re.findall(rb'(?<!\\)"question"\s*:', changed_text(path)))
            check_explained(corpus, original, kind, reached, table)
        except AssertionError as error:
            raise AssertionError(f"file {number}, {name}, records {reached}: {error}") from error
        outcomes["as before" if corpus.examples == original.examples else "otherwise"] += 1
    assert time.perf_counter() - began < 60
    assert len(outcomes) == 3 and min(outcomes.values()) > FILES / 20, outcomes
