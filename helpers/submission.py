"""What GLUE's server takes (Wang et al. 2019): a zip with the predictions of every task's test texts, a TSV each."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedConfig

from helpers.batches.sequences import make_pairs
from helpers.batches.texts import EncoderError
from helpers.data.examples import DataError, Pair
from helpers.data.formats.glue import GLUE, HIGHEST, test_splits
from helpers.data.tasks import test_texts
from helpers.files import write_whole
from helpers.models.pretrained import load_config, load_saved, load_tokenizer, longest_input
from helpers.presets.schema import TasksSettings
from helpers.tasks import labels
from helpers.training.loop import training_device

BY_NAME = ("MNLI", "QNLI", "RTE")  # tasks of whose labels the server wants the names; of others' the numbers
LONGEST = 512  # tokens of a text or pair, where neither model nor tokenizer says fewer
BEGUN = (1980, 1, 1, 0, 0, 0)  # the date of every file, so that the same predictions are the same zip


class Submission(NamedTuple):
    """The texts to predict, by task and by the file that the server expects of them, and files that lack something: a
    model or their texts."""

    texts: dict[str, dict[str, list[Pair]]]
    missing: dict[str, str]


def prepare(models: Path, folder: Path) -> Submission:
    """What can be predicted by ``models`` of the official test files in ``folder``; both have a subfolder a task, by
    its official name. Raises EncoderError for a model of other labels."""
    submission = Submission({}, {})
    for name in GLUE:
        if not (models / name / "config.json").is_file():
            submission.missing.update(dict.fromkeys(test_splits(name), f"no model in {models / name}"))
            continue
        answers_of(load_config(str(models / name)), name)
        try:
            texts = test_texts(TasksSettings(folder=str(folder), tasks={name: name}), name)
        except DataError as error:
            submission.missing.update(dict.fromkeys(test_splits(name), str(error)))
            continue
        submission.texts[name] = texts
        without = [file for file in test_splits(name) if file not in texts]
        submission.missing.update(dict.fromkeys(without, f"no diagnostic.tsv in {folder / 'diagnostic'}"))
    return submission


def answers_of(config: PreTrainedConfig, name: str) -> list[str]:
    """What the server is told of a task of GLUE for each class of a model, by the classes' numbers; nothing for scores.
    Classes without a name are numbered as GLUE's. Raises EncoderError where the model has other classes."""
    known = GLUE[name].labels
    own = [label.lower() for _, label in sorted(config.id2label.items())]
    if not known and len(own) == 1:
        return []
    if own == [f"label_{number}" for number in range(len(known))]:
        own = list(known)
    if not known or sorted(own) != sorted(known):
        expected = f"the labels {', '.join(known)}" if known else "one output, a score"
        raise EncoderError(f"the model of {name} needs {expected}; it has {', '.join(own)}: train one on {name}")
    return [label if name in BY_NAME else str(known.index(label)) for label in own]


def write(submission: Submission, models: Path, out: Path) -> Iterator[tuple[str, int]]:
    """Predict file after file, and write all of them as the zip ``out``; tells of each that is predicted, with the
    number of its texts. Raises OSError where that cannot be written."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, files in submission.texts.items():
            for file, texts in files.items():
                lines = (f"{text.id}\t{said}\n" for text, said in zip(texts, predict(models, name, texts), strict=True))
                content = "".join(["index\tprediction\n", *lines])
                archive.writestr(zipfile.ZipInfo(file, BEGUN), content, zipfile.ZIP_DEFLATED)
                yield file, len(texts)
    write_whole(out, packed.getvalue())


def predict(models: Path, name: str, texts: list[Pair]) -> list[str]:
    """What a task's model says of texts, as the server reads it: a class by name or number, or a score from 0 to 5."""
    place = str(models / name)
    model, tokenizer = load_saved(place, "labels").to(training_device()), load_tokenizer(place)
    longest = int(min(tokenizer.model_max_length, longest_input(model), LONGEST))
    said = labels.predict(model, make_pairs(texts, tokenizer, longest))
    if answers := answers_of(model.config, name):
        return [answers[number] for number in said.argmax(1)]
    return [f"{score:.3f}" for score in np.clip(said, 0, HIGHEST)]
