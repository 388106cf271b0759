"""Answer one question with a trained reader; transformers 5 has no question-answering pipeline."""

from __future__ import annotations

from helpers.batches.sequences import make_windows
from helpers.data.examples import DataError, Example
from helpers.models.pretrained import load_saved, load_tokenizer, longest_input
from helpers.tasks import decoding
from helpers.training.loop import predict


def answer(model: str, question: str, passage: str, *, no_answer: bool = False) -> decoding.Prediction:
    """The best span of ``passage`` with its probability among the 20 best.

    ``model`` is a folder in Hugging Face format or a name on the Hub. With ``no_answer`` the empty answer takes
    part. Raises EncoderError for a model that cannot be loaded, DataError for an empty question or passage.
    """
    if not question.strip() or not passage.strip():
        raise DataError("question and passage must not be empty")
    tokenizer = load_tokenizer(model)
    reader = load_saved(model)
    longest = min(384, longest_input(reader))
    example = Example("question", question, passage, (), None, "question")
    windows = make_windows([example], tokenizer, max_length=longest, stride=longest // 3)
    return decoding.decode(windows, predict(reader, windows, precision="fp32"), no_answer=no_answer)[0]
