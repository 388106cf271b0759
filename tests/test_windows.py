import numpy as np
import pytest
import torch

from helpers.data import mini, qa
from helpers.data.examples import DataError, Example
from helpers.data.windows import WindowTensors, make_windows, window_starts
from helpers.models.reader import load_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("data/mini")


def example(question="Who leads Gamma?", context="Ada leads Gamma. Bela leads Delta.", answer="Ada", name="q"):
    start = context.index(answer)
    return Example(name, question, context, (answer,), (start, start + len(answer)), name)


def test_step_and_overlap_give_13_and_6_windows():
    # 2,000 passage tokens, a question of 20, length 512: 489 tokens fit
    assert len(window_starts(2000, 489, 128)) == 13
    assert len(window_starts(2000, 489, 489 - 128)) == 6


def test_window_starts_cover_the_passage_once_and_end_with_it():
    assert window_starts(10, 4, 3) == [0, 3, 6]  # 6..9 is the last
    assert window_starts(4, 4, 3) == [0]
    assert window_starts(0, 4, 3) == [0]


def test_no_token_is_left_out_by_a_step_longer_than_a_window():
    starts = window_starts(10, 3, 5)
    assert {token for start in starts for token in range(start, start + 3)} >= set(range(10))


def test_sequence_and_labels(tokenizer):
    windows = make_windows([example()], tokenizer, max_length=64, stride=16)
    tokens = tokenizer.convert_ids_to_tokens(windows.token_ids(0))
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]" and tokens.count("[SEP]") == 2
    assert tokens[int(windows.prefix_W[0]) - 1] == "[SEP]"
    assert windows.text(0, windows.start_W[0], windows.end_W[0]) == "Ada"


def test_a_window_without_the_whole_answer_is_labelled_cls(tokenizer):
    context = " ".join(["Ada leads Gamma."] * 30) + " Bela leads Delta."
    windows = make_windows([example(context=context, answer="Bela")], tokenizer, max_length=40, stride=10)
    found = {windows.text(w, windows.start_W[w], windows.end_W[w]) for w in np.flatnonzero(windows.start_W)}
    assert found == {"Bela"}
    without = windows.start_W == 0
    assert without.sum() >= 3 and (windows.end_W[without] == 0).all()


def test_an_answer_inside_a_token_is_widened_and_counted(tokenizer):
    context = "Ada leads Gamma."
    inside = Example("q", "Who?", context, ("da",), (1, 3), "q")
    windows = make_windows([inside], tokenizer, max_length=32, stride=8)
    assert windows.text(0, windows.start_W[0], windows.end_W[0]) == "Ada"
    assert windows.notes == ["1 answers widened to whole tokens"]


def test_empty_windows_are_left_out_by_seed_and_counted(tokenizer):
    context = " ".join(["Ada leads Gamma."] * 60) + " Bela leads Delta."
    examples = [example(context=context, answer="Bela", name=str(i)) for i in range(20)]
    everything = make_windows(examples, tokenizer, max_length=40, stride=20)
    few = make_windows(examples, tokenizer, max_length=40, stride=20, empty_windows=0.1)
    assert (few.start_W > 0).sum() == (everything.start_W > 0).sum()
    assert 0 < (few.start_W == 0).sum() < 0.2 * (everything.start_W == 0).sum()
    left_out = len(everything) - len(few)
    assert few.notes == [f"{left_out} of {len(everything)} windows without their answer left out"]
    again = make_windows(examples, tokenizer, max_length=40, stride=20, empty_windows=0.1)
    assert few.fingerprint() == again.fingerprint() != everything.fingerprint()


@pytest.mark.parametrize(
    ("question", "settings", "words"),
    [
        ("Who leads Gamma?", {"max_length": 6, "stride": 2}, "raise max_length"),
        ("Who leads Gamma?", {"max_length": 16, "stride": 30, "stride_is": "overlap"}, "lower stride"),
        ("\x00", {"max_length": 16, "stride": 4}, "'bad' has no tokens"),
    ],
)
def test_impossible_windows_are_one_clear_error(tokenizer, question, settings, words):
    with pytest.raises(DataError, match=words):
        make_windows([example(question=question, name="bad")], tokenizer, **settings)


def test_gather_equals_the_unpadded_windows(tokenizer):
    examples = mini.load_domain("encyclopedia").test[:40]
    windows = make_windows(examples, tokenizer, max_length=64, stride=16)
    assert len(windows) > 40
    batch = WindowTensors(windows).gather(np.arange(len(windows)))
    assert batch["input_ids"].shape[1] % 8 == 0
    for w in range(len(windows)):
        real = batch["attention_mask"][w] == 1
        ids, prefix = windows.token_ids(w), int(windows.prefix_W[w])
        assert batch["input_ids"][w][real].tolist() == ids.tolist()
        assert (batch["input_ids"][w][~real] == tokenizer.pad_token_id).all()
        assert batch["token_type_ids"][w].sum() == len(ids) - prefix
        assert batch["token_type_ids"][w][prefix] == 1 and batch["token_type_ids"][w][prefix - 1] == 0


def test_windows_equal_hugging_faces_own_on_real_text(shared):
    tokenizer = load_tokenizer(str(shared / "models/all-MiniLM-L6-v2"))
    examples = qa.read(shared / "data/qa/news/newsqa.json").examples[:60]
    windows = make_windows(examples, tokenizer, max_length=384, stride=128, stride_is="overlap", max_question=384)
    theirs = tokenizer(
        [e.question.strip() for e in examples],
        [e.context for e in examples],
        max_length=384,
        stride=128,
        truncation="only_second",
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    assert len(windows) == len(theirs["input_ids"]) > 60
    for w, ids in enumerate(theirs["input_ids"]):
        assert windows.token_ids(w).tolist() == ids
        example = examples[theirs["overflow_to_sample_mapping"][w]]
        assert example is examples[windows.example_W[w]]
        start, end = example.span
        offsets, kinds = theirs["offset_mapping"][w], theirs["token_type_ids"][w]
        inside = [t for t, (a, b) in enumerate(offsets) if kinds[t] == 1 and b > a and a < end and b > start]
        whole = inside and offsets[inside[0]][0] <= start and offsets[inside[-1]][1] >= end
        expected = (inside[0], inside[-1]) if whole else (0, 0)
        assert (windows.start_W[w], windows.end_W[w]) == expected


def test_every_real_label_decodes_to_its_answer(shared):
    tokenizer = load_tokenizer(str(shared / "models/all-MiniLM-L6-v2"))
    examples = qa.read(shared / "data/qa/squad/xquad.en.json").examples
    windows = make_windows(examples, tokenizer)
    labelled = np.flatnonzero(windows.start_W)
    assert len(labelled) > 1000
    different = [
        w
        for w in labelled
        if windows.text(w, windows.start_W[w], windows.end_W[w])
        != examples[windows.example_W[w]].context[slice(*examples[windows.example_W[w]].span)].strip()
    ]
    assert len({int(windows.example_W[w]) for w in different}) == sum(
        int(note.split()[0]) for note in windows.notes if "widened" in note
    )


def test_shared_device_pools_keep_the_labels(tokenizer):
    windows = make_windows([example(), example(name="r", answer="Bela")], tokenizer, max_length=64, stride=16)
    batch = WindowTensors(windows).gather(np.asarray([1, 0]))
    assert torch.equal(batch["start"], torch.as_tensor(windows.start_W[[1, 0]]).long())
