"""Sequences: questions with windows of their passages, and pairs of texts."""

import numpy as np
import pytest
import torch
from conftest import text_of

from helpers.batches.plans import make_batch
from helpers.batches.sequences import Windows, collate, make_pairs, make_windows, window_starts
from helpers.data import load as data
from helpers.data.examples import DataError, Example, Pair
from helpers.data.mini import world as mini
from helpers.data.questions import read_questions
from helpers.models.encoders import load_tokenizer
from helpers.presets.load import load
from helpers.reading import windows_of, windows_over
from helpers.teachers import StoredTeacher


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("data/mini")


def example(question="Who leads Gamma?", context="Ada leads Gamma. Bela leads Delta.", answer="Ada", name="q"):
    start = context.index(answer)
    return Example(name, question, context, (answer,), (start, start + len(answer)), name)


def examples_in(path):
    return [record.example for record in read_questions(path)[0]]


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
    assert text_of(windows, 0, windows.labels["start"][0], windows.labels["end"][0]) == "Ada"


def test_a_window_without_the_whole_answer_is_labelled_cls(tokenizer):
    context = " ".join(["Ada leads Gamma."] * 30) + " Bela leads Delta."
    windows = make_windows([example(context=context, answer="Bela")], tokenizer, max_length=40, stride=10)
    found = {
        text_of(windows, w, windows.labels["start"][w], windows.labels["end"][w])
        for w in np.flatnonzero(windows.labels["start"])
    }
    assert found == {"Bela"}
    without = windows.labels["start"] == 0
    assert without.sum() >= 3 and (windows.labels["end"][without] == 0).all()


def test_an_answer_inside_a_token_is_widened_and_counted(tokenizer):
    context = "Ada leads Gamma."
    inside = Example("q", "Who?", context, ("da",), (1, 3), "q")
    windows = make_windows([inside], tokenizer, max_length=32, stride=8)
    assert text_of(windows, 0, windows.labels["start"][0], windows.labels["end"][0]) == "Ada"
    assert windows.notes == ["1 answers widened to whole tokens"]


def test_empty_windows_are_left_out_by_seed_and_counted(tokenizer):
    context = " ".join(["Ada leads Gamma."] * 60) + " Bela leads Delta."
    examples = [example(context=context, answer="Bela", name=str(i)) for i in range(20)]
    everything = make_windows(examples, tokenizer, max_length=40, stride=20)
    few = make_windows(examples, tokenizer, max_length=40, stride=20, empty_windows=0.1)
    assert (few.labels["start"] > 0).sum() == (everything.labels["start"] > 0).sum()
    assert 0 < (few.labels["start"] == 0).sum() < 0.2 * (everything.labels["start"] == 0).sum()
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


def test_a_batch_equals_the_unpadded_windows(tokenizer):
    examples = mini.load_domain("encyclopedia").test[:40]
    windows = make_windows(examples, tokenizer, max_length=64, stride=16)
    assert len(windows) > 40
    batch = collate(windows, np.arange(len(windows)))
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
    examples = examples_in(shared / "data/qa/news/newsqa.json")[:60]
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
        assert (windows.labels["start"][w], windows.labels["end"][w]) == expected


def test_every_real_label_decodes_to_its_answer(shared):
    tokenizer = load_tokenizer(str(shared / "models/all-MiniLM-L6-v2"))
    examples = examples_in(shared / "data/qa/squad/xquad.en.json")
    windows = make_windows(examples, tokenizer)
    labelled = np.flatnonzero(windows.labels["start"])
    assert len(labelled) > 1000
    different = [
        w
        for w in labelled
        if text_of(windows, w, windows.labels["start"][w], windows.labels["end"][w])
        != examples[windows.example_W[w]].context[slice(*examples[windows.example_W[w]].span)].strip()
    ]
    assert len({int(windows.example_W[w]) for w in different}) == sum(
        int(note.split()[0]) for note in windows.notes if "widened" in note
    )


def test_shared_device_pools_keep_the_labels(tokenizer):
    windows = make_windows([example(), example(name="r", answer="Bela")], tokenizer, max_length=64, stride=16)
    batch = collate(windows, np.asarray([1, 0]))
    assert torch.equal(batch["start"], torch.as_tensor(windows.labels["start"][[1, 0]]).long())


@pytest.fixture(scope="module")
def domains(tokenizer):
    """Two domains that have a question and a passage in common, the windows of each, and of both."""
    lists = [mini.load_domain(name).test[:20] for name in ("encyclopedia", "news")]
    lists[1].append(lists[0][0])
    parts = [make_windows(examples, tokenizer, max_length=64, stride=16) for examples in lists]
    assert all(len(part) > len(examples) for part, examples in zip(parts, lists, strict=True))
    return lists, parts, Windows.concatenate(parts)


def test_windows_of_two_domains_are_those_over_both_lists(domains, tokenizer):
    lists, parts, joined = domains
    whole = make_windows([*lists[0], *lists[1]], tokenizer, max_length=64, stride=16)
    assert len(joined) == len(whole) == sum(map(len, parts))
    assert joined.examples == whole.examples and joined.template == whole.template
    arrays = [
        {name: getattr(every, name) for name in ("example_W", "first_W", "count_W", "lengths_W")} | every.labels
        for every in (joined, whole)
    ]
    for name, values in arrays[0].items():
        assert values.tolist() == arrays[1][name].tolist() and values.dtype == arrays[1][name].dtype, name
    assert set(arrays[0]) == set(arrays[1]) > {"start", "end"}
    for w in range(len(whole)):
        assert joined.token_ids(w).tolist() == whole.token_ids(w).tolist()
        first, last = int(whole.prefix_W[w]), int(whole.lengths_W[w]) - 2
        assert text_of(joined, w, first, last) == text_of(whole, w, first, last) != ""


def test_three_domains_and_one_alone(domains, tokenizer):
    _, (first, second), joined = domains
    three = Windows.concatenate([first, second, first])
    assert Windows.concatenate([first]) is first
    for w in range(len(first)):
        again = len(joined) + w
        assert three.token_ids(again).tolist() == first.token_ids(w).tolist()
        assert three.example_W[again] == len(joined.examples) + first.example_W[w]


def test_a_windows_labels_still_decode_to_its_answer(domains):
    joined = domains[2]
    labelled = np.flatnonzero(joined.labels["start"])
    assert len(labelled) > 40
    for w in labelled:
        assert (
            text_of(joined, w, joined.labels["start"][w], joined.labels["end"][w])
            == joined.examples[joined.example_W[w]].answers[0]
        )


def test_values_of_the_parts_tokens_fit_the_whole(domains, tokenizer):
    _, parts, joined = domains
    flat = torch.cat([torch.as_tensor(part.token_ids(w)) for part in parts for w in range(len(part))])
    border = len(parts[0])
    index = np.asarray([border, 0, len(joined) - 1, border - 1, 3])  # of both domains
    batch = make_batch(joined, index, [StoredTeacher(joined, of_tokens={"ids": flat})])
    found = batch["teacher_ids"]
    real = batch["attention_mask"] == 1
    assert found[real].tolist() == batch["input_ids"][real].tolist() and not found[~real].any()
    assert len(flat) == joined.lengths_W.sum()


def test_notes_of_all_domains_are_kept(tokenizer):
    inside = Example("q", "Who?", "Ada leads Gamma.", ("da",), (1, 3), "q")
    noted = make_windows([inside], tokenizer, max_length=32, stride=8)
    silent = make_windows([example()], tokenizer, max_length=64, stride=16)
    assert Windows.concatenate([silent, noted, noted]).notes == ["1 answers widened to whole tokens"] * 2


def test_a_domain_loses_the_same_empty_windows_alone_and_among_others(tokenizer):
    preset = load("smoke", **{"windows.max_length": 40, "windows.stride": 12, "windows.empty_windows": 0.3})
    alone = {}
    for name in ("news", "search"):
        train, settings = data.load(preset.data, name).train, preset.windows.model_dump()
        alone[name] = make_windows(train, tokenizer, **settings, seed=preset.data.seed)
        everything = make_windows(train, tokenizer, **{**settings, "empty_windows": 1.0})
        empty, kept = (everything.labels["start"] == 0).sum(), (alone[name].labels["start"] == 0).sum()
        assert 0.1 * empty < kept < 0.5 * empty and empty > 40
        assert (alone[name].labels["start"] > 0).sum() == (everything.labels["start"] > 0).sum()
    for names in (["news"], ["search"], ["news", "search"], ["search", "news"]):
        joined = windows_of(preset, names, "train")
        tokens = [joined.token_ids(w).tolist() for w in range(len(joined))]
        assert tokens == [alone[name].token_ids(w).tolist() for name in names for w in range(len(alone[name]))]
        assert joined.labels["start"].tolist() == [
            label for name in names for label in alone[name].labels["start"].tolist()
        ]


def test_no_window_is_left_out_where_answers_are_scored():
    small = {"windows.max_length": 40, "windows.stride": 12}
    preset, every = load("smoke", **small, **{"windows.empty_windows": 0.0}), load("smoke", **small)
    assert (windows_of(preset, ["news"], "train").labels["start"] > 0).all()
    for part in ("valid", "test"):
        assert len(windows_of(preset, ["news"], part)) == len(windows_of(every, ["news"], part))
    examples = mini.load_domain("news").test[:10]
    assert len(windows_over(preset, examples)) == len(windows_over(every, examples)) > 10


# --- pairs of texts ---------------------------------------------------------------------------------------------


def pairs(*values):
    return [
        Pair(str(i), f"Ada leads Gamma {'and Delta ' * i}.", "Bela leads.", label) for i, label in enumerate(values)
    ]


def test_labels_of_pairs_are_classes_or_scores_and_may_be_missing(tokenizer):
    batch = collate(make_pairs(pairs(2, None, 0), tokenizer), np.asarray([2, 1, 0]))
    assert batch["label"].tolist() == [0, -100, 2] and batch["label"].dtype == torch.int64
    batch = collate(make_pairs(pairs(2.5, None), tokenizer, scores=True), np.asarray([1, 0]))
    assert batch["label"].isnan().tolist() == [True, False] and batch["label"][1] == 2.5


def test_pairs_that_do_not_go_together_are_one_clear_error(tokenizer):
    single = Pair("s", "Ada leads.", None, 0)
    with pytest.raises(DataError, match="example 's' has no second text, unlike those before it"):
        make_pairs([*pairs(0, 1), single], tokenizer)
    with pytest.raises(DataError, match="example '0' has a second text, unlike"):
        make_pairs([single, *pairs(0)], tokenizer)
    with pytest.raises(DataError, match=r"max_length \(4\) leaves 1 tokens for the texts; raise it"):
        make_pairs(pairs(0), tokenizer, max_length=4)


def test_sequences_are_joined_and_selected(tokenizer):
    first, second = make_pairs(pairs(0, 1, 2), tokenizer), make_pairs(pairs(3, 4)[::-1], tokenizer)
    joined = type(first).concatenate([first, second])
    assert joined.examples == [*first.examples, *second.examples] and joined.example_W.tolist() == [0, 1, 2, 3, 4]
    chosen = joined.select(np.asarray([3, 0]))
    assert chosen.labels["label"].tolist() == [4, 0] and chosen.example_W.tolist() == [3, 0]
    assert chosen.token_ids(0).tolist() == second.token_ids(0).tolist() != chosen.token_ids(1).tolist()
    assert chosen.fingerprint() != joined.fingerprint() == type(first).concatenate([first, second]).fingerprint()
