from itertools import islice

import numpy as np
import pytest

from helpers.batches import (
    Batches,
    bucketed,
    length_buckets,
    plan_steps,
    upsample,
    upsampled,
)
from helpers.data.mini import world
from helpers.mixtures import mix_by_size, mix_by_weight, per_domain
from helpers.models.encoders import load_tokenizer
from helpers.sequences import collate, make_windows


@pytest.fixture(scope="module")
def windows():
    examples = [e for name in ("news", "search") for e in world.load_domain(name, train_size=30).train[:30]]
    return make_windows(examples[:50], load_tokenizer("data/mini"), max_length=64, stride=24)


def test_upsample_repeats_to_the_largest_whole_copies_first():
    rows = upsample([7, 3], np.random.default_rng(0))
    assert rows[0].tolist() == list(range(7))
    assert rows[1][:6].tolist() == [0, 1, 2, 0, 1, 2] and len(rows[1]) == 7


def test_buckets_hold_every_window_once_and_waste_little():
    lengths = np.random.default_rng(1).integers(20, 400, 5001)
    batches = length_buckets(lengths, 16, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(5001))
    assert [len(b) for b in batches].count(16) == 312 and len(batches[-1]) == 9
    padded = sum(len(b) * lengths[b].max() for b in batches)
    assert padded < 1.05 * lengths.sum()
    firsts = [lengths[b].mean() for b in batches[:50]]
    assert firsts != sorted(firsts)  # batches come in no order of length


def epochs(windows, domain, number, *, seed=3):
    """The batches of whole epochs, and of each epoch."""
    each = list(islice(upsampled(windows, domain, batch_size=8, seed=seed), number))
    return [batch for epoch in each for batch in epoch], each


def numbers(plan):
    return [batch.tolist() for batch in plan]


def test_plan_mixes_domains_to_equal_numbers_of_questions(windows):
    plan, _ = epochs(windows, np.asarray([0] * 30 + [1] * 20), 2)
    per_question = np.bincount(windows.example_W)
    times = np.bincount(windows.example_W[np.concatenate(plan)], minlength=50) / per_question  # all its windows
    assert times[:30].tolist() == [2.0] * 30
    assert times[30:].sum() == 60 and set(times[30:]) <= {2.0, 3.0, 4.0}


def test_plan_follows_the_seed_changes_by_epoch_and_has_exactly_so_many_steps(windows):
    domain = np.asarray([0] * 30 + [1] * 20)
    plan, (first, second, _) = epochs(windows, domain, 3)
    assert numbers(plan) == numbers(epochs(windows, domain, 3)[0]) != numbers(epochs(windows, domain, 3, seed=4)[0])
    assert numbers(first) != numbers(second)
    for steps in (1, 2, 9, len(plan)):  # a shorter plan is the head of a longer one
        planned = plan_steps(upsampled(windows, domain, batch_size=8, seed=3), steps)
        assert numbers(planned) == numbers(plan[:steps])


def test_parts_of_a_batch_are_the_batch(windows):
    batches = Batches(windows, [np.arange(7)])
    shares, parts = zip(*batches.micro_batches(0, 3), strict=True)
    assert [part["window"].tolist() for part in parts] == [[0, 3, 6], [1, 4], [2, 5]]
    assert shares == (3 / 7, 2 / 7, 2 / 7) and len([*batches.micro_batches(0, 9)]) == 7


def test_buckets_take_every_sequence_once_an_epoch_in_an_order_of_the_epochs_own():
    lengths = np.random.default_rng(1).integers(20, 400, 50)
    first, second = islice(bucketed(lengths, batch_size=8, seed=3), 2)
    assert all(sorted(np.concatenate(epoch).tolist()) == list(range(50)) for epoch in (first, second))
    assert numbers(first) == numbers(length_buckets(lengths, 8, np.random.default_rng([3, 0])))
    assert numbers(first) != numbers(second)


DOMAINS = {"fiction": np.arange(10), "slate": np.arange(10, 14), "travel": np.arange(14, 39)}


def test_every_step_has_rows_of_every_domain():
    epochs = list(islice(per_domain(DOMAINS, batch_size=4, seed=0), 2))
    assert [len(epoch) for epoch in epochs] == [7, 7]  # 25 of travel, four at a time
    plan = [batch for epoch in epochs for batch in epoch]
    for batch in plan:
        assert batch.shape == (4, 3)
        assert all(np.isin(column, rows).all() for column, rows in zip(batch.T, DOMAINS.values(), strict=True))
    for d, rows in enumerate(DOMAINS.values()):  # each goes through all its sequences before any comes again
        order = np.concatenate([batch[:, d] for batch in plan])
        passes = [order[i : i + len(rows)].tolist() for i in range(0, len(order) - len(rows) + 1, len(rows))]
        assert all(sorted(once) == rows.tolist() for once in passes)
        assert len({tuple(once) for once in passes}) > max(1, len(passes) // 2)  # shuffled anew


def epochs_of_tasks(seed=1):
    return {
        name: bucketed(np.full(size, 9), batch_size=4, seed=seed)
        for name, size in {"cola": 6, "mnli": 41, "squad": 20}.items()
    }


def turns(plan):
    return [(task, batch.tolist()) for task, batch in plan]


def test_pooled_tasks_have_all_their_batches_in_one_order():
    first, second = islice(mix_by_size(epochs_of_tasks(), seed=1), 2)
    order = [task for task, _ in first]
    assert {task: order.count(task) for task in order} == {"cola": 2, "mnli": 11, "squad": 5}
    assert order != sorted(order) and order != [task for task, _ in second]
    for name, expected in epochs_of_tasks().items():
        for pool in (first, second):
            assert sorted(batch for task, batch in turns(pool) if task == name) == sorted(numbers(next(expected)))


def test_a_task_has_turns_by_its_weight():
    weights = {"cola": 1.0, "mnli": 1.0, "squad": 2.0}
    plan = plan_steps(mix_by_weight(epochs_of_tasks(), weights, epoch_of="squad", seed=1), 4000)
    order = [task for task, _ in plan]
    # 0.25 and 0.5 of 4,000 draws, whose standard deviations are 27 and 32
    assert abs(order.count("cola") - 1000) < 110 and abs(order.count("squad") - 2000) < 130
    for name, expected in epochs_of_tasks().items():  # each goes through its own epochs
        batches = [batch.tolist() for task, batch in plan if task == name]
        assert batches == numbers(plan_steps(expected, len(batches)))


def test_an_epoch_of_weighted_tasks_ends_with_one_tasks():
    weights = {"cola": 0.0, "mnli": 3.0, "squad": 2.0}
    for epoch in islice(mix_by_weight(epochs_of_tasks(), weights, epoch_of="squad", seed=1), 3):
        order = [task for task, _ in epoch]
        assert order.count("squad") == 5 and order[-1] == "squad" and "cola" not in order


@pytest.mark.parametrize(
    "mixture",
    [
        lambda seed: mix_by_size(epochs_of_tasks(seed), seed=seed),
        lambda seed: mix_by_weight(
            epochs_of_tasks(seed), dict.fromkeys(epochs_of_tasks(), 1), epoch_of="cola", seed=seed
        ),
        lambda seed: ([("all", batch) for batch in epoch] for epoch in per_domain(DOMAINS, batch_size=4, seed=seed)),
    ],
)
def test_a_mixture_follows_its_seed_and_a_shorter_plan_is_the_head_of_a_longer(mixture):
    longest = turns(plan_steps(mixture(5), 60))
    for steps in (1, 17, 59):
        assert turns(plan_steps(mixture(5), steps)) == longest[:steps]
    assert turns(plan_steps(mixture(6), 60)) != longest


def test_the_batch_is_that_of_the_task_whose_turn_it_is(windows):
    sequences = {"first": windows, "second": windows.select(np.arange(20, 30))}
    batches = Batches(sequences, [("second", np.arange(4)), ("first", np.arange(5))])
    assert len(batches) == 2
    assert [batches.at(step)["task"] for step in range(2)] == ["second", "first"]
    for step, (name, index) in enumerate(batches.schedule):
        for part, (_, batch) in enumerate(batches.micro_batches(step, 2)):
            expected = collate(sequences[name], index[part::2])
            assert batch["window"].tolist() == index[part::2].tolist()
            assert all((batch[field] == values).all() for field, values in expected.items())


def test_every_share_holds_its_part_of_every_domain(windows):
    members = {"a": np.arange(30), "b": np.arange(30, 50), "c": np.arange(50, 60)}
    batches = Batches(windows, plan_steps(per_domain(members, batch_size=5, seed=0), 3))
    assert batches.at(0)["window"].tolist() == batches.schedule[0].T.ravel().tolist()  # one domain after another
    shares = [batch["window"].numpy() for _, batch in batches.micro_batches(0, 2)]
    assert sorted(np.concatenate(shares)) == sorted(batches.schedule[0].ravel())
    for share, rows in zip(shares, (3, 2), strict=True):
        assert [int(np.isin(share, numbers).sum()) for numbers in members.values()] == [rows] * 3
