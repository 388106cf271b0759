"""IMM: the wiring of Algorithm 1 without training, its loss by hand, and tables."""

import math
from types import SimpleNamespace

import pytest
import torch
from conftest import waves_of

from helpers.engine import run
from helpers.extractive_qa import Questions, answer_questions, count_steps, likelihood
from helpers.papers import shared
from helpers.papers.imm import algorithm, displays, tables
from helpers.papers.imm.algorithm import algorithm1, tfidf_weights, train_baselines
from helpers.papers.imm.losses import taught_loss
from helpers.presets.load import load_preset
from helpers.training import Outputs, Training, trainings_of

NAMES = ("encyclopedia", "news", "search")


@pytest.fixture
def preset(results, monkeypatch):
    """One seed, whose readers need no training: they are better in every round."""
    monkeypatch.setattr(Training, "best", property(lambda self: float(self.label.partition("round ")[2][:1] or 0)))
    return load_preset("smoke", "imm", seeds=1)


def rounds_of(preset, rounds=1, seed=0, **settings):
    return waves_of(algorithm1(preset, seed, preset.imm.model_copy(update=settings), rounds))[1]


def rows_of(preset):
    return waves_of(train_baselines(preset, 0))[1]


def by_name(monkeypatch, scores, other):
    """Let readers score by a part of their name."""
    best = property(lambda self: float(next((scores[name] for name in scores if name in self.label), other)))
    monkeypatch.setattr(Training, "best", best)


def teachers_of(reader):
    """The readers that teach another, by domain."""
    logits = reader.teacher.logits if reader.teacher else {}
    return {domain: next(iter(outputs.models.values()))[0] for domain, outputs in logits.items()}


def steps_of(reader):
    return reader.data.steps(reader.preset, reader.optim)


def keys_of(readers):
    return {i: reader.key for i, reader in readers.items()}


def test_a_round_of_algorithm_1(preset):
    waves, history = waves_of(algorithm1(preset, 0, preset.imm, 2))
    assert len(waves) == 4 and len(history.theta) == 3 and history.new == history.theta[1:]
    for old, new in zip(history.theta, history.new, strict=False):
        for i, theta in new.items():
            phi, others = theta.start, tuple(j for j in NAMES if j != i)
            assert phi.data.names == others and phi.start is None and phi.data.selected_by == ()
            assert keys_of(teachers_of(phi)) == {j: old[j].key for j in others}
            weights = phi.data.weights
            assert set(weights) == set(others) and math.isclose(sum(weights.values()), 1, abs_tol=1e-5)
            assert theta.data.names == theta.data.selected_by == (i,) and theta.data.weights == {}
            assert keys_of(teachers_of(theta)) == {i: old[i].key}
            assert [outputs.sets for outputs in phi.teacher.logits.values()] == [[f"train/{j}"] for j in others]
    for i, single in history.theta[0].items():
        assert single.data == Questions((i,), (i,)) and single.teacher is single.start is None
        assert single.loss is likelihood


def test_the_better_reader_stays_and_it_stops_when_none_improves(monkeypatch, preset):
    scores = {"Single": 50, "theta, news, round 1": 60, "theta, search, round 1": 40, "theta, news, round 2": 60}
    by_name(monkeypatch, scores, 10)
    history = rounds_of(preset, 5)
    labels = [{i: reader.label for i, reader in theta.items()} for theta in history.theta]
    assert labels[1]["news"] == "IMM theta, news, round 1, seed 0"
    assert labels[1]["search"] == labels[0]["search"] and "Single" in labels[0]["search"]  # the new one was worse
    assert labels[2]["news"] == "IMM theta, news, round 2, seed 0"  # as good as the old one: the paper takes the new
    assert len(labels) == 3  # the second round improved none
    assert history.new[0]["search"].label == "IMM theta, search, round 1, seed 0"


def test_what_the_settings_change(preset):
    def first(**settings):
        theta = rounds_of(preset, **settings).new[0]["encyclopedia"]
        return theta.start, theta

    phi, _ = first()
    assert first(similarity="uniform")[0].data.weights == {"news": 1.0, "search": 1.0}
    assert first(similarity="equal")[0].data.weights == {"news": 0.5, "search": 0.5}
    untaught, _ = first(teach_multi_domain=False)
    assert untaught.teacher is None and untaught.data.weights == phi.data.weights
    assert phi.loss.keywords == {"divergence": "gold", "annealing": "linear"}
    same, untaught = first(teach_target=False)
    assert untaught.teacher is None and same.key == phi.key == untaught.start.key
    assert first(divergence="logits")[0].loss.keywords["divergence"] == "logits"
    assert first(annealing="constant")[1].loss.keywords["annealing"] == "constant"
    assert first(multi_domain_start="theta")[0].start.key == algorithm.single_readers(preset, 0)["encyclopedia"].key
    near, _ = first(num_source_domains=1)
    weights = tfidf_weights(preset.data)["encyclopedia"]
    assert near.data.names == (max(weights, key=weights.get),) == tuple(teachers_of(near))
    assert near.data.weights[near.data.names[0]] == pytest.approx(1.0, abs=1e-5)


def test_one_domain_cannot_learn_from_others(results):
    preset = load_preset("smoke", "imm", **{"data.domains": {"news": "news"}, "data.adversarial": None})
    with pytest.raises(ValueError, match="at least 2 domains, found news"):
        next(algorithm1(preset, 0, preset.imm, 1))


def test_the_rows_of_table_1(preset):
    methods = rows_of(preset)
    assert tuple(methods) == algorithm.TABLE1_ROWS[:-1]
    row, near = {name: readers["news"] for name, readers in methods.items()}, tfidf_weights(preset.data)["news"]
    nearest = max(near, key=near.get)
    names = {name: reader.data.names for name, reader in row.items()}
    assert names["Mix"] == NAMES == row["Mix"].data.selected_by and row["Mix"].start is None
    assert row["FT"].start.key == row["MFT"].start.key and row["FT"].start.data.names == ("encyclopedia", "search")
    assert names["FT"] == ("news",) and names["MFT"] == NAMES
    assert set(names["MS-MFT"]) == {"news", nearest} and row["MS-FT"].start.data.names == (nearest,)
    unified = row["BAM"].start
    assert unified.data.names == NAMES == tuple(teachers_of(unified))
    assert unified.data.weights == {} and row["BAM"].teacher is None
    assert all(reader.data.selected_by in (("news",), NAMES) for reader in row.values())


def test_steps_by_epochs_or_the_same_for_all(preset):
    history, optim = rounds_of(preset), preset.training
    theta = history.new[0]["news"]
    assert steps_of(history.theta[0]["news"]) == steps_of(theta) == count_steps(preset, ["news"], optim)
    assert steps_of(theta.start) == count_steps(preset, ["encyclopedia", "search"], optim)
    equal = algorithm.with_equal_steps(preset)
    for reader in [*(readers["news"] for readers in rows_of(equal).values()), rounds_of(equal).new[0]["news"]]:
        steps, stage = 0, reader
        while stage:
            steps, stage = steps + steps_of(stage), stage.start
        assert abs(steps - count_steps(equal, NAMES, optim)) <= 1
    with pytest.raises(ValueError, match="make 1 step for 2 stages"):
        steps_of(rounds_of(equal.changed("training", epochs=0.01)).new[0]["news"])


def test_the_same_training_has_one_key_under_any_name(preset):
    once, longer = rounds_of(preset), rounds_of(preset, 3)
    assert keys_of(once.theta[0]) == keys_of(rows_of(preset)["Single"])
    assert keys_of(longer.theta[1]) == keys_of(once.theta[1]) != keys_of(longer.theta[2])
    assert rounds_of(preset, seed=1).theta[1]["news"].key != once.theta[1]["news"].key
    orders = rounds_of(preset, 2, new_order=False)
    assert {reader.data.order for theta in orders.theta for reader in theta.values()} == {0}
    assert [longer.new[k]["news"].data.order for k in range(3)] == [0, 1, 2]


def test_only_what_a_training_reads_is_in_its_key(results):
    def key(**overrides):
        return algorithm.single_readers(load_preset("smoke", "imm", **overrides), 0)["news"].key

    same = key()
    assert {key(**{"engine.threads": 2}), key(**{"imm.max_rounds": 2}), key(**{"data.test_size": 20})} == {same}
    assert key(**{"training.checkpoint_minutes": 1.0}) == key(**{"imm.divergence": "logits"}) == same
    changes = ({"training.epochs": 2.0}, {"windows.stride": 16}, {"data.train_size": 20}, {"data.valid_size": 20})
    assert len({same, key(random_layers=2), *(key(**change) for change in changes)}) == 6
    small, large = (load_preset("smoke", "imm", **{"data.test_size": size}) for size in (12, 20))
    single = algorithm.single_readers(small, 0)["news"]
    asked = {"label": "", "models": {"test/news": (single,)}, "compute": answer_questions}
    assert Outputs(preset=small, **asked).key != Outputs(preset=large, **asked).key


def loss_of(divergence, progress, weight=None, annealing="linear"):
    """Two positions, all probabilities chosen: student 0.5 and 0.5, teacher 0.8 and 0.2 at the gold first position."""
    student = SimpleNamespace(start_logits=torch.zeros(1, 2), end_logits=torch.zeros(1, 2))
    teacher = torch.tensor([[0.8, 0.2]]).log()
    zero = torch.zeros(1, dtype=torch.long)
    batch = {"start": zero, "end": zero, "attention_mask": torch.ones(1, 2), "teacher_start": teacher}
    batch |= {"teacher_end": teacher} | ({} if weight is None else {"weight": torch.tensor([weight])})
    terms = taught_loss(student, batch, progress, divergence=divergence, annealing=annealing)
    return {name: round(float(term), 4) for name, term in terms.items()}


def test_the_loss_by_hand():
    likelihood = round(2 * math.log(2), 4)
    assert loss_of("gold", 0.0) == {"likelihood": 0.0, "divergence": 0.18}  # 2 x 0.3 squared
    assert loss_of("gold", 1.0) == {"likelihood": likelihood, "divergence": 0.0}
    assert loss_of("gold", 0.25) == {"likelihood": round(0.5 * math.log(2), 4), "divergence": 0.135}
    assert loss_of("gold", 0.9, annealing="constant") == {"likelihood": round(math.log(2), 4), "divergence": 0.09}
    half = {"likelihood": round(1.5 * math.log(2), 4), "divergence": 0.045}  # lambda is 3/4
    assert loss_of("gold", 0.5, annealing="half") == half
    assert loss_of("probabilities", 0.0)["divergence"] == 0.36  # both positions count
    logits = (math.log(0.8) ** 2 + math.log(0.2) ** 2) / 2
    assert loss_of("logits", 0.0)["divergence"] == round(2 * logits, 4)
    weighted = loss_of("gold", 0.25, weight=0.5)
    assert weighted == {"likelihood": round(0.25 * math.log(2), 4), "divergence": 0.0675}  # Eq. 7


def test_controls_have_rows_and_seeds_of_their_own(preset):
    plain, controlled = (preset.model_copy(update={"seeds": n, "control_seeds": n - 1}) for n in (1, 3))
    controls = algorithm.OTHER_DISTANCES | algorithm.CONTROLS

    def runs_of(preset):
        plan = algorithm.train_ablations(preset)
        return {*plan.send(dict.fromkeys(next(plan), preset))}  # after what each seed starts from

    for each, rows in ((plain, algorithm.VARIANTS), (controlled, algorithm.VARIANTS | controls)):
        runs = {(row, n) for row in rows for n in range(each.seeds) if row not in controls or n < each.control_seeds}
        assert runs == {run for run in runs_of(each) if isinstance(run, tuple)}
    assert not {(row, 0) for row in controls} & runs_of(plain)
    assert runs_of(plain.changed("imm", ablations=["-KD2"])) >= {("IMM", 0), ("-KD2", 0)}
    assert ("-KD1", 0) not in runs_of(plain.changed("imm", ablations=["-KD2"]))
    assert algorithm.with_equal_steps(controlled).seeds == 2
    assert run(tables.table1_equal(plain), preset.engine) == {}


def test_a_control_has_general_readers_of_fewer_questions(preset):
    sizes = {"warmup_data": "general", "warmup_size": 2000, "warmup_control_size": 50}
    controlled = preset.model_copy(update={**sizes, "seeds": 3, "control_seeds": 2})
    starts = next(tables.table1_general(controlled))
    readers = [reader for start in starts.values() for reader in next(start)]
    assert [reader.preset.data.train_size for reader in readers] == [50, 50]
    assert run(tables.table1_general(controlled.model_copy(update={"control_seeds": 0})), preset.engine) == {}
    assert run(tables.table1_general(controlled.model_copy(update={"warmup_control_size": 0})), preset.engine) == {}


def test_accepted_readers_are_counted(monkeypatch, preset):
    by_name(monkeypatch, {"theta, news, round 1": 60, "theta, search, round 1": 40}, 50)
    history = rounds_of(preset)
    parts = tables.count_accepted({("IMM", 0): history})
    (score,) = parts["scores"]
    assert (parts["unit"], parts["notes"], score.column, score.value) == ("domains of 3", [], "round 1", 2)
    assert parts["settings"] == {"imm": preset.imm}
    longer = algorithm.Rounds([*history.theta, history.theta[-1]], history.new)
    (note,) = tables.count_accepted({("IMM", 0): history, ("IMM", 1): longer, ("IMM", 2): history})["notes"]
    assert note.endswith("is not in later means; ended before round 2: 2 of 3")


def test_claims_name_the_paper_s_rows_alone(monkeypatch, preset):
    def no_answers(models):
        yield []
        return {}

    monkeypatch.setattr(shared, "answer_table", no_answers)
    monkeypatch.setattr(tables, "make_notes", lambda models, rounds: [])
    models = shared.Models(preset)
    for row, key in {"Single": "a", "BAM": "b", "IMM": "c", "raw logits": "d"}.items():
        models.add(row, 0, {"news": SimpleNamespace(key=key)})
    claims = run(tables.f1_table(models), preset.engine)["claims"]
    texts = ["IMM beats Single, which reads one domain", "IMM beats BAM"]
    assert [(claim.text, claim.primary) for claim in claims] == list(zip(texts, (False, True), strict=True))
    models.add("BAM", 0, {"news": SimpleNamespace(key="c")})  # as with two domains, where a row may be IMM itself
    assert [claim.below for claim in run(tables.f1_table(models), preset.engine)["claims"]] == ["Single"]


@pytest.mark.slow
def test_trained_readers_learn_from_stored_logits(results):
    preset = load_preset("smoke", "imm", seeds=1)
    models, histories = run(algorithm.train_methods(preset, 1), preset.engine)
    theta = histories["IMM", 0].new[0]["news"]
    batch = theta.batches().at(0)
    assert batch["teacher_start"].shape == batch["input_ids"].shape and "weight" not in batch
    batch = theta.start.batches().at(0)
    weights = list(theta.start.data.weights.values())
    assert all(min(abs(weight - value) for value in weights) < 1e-6 for weight in batch["weight"].tolist())
    costs = shared.tabulate_costs(models)
    assert costs.loc["Single", "trainings"] == 3 and costs.loc["IMM", "trainings"] == 9
    untaught = {algorithm.UNTAUGHT: preset.imm.model_copy(update=algorithm.VARIANTS[algorithm.UNTAUGHT])}
    alone, _ = run(algorithm.train_methods(preset, 1, (), untaught), preset.engine)
    needed = alone.trainings(algorithm.UNTAUGHT, 0)  # the readers that new ones have to beat are needed, too
    assert {reader.label.split(",")[0] for reader in needed} >= {"Single"} and len(needed) == 9
    needed = trainings_of(theta)
    assert {reader.label.split(",")[0] for reader in needed} == {"Single", "IMM phi", "IMM theta"}
    table = run(shared.tabulate_gold_probabilities(models, "Single"), preset.engine)
    assert list(table.index) == list(NAMES) and table.iloc[:, :2].min().min() >= 0
    assert len(run(displays.sample_answers(models), preset.engine)) == 9


@pytest.mark.slow
def test_files_that_only_later_trainings_need_are_deleted_and_made_again(results):
    preset = load_preset("smoke", "imm", seeds=1, **{"engine.keep": "results"})

    def finish(**settings):
        history = run(algorithm1(preset, 0, preset.imm.model_copy(update=settings), 1), preset.engine)
        assert not any(reader.is_freed() for readers in history.theta for reader in readers.values())
        assert all(new.is_freed() == (new is not history.theta[-1][i]) for i, new in history.new[0].items())
        phi = [new.start for new in history.new[0].values()]
        logits = [need for one in phi for need in one.needs if isinstance(need, Outputs)]
        assert logits and all(one.is_freed() and not [*one.folder.rglob("*.safetensors")] for one in (*phi, *logits))
        assert phi[0].batches().at(0)["teacher_start"].abs().sum() > 0  # as notebook 02 shows it
        return [one.result()["losses"] for one in phi]

    assert finish() == finish(teach_target=False)  # a variant whose readers start from the same phi


def test_readers_that_start_from_a_general_one_say_what_it_learned(results):
    preset = load_preset("smoke", "imm", warmup_data="general", warmup_size=16)
    parts = run(tables.table1(preset), preset.engine)
    assert parts["notes"][0].startswith("every encoder first learned 16 questions of general: ")


def test_each_seed_may_start_from_its_own_general_reader(results):
    preset = load_preset("smoke", "imm", seeds=2, warmup_data="general", warmup_size=16, warmup_per_seed=True)
    first, second = (shared.general_reader(preset, seed) for seed in range(2))
    assert [reader.preset.data.draw for reader in (first, second)] == [0, 1] and second.seed == 1
    (alone,) = {shared.general_reader(preset.model_copy(update={"warmup_per_seed": False}), n).key for n in range(2)}
    assert alone == first.key != second.key  # the first seed is that of one reader for all
    models, _ = run(algorithm.train_methods(preset, 0, ("Single",)), preset.engine)
    encoders = [{model.preset.encoder for (model,) in models.by_row["Single"][seed].values()} for seed in range(2)]
    assert encoders == [{str(first.saved())}, {str(second.saved())}]
    assert models.notes[0].startswith("every encoder first learned 16 questions of general, per seed others: ")
