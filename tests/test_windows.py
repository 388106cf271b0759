"""Sequences: questions with windows of their passages, and pairs of texts."""

from unicodedata import normalize

import numpy as np
import pytest
import torch
from conftest import text_of
from encoder_kinds import KINDS, make_tokenizer
from qa_files import pairs
from tokenizers import normalizers, pre_tokenizers, processors

from helpers.data import load as data
from helpers.data.examples import Choice, DataError, Example, Pair
from helpers.data.mini import world as mini
from helpers.errors import EncoderError
from helpers.extractive_qa import windows_of, windows_over
from helpers.models.encoders import load_tokenizer
from helpers.pairs import make_choices, make_pairs
from helpers.presets.load import load_preset
from helpers.sequences import Windows, collate, complete_ranges, make_windows, note_unknown, tokenise, window_starts


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("data/mini")


def example(question="Who leads Gamma?", context="Ada leads Gamma. Bela leads Delta.", answer="Ada", name="q"):
    start = context.index(answer)
    return Example(name, question, context, (answer,), (start, start + len(answer)), name)


def test_window_starts():
    # 2,000 passage tokens, a question of 20, length 512: 489 tokens fit
    assert len(window_starts(2000, 489, 128)) == 13
    assert len(window_starts(2000, 489, 489 - 128)) == 6  # overlap
    assert window_starts(10, 4, 3) == [0, 3, 6]  # 6..9 is the last
    assert window_starts(10, 3, 5) == [0, 3, 6, 9]  # no token is left out by a step longer than a window
    assert window_starts(4, 4, 3) == window_starts(0, 4, 3) == [0]


def labelled(windows):
    """The passage text of each label, by window."""
    start, end = windows.labels["start"], windows.labels["end"]
    return {int(w): text_of(windows, w, start[w], end[w]) for w in np.flatnonzero(start)}


@pytest.mark.parametrize(
    ("text", "offsets", "ranges"),
    [
        ("wo\u0301rld x\u0301 y", [(0, 2), (3, 6), (7, 8), (10, 11)], [(0, 3), (3, 6), (7, 9), (10, 11)]),
        (" \u0301ab  c", [(2, 4), (6, 7)], [(1, 4), (6, 7)]),  # a mark before its word
        ("\ufeffab\u200b c\x10.", [(1, 3), (5, 6), (7, 8)], [(1, 3), (5, 6), (7, 8)]),  # invisible, of no token
        ("ab\u00ad c", [(0, 3), (4, 5)], [(0, 2), (4, 5)]),  # or of one
        ("a\u200d\u0301 b", [(0, 1), (4, 5)], [(0, 3), (4, 5)]),  # before a mark
        ("a\u200b b", [(0, 1), (1, 2), (3, 4)], [(0, 1), (3, 1), (3, 4)]),  # a token of its own
        (" a b ", [(0, 2), (2, 4)], [(1, 2), (3, 4)]),  # spaces in the ranges
        ("a é", [(0, 1), (2, 3), (2, 3)], [(0, 1), (2, 3), (2, 3)]),  # two tokens of one character
        ("", [], []),
    ],
)  # fmt: skip
def test_characters_without_a_token_belong_to_one_beside_them(text, offsets, ranges):
    assert complete_ranges(text, offsets).tolist() == [list(pair) for pair in ranges]


SCRIPTS = {  # a passage, and answers in it
    "Latin": ("Zoe\u0308 Quinn, of Paris-Nord, sold 40\u00ad000 lamps.", "Zoe\u0308", "Paris-Nord", "40\u00ad000"),
    "Cyrillic": ("Москва́ основана в 1147 году, говорит Долгору́кий.", "Москва́", "1147", "Долгору́кий"),
    "Arabic": ("ذَهَبَ مُحَمَّدٌ إِلَى القَاهِرَةِ وَ کتاب‌ها", "مُحَمَّدٌ", "القَاهِرَةِ", "کتاب‌ها"),
    "Devanagari": ("राम दिल्ली में रहता है और एलवे खेलता है।", "दिल्ली", "राम", "एलवे"),
    "Thai": ("สมชาย อยู่ที่ เชียงใหม่ มี สี่ คน", "เชียงใหม่", "สี่", "อยู่ที่"),
    "Han": ("長江發源於青藏高原，全長六千公里。", "青藏高原", "六千公里", "長江"),
}


def make_tokenizer_of(kind):
    """A tokenizer of single characters, whose normaliser or pre-tokenizer is of a ``kind``."""
    texts = [text for text, *_ in SCRIPTS.values()]
    encoder, size = {"uncased": ("bert", 5), "metaspace": ("deberta-v3", 170)}.get(kind, ("modernbert", 261))
    tokenizer = make_tokenizer(encoder, [*texts, *(normalize("NFD", text) for text in texts)], size)
    backend = tokenizer.backend_tokenizer
    if kind == "uncased":
        backend.normalizer = normalizers.BertNormalizer()
    if kind == "split":
        bytewise = pre_tokenizers.ByteLevel(add_prefix_space=True)
        words = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
        backend.pre_tokenizer = pre_tokenizers.Sequence([*words, bytewise])
        backend.post_processor = processors.Sequence([processors.ByteLevel(), backend.post_processor])
    return tokenizer


@pytest.mark.parametrize("kind", ["uncased", "metaspace", "bytes", "split"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_labels_of_every_script_decode_to_their_answers(script, kind):
    context, *answers = SCRIPTS[script]
    examples = [example(context=context, answer=answer, name=answer) for answer in answers]
    windows = make_windows(examples, make_tokenizer_of(kind), max_length=400)
    assert [*labelled(windows).values()] == answers


@pytest.mark.parametrize("character", ["\u200b", "\u00ad", "\ufeff", "\x10"], ids=ascii)
@pytest.mark.parametrize("kind", ["uncased", "metaspace", "bytes", "split"])
def test_invisible_characters_beside_an_answer_are_not_in_its_label(kind, character):
    context = f"{character}Ada{character} met {character}Bo\u00adb{character}."
    examples = [example(context=context, answer=answer) for answer in ("Ada", "Bo\u00adb")]
    windows = make_windows(examples, make_tokenizer_of(kind), max_length=400)
    assert [*labelled(windows).values()] == ["Ada", "Bo\u00adb"]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_hold_no_special_tokens(kind):
    """Whatever stands in them. What the tokenizer sets around texts stays."""
    plain = "The price is 40 or 30 s."
    tokenizer = make_tokenizer(kind, [plain] * 9)
    names = tokenizer.all_special_tokens
    markup = f"The {' '.join(names)} price{''.join(names)} is 30 s."
    specials = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    windows = make_windows([example(markup, markup, "30")], tokenizer, max_length=400, max_question=200)
    assert labelled(windows) == {0: "30"}
    both = make_pairs([Pair("p", markup, markup, 0)], tokenizer, 400)
    alone = make_pairs([Pair("s", markup, None, 0)], tokenizer, 400)
    choices = make_choices([Choice("c", markup, (markup, plain), 0)], tokenizer, 400)
    for sequences in (windows, both, alone, choices):
        for number, row in enumerate(sequences.rows):
            assert specials.isdisjoint({*row.first.tolist(), *row.second.tolist()})
            assert len(specials.intersection(sequences.token_ids(number).tolist())) == 2
    expected = tokenizer(plain, add_special_tokens=False)["input_ids"]
    assert tokenise([plain], tokenizer)[plain][0].tolist() == expected


def test_unknown_tokens_are_noted_and_refused(tokenizer):
    windows = make_windows([example()], tokenizer)
    assert note_unknown(windows, tokenizer, "news") == []
    mixed = make_windows([example(context="Ada leads Gamma. Bela leads Delta. ☃ ☃ ☃")], tokenizer)
    (note,) = note_unknown(mixed, tokenizer, "news")
    assert note.startswith("news: 20% of the tokens are unknown to the tokenizer ")
    foreign = make_windows([example("☃?", "☃ ☃ ☃ ☃", "☃")], tokenizer)
    with pytest.raises(EncoderError, match=r"news: [0-9]+% .*; use an encoder of the texts' language"):
        note_unknown(foreign, tokenizer, "news")


def test_a_window_without_the_whole_answer_is_labelled_cls(tokenizer):
    context = " ".join(["Ada leads Gamma."] * 30) + " Bela leads Delta."
    windows = make_windows([example(context=context, answer="Bela")], tokenizer, max_length=40, stride=10)
    assert {*labelled(windows).values()} == {"Bela"}
    without = windows.labels["start"] == 0
    assert without.sum() >= 3 and (windows.labels["end"][without] == 0).all()


def test_an_answer_inside_a_token_is_widened(tokenizer):
    inside = Example("q", "Who?", "Ada leads Gamma.", ("da",), (1, 3), "q")
    assert labelled(make_windows([inside], tokenizer, max_length=32, stride=8)) == {0: "Ada"}


def token_ids(windows):
    return [windows.token_ids(row).tolist() for row in range(len(windows))]


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
    order = np.arange(len(windows))[::-1]
    batch = {name: values.flip(0) for name, values in collate(windows, order).items()}
    assert batch["input_ids"].shape[1] % 8 == 0 and batch["start"].tolist() == windows.labels["start"].tolist()
    for w in range(len(windows)):
        real = batch["attention_mask"][w] == 1
        ids, prefix = windows.token_ids(w), int(windows.passage_start_W[w])
        assert batch["input_ids"][w][real].tolist() == ids.tolist()
        assert (batch["input_ids"][w][~real] == tokenizer.pad_token_id).all()
        assert batch["token_type_ids"][w].sum() == len(ids) - prefix
        assert batch["token_type_ids"][w][prefix] == 1 and batch["token_type_ids"][w][prefix - 1] == 0


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
    assert token_ids(joined) == token_ids(whole) and labelled(joined) == labelled(whole)
    for name in ("example_W", "lengths_W", "passage_start_W", "offsets_W"):
        values, expected = getattr(joined, name), getattr(whole, name)
        assert values.tolist() == expected.tolist() and values.dtype == expected.dtype, name
    texts = labelled(joined)
    assert len(texts) > 40
    assert all(text == joined.examples[joined.example_W[w]].answers[0] for w, text in texts.items())


def test_a_domain_loses_the_same_empty_windows_alone_and_among_others(tokenizer):
    preset = load_preset("smoke", **{"windows.max_length": 40, "windows.stride": 12, "windows.empty_windows": 0.3})
    alone = {}
    for name in ("news", "search"):
        train, settings = data.load(preset.data, name).train, preset.windows.model_dump()
        alone[name] = make_windows(train, tokenizer, **settings, seed=preset.data.seed)
        everything = make_windows(train, tokenizer, **{**settings, "empty_windows": 1.0})
        empty, left = ((windows.labels["start"] == 0).sum() for windows in (everything, alone[name]))
        assert 0.1 * empty < left < 0.5 * empty and empty > 40
        assert (alone[name].labels["start"] > 0).sum() == (everything.labels["start"] > 0).sum()
    for names in (["news"], ["search"], ["news", "search"], ["search", "news"]):
        joined = windows_of(preset, names, "train")
        assert token_ids(joined) == [ids for name in names for ids in token_ids(alone[name])]
        labels = np.concatenate([alone[name].labels["start"] for name in names])
        assert joined.labels["start"].tolist() == labels.tolist()


def test_no_window_is_left_out_where_answers_are_scored():
    small = {"windows.max_length": 40, "windows.stride": 12}
    preset, every = load_preset("smoke", **small, **{"windows.empty_windows": 0.0}), load_preset("smoke", **small)
    assert (windows_of(preset, ["news"], "train").labels["start"] > 0).all()
    for part in ("valid", "test"):
        assert len(windows_of(preset, ["news"], part)) == len(windows_of(every, ["news"], part))
    examples = mini.load_domain("news").test[:10]
    assert len(windows_over(preset, examples)) == len(windows_over(every, examples)) > 10


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
