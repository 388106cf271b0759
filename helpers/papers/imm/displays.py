"""What notebooks show besides IMM's tables: words, rounds and single questions."""

from html import escape
from itertools import combinations

import numpy as np
import pandas as pd

from helpers import metrics
from helpers.data.load import load_adversarial, question_set, training_questions
from helpers.extractive_qa import answer, windows_over
from helpers.papers import shared
from helpers.papers.corpora import PAGE
from helpers.papers.imm.algorithm import Histories, train_methods, vectorise
from helpers.papers.shared import Models
from helpers.presets.schema import DataSettings, Preset
from helpers.task import Plan


def count_words(data: DataSettings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tabulate what each word but stop words adds to the cosine of every two domains, and what stop words add to it.

    The second table has a pair's cosine, and the percentage of it that comes from stop words.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # takes a second to import

    questions = training_questions(data)
    vectors, words = vectorise(questions)
    rows = dict(zip(questions, vectors, strict=True))
    added = pd.DataFrame({f"{one}, {other}": rows[one] * rows[other] for one, other in combinations(rows, 2)}, words)
    is_stop_word = added.index.isin(ENGLISH_STOP_WORDS | {"did", "does"})  # which the list lacks
    content = added[~is_stop_word]
    shares = 100 * added[is_stop_word].sum() / added.sum()
    order = content.sum(axis=1).sort_values(ascending=False, kind="stable").index
    return content.loc[order], pd.DataFrame({"cosine": added.sum(), "% from stop words": shares}).T


def sample_answers(models: Models) -> Plan:
    """Tabulate IMM's answers to the first three test questions of each domain, first seed, beside those expected."""
    seed, readers = next(iter(models.by_row["IMM"].items()))
    cells = {("IMM", domain, seed): (members, f"test/{domain}") for domain, members in readers.items()}
    lines = []
    for (_, domain, _), (name, (answers,)) in (yield from shared.answer_sets(models.preset, cells)).items():
        for example, text in zip(question_set(models.preset.for_seed(seed).data, name)[:3], answers, strict=False):
            expected = " / ".join(example.answers) or "no answer"
            lines.append({"domain": domain, "question": example.question, "answer": text, "expected": expected})
    return pd.DataFrame(lines)


def explain_rounds(models: Models, histories: Histories) -> Plan:
    """Tabulate what each round of IMM buys with the first seed, and what it changes in the test answers."""
    (seed, history) = next((seed, rounds) for (row, seed), rounds in histories.items() if row == "IMM")
    cells = {
        (k, i, seed): ((reader,), f"test/{i}") for k, theta in enumerate(history.theta) for i, reader in theta.items()
    }
    answers = yield from shared.answer_sets(models.preset, cells)
    f1 = {cell: scores.f1 for cell, scores in shared.score_cells(models.preset, answers).items()}
    table, needed = {}, [*history.theta[0].values()]
    for k, theta in enumerate(history.theta):
        row = {"validation F1": np.mean([reader.best for reader in theta.values()])}
        row["test F1"] = np.mean([f1[k, i, seed].mean() for i in theta])
        if k:
            needed += history.new[k - 1].values()
            old, new = history.theta[k - 1], history.new[k - 1]
            gains = np.concatenate([f1[k, i, seed] - f1[k - 1, i, seed] for i in theta])
            row |= {
                "accepted": sum(theta[i] is not old[i] for i in theta),
                "new less old on validation": np.mean([new[i].best - old[i].best for i in theta]),
                "% of test answers better": 100 * np.mean(gains > 0),
                "% worse": 100 * np.mean(gains < 0),
            }
        table[f"K = {k}"] = row | {"minutes of training": shared.add_up_seconds(needed) / 60}
    return pd.DataFrame.from_dict(table, orient="index")


def find_disagreement(models: Models) -> Plan:
    """Show the test question on which most rows give different answers, some right and some wrong; first seed.

    Returns HTML of the question and its passage, and a table of the answers.
    """
    seeds = next(iter(models.by_row.values()))
    seed, domains = next(iter(seeds.items()))
    cells = {(row, i, seed): (models.by_row[row][seed][i], f"test/{i}") for row in models.by_row for i in domains}
    answers = yield from shared.answer_sets(models.preset, cells)
    best, chosen = (False, 0), None
    for i in domains:
        for number, example in enumerate(question_set(models.preset.for_seed(seed).data, f"test/{i}")):
            texts = {row: answers[row, i, seed][1][0][number] for row in models.by_row}
            f1 = {row: 100 * metrics.answer_f1(example, text) for row, text in texts.items()}
            rank = (max(f1.values()) == 100 and min(f1.values()) == 0, len(set(texts.values())))
            if chosen is None or rank > best:
                best, chosen = rank, (i, example, pd.DataFrame({"answer": texts, "F1": f1}).round(1))
    domain, example, table = chosen
    facts = {"domain": domain, "question": example.question, "passage": example.context}
    facts["expected"] = " / ".join(example.answers)
    return list_facts({name: escape(text) for name, text in facts.items()}), table


def list_facts(facts: dict[str, str]) -> str:
    """Return HTML with a line per fact."""
    lines = "".join(f"<p><b>{name}:</b> {text}</p>" for name, text in facts.items())
    return PAGE.format(lines)


def compare_on_misleading(preset: Preset) -> Plan:
    """Show a question with the sentence that is added to its passage, and what each reader makes of it, first seed.

    It is the first that IMM answers rightly with the sentence and Single does not, or else the first. Returns HTML of
    the passage, and a table: each reader's answer, and its probabilities of the right answer and of all answers in the
    added sentence, without that sentence and with it.
    """
    models, _ = yield from train_methods(preset, preset.imm.max_rounds)
    domain, seed = preset.data.adversarial.domain, next(iter(models.by_row["Single"]))
    drawn = models.preset.for_seed(seed)
    sets = load_adversarial(drawn.data)
    clean = {example.group: example for example in sets["clean"]}
    cells = {(row, "AddSent", seed): (models.by_row[row][seed][domain], "AddSent") for row in ("Single", "IMM")}
    of_reader = yield from shared.answer_sets(models.preset, cells)
    texts = {row: answers[0] for (row, *_), (_, answers) in of_reader.items()}
    right = {
        row: [metrics.answer_f1(e, text) == 1 for e, text in zip(sets["AddSent"], texts[row], strict=True)]
        for row in texts
    }
    changed = [
        n for n, e in enumerate(sets["AddSent"]) if e.id != e.group and e.context.startswith(clean[e.group].context)
    ]
    number = next((n for n in changed if right["IMM"][n] and not right["Single"][n]), changed[0])
    variant = sets["AddSent"][number]
    original = clean[variant.group]
    end, table = len(original.context), {}
    for row, by_seed in models.by_row.items():
        (reader,) = by_seed[seed][domain]
        model = reader.load()
        for when, example in {"without": original, "with": variant}.items():
            (prediction,) = answer(drawn, [model], windows_over(drawn, [example]))
            shares = {"P(right)": 0.0, "P(added)": 0.0}
            for candidate in prediction.n_best:
                is_added = candidate.span is not None and candidate.span[0] >= end
                is_right = not is_added and metrics.answer_f1(example, candidate.text) == 1
                shares["P(right)"] += is_right * candidate.probability
                shares["P(added)"] += is_added * candidate.probability
            if when == "without":
                del shares["P(added)"]
            values = {"answer": prediction.text} | {name: round(share, 2) for name, share in shares.items()}
            table.setdefault(row, {}).update({(f"{when} the sentence", name): value for name, value in values.items()})
    passage = f"{escape(original.context)}<mark>{escape(variant.context[end:])}</mark>"
    facts = {"question": escape(variant.question), "passage": passage, "expected": escape(" / ".join(variant.answers))}
    return list_facts(facts), pd.DataFrame.from_dict(table, orient="index")
