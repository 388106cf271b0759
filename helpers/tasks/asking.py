"""One example of somebody's own, and what a trained model says of it, with its probabilities."""

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import nn

from helpers.batches.sequences import Windows, make_choices, make_pairs
from helpers.batches.texts import tokenise
from helpers.data.examples import Choice, DataError, Example, Pair
from helpers.data.texts import load_texts
from helpers.models.attention import keep_attention
from helpers.models.multitask import Head, load_multitask
from helpers.models.pretrained import load_tokenizer
from helpers.tasks import kinds, labels, spans
from helpers.tasks.classifiers import ClassifierTraining
from helpers.tasks.decoding import Prediction
from helpers.tasks.logits import Logits
from helpers.tasks.multitask import MultiTaskTraining
from helpers.tasks.views import best_window, read
from helpers.training.cached import CachedTraining
from helpers.training.loop import training_device

WORD = re.compile(r"\S+")


class Word(NamedTuple):
    """A word of a passage, by its half-open character range, with the probabilities that the answer starts and ends
    in it."""

    span: tuple[int, int]
    start: float
    end: float


class Answer(NamedTuple):
    """What a reader answers, every word of the passage, and how the passage's words (rows) attend to those of the
    question (columns): none where that was not asked for."""

    prediction: Prediction
    words: list[Word]
    attention: np.ndarray | None = None


class Model(NamedTuple):
    """A trained model and one of its heads: a task's or a domain's; "" where there is one for all."""

    training: CachedTraining
    head: str
    gives: Head

    @property
    def name(self) -> str:
        """What a person calls it."""
        label, head = self.training.label, self.head
        return label if not head or f", {head}," in f", {label}," else f"{label}: {head}"

    def load(self) -> nn.Module:
        """It by itself, in evaluation mode. Raises EncoderError."""
        if isinstance(self.training, MultiTaskTraining):
            return load_multitask(self.training.folder(), [self.head]).tasks[self.head].to(training_device()).eval()
        return self.training.load(self.training.key, self.gives.kind)


def models_of(training: CachedTraining) -> list[Model]:
    """A trained model by each of its heads."""
    if isinstance(training, MultiTaskTraining):
        heads = training.heads()
    elif isinstance(training, ClassifierTraining):
        heads = dict.fromkeys(training.heads, Head("labels", training.classes))
    else:
        heads = {"": Head("spans")}
    return [Model(training, name, gives) for name, gives in heads.items()]


def answer(model: Model, question: str, passage: str, *, attention: bool = False) -> Answer:
    """What a reader answers to a question about a passage, of which it reads windows as in its training. Raises
    DataError for an empty question or passage, EncoderError where the attention cannot be read."""
    if not question.strip() or not passage.strip():
        raise DataError("question and passage must not be empty")
    preset, reader = model.training.preset, model.load()
    windows = spans.windows_over(preset, [Example("own", question, passage, (), None, "own")])
    if attention:
        logits, flat = read(keep_attention(reader), windows, preset.training.precision)
    else:
        logits = spans.predict(reader, windows, precision=preset.training.precision)
    no_answer = preset.data.may_be_unanswerable(model.head) if model.head else reader.config.unanswerable
    (prediction,) = spans.decoded(preset, windows, logits, no_answer)
    words = words_of(windows, logits)
    if not attention:
        return Answer(prediction, words)
    _, (pieces,), _ = tokenise([question.strip()], load_tokenizer(preset.encoder))
    return Answer(prediction, words, attended(windows, flat, prediction, pieces[:, 0]))


def words_of(windows: Windows, logits: Logits) -> list[Word]:
    """The words of the one passage that all windows are of. What stands in several windows has the probability of the
    one that is surest; in one window those of all words, and of no answer, add up to 1."""
    sides, first = spans.distributions(windows, logits), np.cumsum(windows.lengths_W) - windows.lengths_W
    chars = windows.context_chars[0]
    best = np.zeros((2, len(chars)), np.float32)
    for window in range(len(windows)):
        begin, count = first[window] + windows.prefix_W[window], windows.count_W[window]
        tokens = slice(windows.first_W[window], windows.first_W[window] + count)
        best[:, tokens] = np.maximum(best[:, tokens], [side[begin : begin + count] for side in sides])
    passage = windows.examples[0].context
    word, count = _word_of(passage, chars[:, 0])
    sums = [np.bincount(word, weights=side, minlength=count) for side in best]
    return [
        Word(match.span(), float(start), float(end))
        for match, start, end in zip(WORD.finditer(passage), *sums, strict=True)
    ]


def attended(windows: Windows, flat: np.ndarray, answer: Prediction, pieces: np.ndarray) -> np.ndarray:
    """Attention by words in the window that holds the answer: a mean over a passage word's tokens, a sum over those of
    a question word, of which ``pieces`` are the first characters; nan for words that the window leaves out."""
    example = windows.examples[0]
    window, _ = best_window(windows, 0, {"answer": answer.span})
    sizes, asked = windows.count_W * windows.first_count_W, int(windows.first_count_W[window])
    weights = flat[sizes[:window].sum() :][: sizes[window]].reshape(-1, asked)
    of_question, columns = _word_of(example.question.strip(), pieces[:asked])
    read_from = windows.first_W[window]
    starts = windows.context_chars[0][read_from : read_from + windows.count_W[window], 0]
    of_passage, rows = _word_of(example.context, starts)
    table, count = np.zeros((rows, columns)), np.bincount(of_passage, minlength=rows)[:, None]
    np.add.at(table, (of_passage[:, None], of_question), weights)
    return np.where(count > 0, table / np.maximum(count, 1), np.nan)


def _word_of(text: str, starts: np.ndarray) -> tuple[np.ndarray, int]:
    """In which word of a text each token is, by its first character, and how many words there are."""
    begins = [match.start() for match in WORD.finditer(text)]
    return np.maximum(np.searchsorted(begins, starts, side="right") - 1, 0), len(begins)


def judge(model: Model, example: Pair | Choice) -> dict[str, float]:
    """The probability of each label of a text or pair, or its "score", or the probability of each ending. Raises
    DataError for an empty text, and where a model of pairs gets one text or the other way round."""
    preset, training = model.training.preset, model.training
    texts = [example.context, *example.endings] if isinstance(example, Choice) else [example.first, example.second]
    if not all(text is None or text.strip() for text in texts):
        raise DataError("a text must not be empty")
    if isinstance(example, Pair) and (example.second is not None) != is_of_pairs(model):
        raise DataError(f"{model.name} reads {'pairs of texts' if is_of_pairs(model) else 'one text'}")
    several = isinstance(training, ClassifierTraining)
    longest = training.texts.max_length if several else preset.tasks.max_length
    make = make_choices if isinstance(example, Choice) else make_pairs
    sequences, classes = make([example], load_tokenizer(preset.encoder), longest), 0
    if several:
        number, classes = np.full(1, training.heads.index(model.head), np.int32), training.classes
        sequences = replace(sequences, labels={**sequences.labels, "domain": number})
    said = labels.predict(model.load(), sequences, preset.training.precision, classes)[0]
    if said.ndim == 0:
        return {"score": float(said)}
    if isinstance(example, Choice):
        names = example.endings
    else:
        names = training.settings["labels"] if several else kinds.task_of(preset, model.head).labels
    return dict(zip(names, map(float, said), strict=True))


def is_of_pairs(model: Model) -> bool:
    """Whether a classifier reads pairs of texts."""
    return examples_of(model, domains_of(model)[0], "train")[0].second is not None


def domains_of(model: Model) -> list[str]:
    """The domains, or the task, that a model's head is for."""
    training = model.training
    if model.head:
        return [model.head]
    return training.domains if isinstance(training, ClassifierTraining) else list(training.preset.data.domains)


def topic_of(model: Model, domain: str) -> str:
    """What a person calls a domain or task of a model: with what tells it from others of the same name."""
    training, data = model.training, model.training.preset.data
    if isinstance(training, ClassifierTraining):
        return f"{training.corpus}: {domain}"
    place = data.domains.get(domain, domain) if model.gives.kind == "spans" else domain
    return domain if place == domain else f"{domain}: {place}"


def examples_of(model: Model, domain: str, part: str) -> list:
    """The examples of a part of a domain or task that a model is for."""
    if isinstance(model.training, ClassifierTraining):
        return getattr(load_texts(model.training.texts)[domain], part)
    return kinds.examples_of(model.training.preset, domain, part)
