import numpy as np
import pytest
import torch

from helpers.batches.plans import Batches, epochs_of, length_buckets, plan_steps, upsample
from helpers.batches.sequences import make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data.mini import domains
from helpers.models.pretrained import load_tokenizer


def whole_epochs(windows, domain, *, epochs, batch_size, seed):
    each = epochs_of(windows, domain, batch_size=batch_size, seed=seed)
    return [batch for _, batches in zip(range(epochs), each, strict=False) for batch in batches]


@pytest.fixture(scope="module")
def windows():
    examples = [e for name in ("news", "search") for e in domains.load_domain(name, train_size=30).train[:30]]
    return make_windows(examples[:50], load_tokenizer("data/mini"), max_length=64, stride=24)


def test_upsample_repeats_to_the_largest_whole_copies_first():
    rows = upsample([7, 3], np.random.default_rng(0))
    assert rows[0].tolist() == list(range(7))
    assert rows[1][:6].tolist() == [0, 1, 2, 0, 1, 2] and len(rows[1]) == 7
    with pytest.raises(ValueError, match="empty domain"):
        upsample([2, 0], np.random.default_rng(0))


def test_buckets_hold_every_window_once_and_waste_little():
    lengths = np.random.default_rng(1).integers(20, 400, 5001)
    batches = length_buckets(lengths, 16, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(5001))
    assert [len(b) for b in batches].count(16) == 312 and len(batches[-1]) == 9
    padded = sum(len(b) * lengths[b].max() for b in batches)
    assert padded < 1.05 * lengths.sum()
    firsts = [lengths[b].mean() for b in batches[:50]]
    assert firsts != sorted(firsts)  # batches come in no order of length


def test_plan_mixes_domains_to_equal_numbers_of_questions(windows):
    domain = np.asarray([0] * 30 + [1] * 20)
    plan = whole_epochs(windows, domain, epochs=2, batch_size=8, seed=3)
    asked = windows.example_W[np.concatenate(plan)]
    per_question = np.bincount(windows.example_W)
    times = np.bincount(asked, minlength=50) / per_question  # every window of a question comes along
    assert times[:30].tolist() == [2.0] * 30
    assert times[30:].sum() == 60 and set(times[30:]) <= {2.0, 3.0, 4.0}


def test_plan_follows_the_seed_and_changes_by_epoch(windows):
    domain = np.zeros(50, int)
    one, again, other = (whole_epochs(windows, domain, epochs=2, batch_size=8, seed=s) for s in (3, 3, 4))
    assert all((a == b).all() for a, b in zip(one, again, strict=True))
    assert any(a.tolist() != b.tolist() for a, b in zip(one, other, strict=True))
    half = len(one) // 2
    assert [a.tolist() for a in one[:half]] != [a.tolist() for a in one[half:]]


def test_parts_of_a_batch_are_the_batch(windows):
    batches = Batches(SequenceTensors(windows), [np.arange(7)])
    parts = [batches.at(0, part, 3)["window"].tolist() for part in range(3)]
    assert sorted(number for part in parts for number in part) == list(range(7)) and batches.size(0) == 7


def numbers(plan):
    return [batch.tolist() for batch in plan]


def test_a_plan_of_steps_has_exactly_so_many(windows):
    domain = np.asarray([0] * 30 + [1] * 20)
    for steps in (1, 2, 9, 100):
        assert len(plan_steps(windows, domain, steps=steps, batch_size=8, seed=3)) == steps


def test_a_shorter_plan_of_steps_is_the_head_of_a_longer_one(windows):
    domain = np.asarray([0] * 30 + [1] * 20)
    longest = numbers(plan_steps(windows, domain, steps=60, batch_size=8, seed=3))
    for steps in (1, 7, 30, 59):
        assert numbers(plan_steps(windows, domain, steps=steps, batch_size=8, seed=3)) == longest[:steps]
    assert numbers(plan_steps(windows, domain, steps=60, batch_size=8, seed=4)) != longest


def test_a_plan_of_steps_goes_through_the_same_epochs(windows):
    domain = np.asarray([0] * 30 + [1] * 20)
    for epochs in (1, 2, 3):
        plan = numbers(whole_epochs(windows, domain, epochs=epochs, batch_size=8, seed=3))
        assert numbers(plan_steps(windows, domain, steps=len(plan), batch_size=8, seed=3)) == plan
        assert numbers(plan_steps(windows, domain, steps=len(plan) + 1, batch_size=8, seed=3))[:-1] == plan


@pytest.mark.parametrize(("part", "parts", "expected"), [(0, 1, [5, 2, 9, 0, 7]), (0, 2, [5, 9, 7]), (1, 2, [2, 0])])
def test_what_is_known_of_a_window_comes_along(windows, part, parts, expected):
    weight = 10.0 * torch.arange(len(windows))
    batches = Batches(SequenceTensors(windows), [np.asarray([5, 2, 9, 0, 7])], of_windows={"weight": weight})
    batch = batches.at(0, part, parts)
    assert batch["window"].tolist() == expected
    assert batch["weight"].tolist() == [10.0 * window for window in expected]


@pytest.mark.parametrize(("part", "parts", "expected"), [(0, 1, [5, 2, 9, 0, 7]), (0, 2, [5, 9, 7]), (1, 2, [2, 0])])
def test_what_is_known_of_each_token_comes_along_padded_with_0(windows, part, parts, expected):
    # the value of a token is 1,000 times its window's number plus its position, from 1
    each = [1000 * w + torch.arange(1, length + 1) for w, length in enumerate(windows.lengths_W.tolist())]
    plan = [np.asarray([1]), np.asarray([5, 2, 9, 0, 7])]
    batches = Batches(SequenceTensors(windows), plan, of_tokens={"place": torch.cat(each)})
    batch = batches.at(1, part, parts)
    assert batch["place"].shape == batch["input_ids"].shape
    for row, window in zip(batch["place"].tolist(), expected, strict=True):
        length = int(windows.lengths_W[window])
        assert row[:length] == each[window].tolist() and not any(row[length:])
    assert (batch["place"] != 0).sum() == batch["attention_mask"].sum()


def test_values_of_tokens_keep_their_type(windows):
    flat = torch.ones(int(windows.lengths_W.sum()), dtype=torch.float16)
    batches = Batches(SequenceTensors(windows), [np.arange(9)], of_tokens={"teacher": flat})
    assert batches.at(0)["teacher"].dtype == torch.float16
