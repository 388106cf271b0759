"""Small files of questions for tests, in every format."""

import csv
import json

from helpers.data.examples import Pair

MINE = """
extends = "smoke"
name = "mine"
[data]
source = "files"
[data.domains]
elsewhere = "elsewhere"
"""
CONTEXT = "Ada wrote notes. Ada met Babbage in London."


def question(identifier="q1", text="Where?", answers=(("London", 36),), **more):
    answers = [{"text": answer, "answer_start": start} for answer, start in answers]
    return {"id": identifier, "question": text, "answers": answers, **more}


def write_squad(path, *paragraphs, title="Ada"):
    """``paragraphs`` are (context, questions)."""
    paragraphs = [{"context": context, "qas": questions} for context, questions in paragraphs]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": title, "paragraphs": paragraphs}]}))
    return path


def question_of(example):
    """An example's question with its first answer."""
    return question(example.id, example.question, [(example.answers[0], example.span[0])])


def write_examples(path, examples):
    """Questions with an answer each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_squad(path, *((example.context, [question_of(example)]) for example in examples))


def write_many(path, passages, each=2, tag="", titles=None):
    """A file of ``passages`` passages with ``each`` questions; ``titles`` names the document of each passage."""
    articles = []
    for p in range(passages):
        context = f"{tag} Passage {p} speaks of thing{p}."
        start = context.index(f"thing{p}.")
        questions = [question(f"{tag}{p}-{q}", f"What {q}?", [(f"thing{p}", start)]) for q in range(each)]
        title = titles[p] if titles else "all"
        articles.append({"title": title, "paragraphs": [{"context": context, "qas": questions}]})
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"data": articles}))
    return path


def pairs(*labels):
    texts = [f"Ada leads Gamma {'and Delta ' * number}." for number in range(len(labels))]
    return [Pair(str(n), text, "Bela leads.", label) for n, (text, label) in enumerate(zip(texts, labels, strict=True))]


def mrqa_question(**changes):
    detected = [{"text": "London", "char_spans": [[36, 41]], "token_spans": [[7, 7]]}]
    return {"qid": "m1", "question": "Where?", "answers": ["London"], "detected_answers": detected} | changes


def write_mrqa(path, *questions, header=True):
    lines = [{"header": {"dataset": "x", "split": "train"}}] * header + [{"context": CONTEXT, "qas": list(questions)}]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def write_narrativeqa(
    folder, questions, summaries=(("d1", "The old king slept . A young girl found the silver ring ."),)
):
    """``questions`` are (document, set, question, answer1, answer2)."""
    folder.mkdir(exist_ok=True)
    for name, header, rows in (
        ("summaries.csv", ["document_id", "summary"], summaries),
        ("qaps.csv", ["document_id", "set", "question", "answer1", "answer2"], questions),
    ):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
    return folder
