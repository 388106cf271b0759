"""IMM: Algorithm 1's wiring without training, its losses by hand, and what is shared."""

import math
from types import SimpleNamespace

import pytest
import torch
from conftest import flip, waves_of

from helpers.data.sets import question_set
from helpers.papers import rows
from helpers.papers.imm import ablations, algorithm, own, tables, trainings
from helpers.presets.load import load
from helpers.tasks.answering import Answering, answering
from helpers.tasks.spans import budget, fold_of, windows_of
from helpers.training import cached, checkpoints, engine, once

NAMES = ["encyclopedia", "news", "search"]


@pytest.fixture
def preset(results):
    return load("smoke", "imm", seeds=1)


def drive(monkeypatch, plan, valid):
    """All waves of a plan, with F1 on validation as ``valid`` says instead of trained; and what the plan returns."""
    monkeypatch.setattr(algorithm, "valid", valid)
    return waves_of(plan)


def better_every_round(reader):
    return float(reader.label.split("round ")[1][0]) if "round" in reader.label else 0.0


def key(reader):
    return reader.key


def test_a_round_of_algorithm_1(monkeypatch, preset):
    waves, rounds = drive(monkeypatch, algorithm.algorithm1(preset, 0, preset.imm, 2), better_every_round)
    of_rounds = [wave[place : place + 3] for wave in waves for place in range(0, len(wave), 3)]
    singles, outputs, phi, theta, outputs2, phi2, theta2 = of_rounds
    assert len(waves) == 2  # whether a reader is kept has to be known before the next round, and nothing else has
    assert [one.domains for one in singles] == [[name] for name in NAMES] == [one.target for one in singles]
    assert [(one.reader, one.domain) for one in outputs] == [(key(s), s.domains[0]) for s in singles]
    old = dict(zip(NAMES, map(key, singles), strict=True))
    for i, one in zip(NAMES, phi, strict=True):
        others = [j for j in NAMES if j != i]
        assert one.domains == others and one.start == "" and one.target == []
        assert one.teachers == {j: old[j] for j in others}  # all targets of a round learn from the same theta^(k)
        assert one.weights.keys() == set(others) and math.isclose(sum(one.weights.values()), 1)
    for i, one, first in zip(NAMES, theta, phi, strict=True):
        assert one.domains == one.target == [i] and one.start == key(first) and one.teachers == {i: old[i]}
        assert one.weights == {}
    new = dict(zip(NAMES, map(key, theta), strict=True))
    assert [one.reader for one in outputs2] == list(new.values())
    assert phi2[0].teachers == {"news": new["news"], "search": new["search"]}
    assert theta2[1].teachers == {"news": new["news"]}
    assert [{i: key(one) for i, one in theta.items()} for theta in rounds.theta[:2]] == [old, new]
    assert len(rounds.theta) == 3 and rounds.new == rounds.theta[1:]  # all new ones were better


def test_the_better_of_new_and_old_is_kept_and_it_stops_when_none_improves(monkeypatch, preset):
    scores = {
        "Single": 50.0,
        "theta, news, round 1": 60.0,
        "theta, search, round 1": 40.0,
        "theta, news, round 2": 60.0,
    }

    def valid(reader):
        return next((score for name, score in scores.items() if name in reader.label), 10.0)

    _, rounds = drive(monkeypatch, algorithm.algorithm1(preset, 0, preset.imm, 5), valid)
    kept = [{i: reader.label for i, reader in theta.items()} for theta in rounds.theta]
    assert kept[1]["news"] == "IMM theta, news, round 1, seed 0"
    assert kept[1]["search"] == kept[0]["search"] and "Single" in kept[0]["search"]  # the new one was worse
    assert kept[2]["news"] == "IMM theta, news, round 2, seed 0"  # as good as the old one: the paper takes the new
    assert len(kept) == 3  # the second round improved none
    assert rounds.new[0]["search"].label == "IMM theta, search, round 1, seed 0"  # not kept, and known all the same


def test_what_the_switches_change(monkeypatch, preset):
    def first(**changes):
        switches = preset.imm.model_copy(update=changes)
        waves, _ = drive(monkeypatch, algorithm.algorithm1(preset, 0, switches, 1), better_every_round)
        readers = [one for wave in waves for one in wave if isinstance(one, trainings.ImmTraining)]
        return readers[3], readers[6], waves

    phi, theta, _ = first()
    assert first(similarity="uniform")[0].weights == {"news": 1.0, "search": 1.0}
    without, _, _ = first(teach_multi_domain=False)
    assert without.teachers == {} and without.weights == phi.weights
    unchanged, without, _ = first(teach_target=False)
    assert without.teachers == {} and key(unchanged) == key(phi) and without.start == theta.start
    _, _, waves = first(teach_multi_domain=False, teach_target=False)
    assert len(waves[0]) == 3 * 3  # nobody has to be asked
    assert first(kd_space="logits")[0].kd_space == "logits" and first(annealing="constant")[1].annealing == "constant"
    single = algorithm.singles(preset, 0)["encyclopedia"]
    assert first(multi_domain_start="theta")[0].start == key(single)
    plan = algorithm.algorithm1(preset, 0, preset.imm.model_copy(update={"similarity": "released"}), 1)
    with pytest.raises(algorithm.SwitchError, match=r"'released' is for the domains SQuAD, .* not \['encyclopedia'"):
        next(plan)  # before anything is trained
    data = preset.data.model_copy(update={"domains": {"news": "news"}})
    with pytest.raises(algorithm.SwitchError, match="learn from those of other domains, and there is only news"):
        next(algorithm.similarities(preset.model_copy(update={"data": data}), 0, "equal"))


def test_measured_similarities_follow_how_readers_do_elsewhere(monkeypatch, preset):
    right = {("news", "valid/encyclopedia"): 3, ("search", "valid/encyclopedia"): 1}  # of 8 questions

    def answering(preset, readers, sets):
        (reader,), (name,) = readers, sets
        examples = question_set(preset.data, name)
        number = right.get((reader.domains[0], name), 0)
        texts = [e.answers[0] if place < number else "" for place, e in enumerate(examples)]
        return SimpleNamespace(result=lambda: {name: texts})

    monkeypatch.setattr(algorithm, "answering", answering)

    waves, s = drive(monkeypatch, algorithm.similarities(preset, 0, "measured"), better_every_round)
    assert len(waves[0]) == 3 + 6
    assert s["encyclopedia"] == {"news": 0.75, "search": 0.25}
    assert s["news"] == {"encyclopedia": 0.5, "search": 0.5}  # where nobody scores, all are alike


def test_measured_similarities_from_trained_readers(preset):
    switches = preset.imm.model_copy(update={"similarity": "measured"})
    done = engine.run_plans({0: algorithm.algorithm1(preset, 0, switches, 1)}, preset.engine)[0]
    asked = [task for task in done.tasks if isinstance(task, Answering)]
    assert len(asked) == 6 and all(len(texts) == 8 for task in asked for texts in task.result().values())
    phi = next(task for task in done.tasks if "phi" in task.label)
    assert math.isclose(sum(phi.weights.values()), 1, abs_tol=1e-5)


def test_released_similarities_are_rows_that_sum_to_one(results):
    preset = load("paper")
    assert set(preset.data.domains) == set(algorithm.RELEASED)
    for target, row in algorithm.RELEASED.items():
        assert set(row) == set(algorithm.RELEASED) - {target} and abs(sum(row.values()) - 1) < 0.011


def test_table_1_can_give_every_reader_the_same_number_of_steps(monkeypatch, preset):
    preset = trainings.equal_steps(preset)
    waves, methods = drive(monkeypatch, algorithm.baselines(preset, 0), better_every_round)
    assert tuple(methods) == algorithm.METHODS[:-1]
    more, rounds = drive(monkeypatch, algorithm.algorithm1(preset, 0, preset.imm, 1), better_every_round)
    methods["IMM"] = rounds.theta[-1]
    known = rows.trainings_of(one for wave in [*waves, *more] for one in wave)
    for readers in methods.values():
        for i, reader in readers.items():
            stages = list(rows.stages(reader, known))
            assert abs(sum(one.steps for one in stages) - budget(preset)) <= 1
            assert i in reader.target and reader.settings["training"] == methods["Mix"][i].settings["training"]
    assert methods["FT"]["news"].start == methods["MFT"]["news"].start
    assert methods["FT"]["news"].domains == ["news"] and methods["MFT"]["news"].domains == NAMES
    nearest = max((row := algorithm.tfidf(preset)["news"]), key=row.get)
    assert set(methods["MS-MFT"]["news"].domains) == {"news", nearest}
    assert known[methods["MS-FT"]["news"].start].domains == [nearest]
    unified = known[methods["BAM"]["news"].start]
    assert unified.domains == NAMES and list(unified.teachers) == NAMES and unified.weights == {}
    assert methods["BAM"]["news"].teachers == {}


def test_the_same_training_is_one_under_any_name(monkeypatch, preset):
    _, imm = drive(monkeypatch, algorithm.algorithm1(preset, 0, preset.imm, 1), better_every_round)
    _, methods = drive(monkeypatch, algorithm.baselines(preset, 0), better_every_round)
    assert key(imm.theta[0]["news"]) == key(methods["Single"]["news"])
    _, longer = drive(monkeypatch, algorithm.algorithm1(preset, 0, preset.imm, 3), better_every_round)
    assert key(longer.theta[1]["news"]) == key(imm.theta[1]["news"]) != key(longer.theta[2]["news"])
    _, other = drive(monkeypatch, algorithm.algorithm1(preset, 1, preset.imm, 1), better_every_round)
    assert key(other.theta[1]["news"]) != key(imm.theta[1]["news"])


def test_each_round_has_an_order_of_its_own_or_all_the_same(monkeypatch, preset):
    def orders(new):
        switches = preset.imm.model_copy(update={"new_order": new})
        waves, _ = drive(monkeypatch, algorithm.algorithm1(preset, 0, switches, 2), better_every_round)
        return [one for wave in waves for one in wave if one.label.startswith("IMM") and ", encyclopedia," in one.label]

    assert [reader.order for reader in orders(True)] == [0, 0, 1, 1] and not any(one.order for one in orders(False))
    *_, first, second, _ = orders(True)
    plans = [reader.model_copy(update={"teachers": {}}).batches("cpu").plan for reader in (first, second)]
    assert any(a.tolist() != b.tolist() for a, b in zip(*plans, strict=True))


def test_the_best_of_several_runs_as_many_as_imm_has(monkeypatch, preset):
    assert [name for name, _ in algorithm.plans(preset, 2)] == ["baselines", "IMM"]
    assert [name for name, _ in algorithm.plans(preset, 2, repeated=True)] == ["baselines", "IMM", "repeated"]
    _, methods = drive(monkeypatch, algorithm.baselines(preset, 0), better_every_round)
    waves, runs = drive(monkeypatch, algorithm.several_runs(preset, 0, 3), better_every_round)
    assert len(runs) == 3 and all(tuple(rows) == algorithm.REPEATED for rows in runs)
    for row in algorithm.REPEATED:
        assert key(runs[0][row]["news"]) == key(methods[row]["news"])  # as in Table 1
        assert len({key(rows[row]["news"]) for rows in runs}) == 3
    known = rows.trainings_of(one for wave in waves for one in wave)
    teachers = [known[rows["BAM"]["news"].start].teachers for rows in runs]
    assert teachers[0] == teachers[1] == teachers[2]
    assert all("MFT" not in reader.label and "source" not in reader.label for reader in known.values())


def test_rows_that_no_claim_compares_may_have_fewer_seeds(preset):
    fewer = preset.model_copy(update={"seeds": 3}).changed("imm", controls=True, other_seeds=2)
    assert [seed for row, seed in algorithm.plans(fewer, 1, repeated=True) if row == "repeated"] == [0, 1]
    assert [seed for row, seed in algorithm.plans(fewer, 1) if row == "IMM"] == [0, 1, 2]
    assert trainings.equal_steps(fewer).seeds == 2 and trainings.equal_steps(preset).seeds == preset.seeds


def test_controls_of_the_similarities_and_of_lambda(monkeypatch, preset):
    controlled = preset.model_copy(update={"imm": preset.imm.model_copy(update={"controls": True})})
    assert [name for name, _ in ablations.plans(preset)] == list(algorithm.VARIANTS)
    every = [*algorithm.VARIANTS, *algorithm.CONTROLS]
    once = [row for row in every if row != "teachers of round 0"]  # who are IMM's teachers where there is one round
    assert [name for name, _ in ablations.plans(controlled)] == once
    several = controlled.model_copy(update={"imm": controlled.imm.model_copy(update={"ablation_rounds": 2})})
    assert [name for name, _ in ablations.plans(several)] == every
    _, s = drive(monkeypatch, algorithm.similarities(preset, 0, "equal"), better_every_round)
    assert s["news"] == {"encyclopedia": 0.5, "search": 0.5}
    assert loss_of("gold", 0.5, annealing="half") == {
        "likelihood": round(1.5 * math.log(2), 4),  # lambda is 3/4, and the likelihood 2 ln 2
        "divergence": 0.045,
    }


def test_phi_learns_from_the_most_similar_sources_alone(monkeypatch, preset):
    switches = preset.imm.model_copy(update={"sources": 1})
    waves, _ = drive(monkeypatch, algorithm.algorithm1(preset, 0, switches, 1), better_every_round)
    weights = algorithm.tfidf(preset)
    phi = [one for wave in waves for one in wave if "IMM phi" in one.label]
    assert len(phi) == 3
    for reader in phi:
        (near,) = reader.domains
        own = weights[reader.label.split(", ")[1]]
        assert own[near] == max(own.values()) and reader.weights[near] == pytest.approx(1.0, abs=1e-5)
        assert list(reader.teachers) == [near]


def test_teachers_of_round_0_teach_in_every_round(monkeypatch, preset):
    switches = preset.imm.model_copy(update={"taught_by": "first"})
    waves, rounds = drive(monkeypatch, algorithm.algorithm1(preset, 0, switches, 2), better_every_round)
    singles = {i: key(reader) for i, reader in rounds.theta[0].items()}
    taught = [one for wave in waves for one in wave if isinstance(one, trainings.ImmTraining) and one.teachers]
    assert len(taught) == 12 and all(singles[j] == own for one in taught for j, own in one.teachers.items())


def test_cross_fitted_teachers_say_nothing_of_what_they_saw(preset):
    switches = preset.imm.model_copy(update={"taught_by": "cross-fitted"})
    done = engine.run_plans({0: algorithm.algorithm1(preset, 0, switches, 1)}, preset.engine)[0]
    folds = {task.held_out: task for task in done.tasks if task.label.startswith("Single, news, without fold")}
    assert sorted(folds) == [0, 1]
    windows = windows_of(preset, ["news"], "train")
    own = fold_of(windows)[windows.example_W]
    for fold, reader in folds.items():
        read = {row for batch in reader.batches("cpu").plan for row in batch.tolist()}
        assert {own[row] for row in read} == {1 - fold}
        contexts = {windows.examples[windows.example_W[row]].context for row in read}
        held = [e for e, of in zip(windows.examples, fold_of(windows), strict=True) if of == fold]
        assert held and all(example.context not in contexts for example in held)
    store = next(t for t in done.tasks if isinstance(t, trainings.TeacherLogits) and t.domain == "news")
    assert store.folds == [key(folds[0]), key(folds[1])]
    stored = torch.split(store.stored()["start"].float(), windows.lengths_W.tolist())
    for fold, reader in folds.items():
        alone = trainings.teacher_logits([reader], "news")
        alone.fit()
        said = torch.split(alone.stored()["start"].float(), windows.lengths_W.tolist())
        same = [torch.equal(a, b) for a, b in zip(stored, said, strict=True)]
        assert all(same[row] == (own[row] == fold) for row in range(len(windows)))
    phi = next(task for task in done.tasks if "phi, encyclopedia" in task.label)
    assert phi.folds["news"] == store.folds and set(store.folds) < set(phi.parents())


def test_acceptance_and_the_last_new_readers(monkeypatch, preset):
    scores = {"theta, news, round 1": 60.0, "theta, search, round 1": 40.0}

    def valid(reader):
        return next((score for name, score in scores.items() if name in reader.label), 50.0)

    _, rounds = drive(monkeypatch, algorithm.algorithm1(preset, 0, preset.imm, 1), valid)
    trained = rows.Trained.of(preset, ["IMM"])
    tables.add_imm(trained, "IMM", 0, engine.Outcome(rounds, []))
    parts = ablations.acceptance(trained)
    (score,) = parts["scores"]
    assert parts["unit"] == "domains of 3" and (score.column, score.value) == (
        "round 1",
        2,
    )  # of three: encyclopedia's is as good as the old one
    assert parts["notes"] == []
    longer = SimpleNamespace(theta=[*rounds.theta, rounds.theta[-1]])  # goes on for a round
    some = SimpleNamespace(preset=preset, histories={("IMM", 0): rounds, ("IMM", 1): longer, ("IMM", 2): rounds})
    (note,) = ablations.acceptance(some)["notes"]
    assert note.endswith("is not in later means; ended before round 2: 2 of 3")
    asked = []
    monkeypatch.setattr(tables, "table", lambda given: asked.append(given) or {"claims": ["some"]})
    assert ablations.new_readers(trained) == {"claims": []}  # the paper says nothing of them
    assert asked[0].rows["IMM"][0] is rounds.new[-1] and rounds.new[-1]["search"] is not rounds.theta[-1]["search"]


def test_the_best_of_as_many_runs_is_asked_for_what_the_paper_says_of_one(monkeypatch, preset):
    monkeypatch.setattr(tables, "scores_by_domain", lambda trained: {})
    monkeypatch.setattr(tables, "notes", lambda trained: [])
    trained = rows.Trained.of(preset, ["Single", "BAM", "IMM", "BAM, best of 4", algorithm.OURS[0]])
    claims = {claim.text: (claim.primary, claim.control) for claim in tables.table(trained)["claims"]}
    best = {"IMM beats BAM, best of 4": (False, True)}
    assert claims == {"IMM beats Single": (False, False), "IMM beats BAM": (True, False)} | best
    for row, key in {"Single": "a", "BAM": "b", "IMM": "b"}.items():
        trained.rows[row] = {0: {"news": SimpleNamespace(key=key)}}
    assert [claim.below for claim in tables.table(trained)["claims"]] == ["Single", "BAM, best of 4"]  # BAM is IMM here
    controls = [(claim.below, claim.primary, claim.control) for claim in tables.equal(trained)["claims"]]
    assert controls == [("Mix", False, True), ("FT", False, True), ("BAM", False, True)]


def test_more_test_questions_train_nothing_and_are_answered_anew(results):
    small, large, selected = (
        load("smoke", "imm", seeds=1, **{f"data.{name}": 20}) for name in ("train_size", "test_size", "valid_size")
    )
    preset = load("smoke", "imm", seeds=1)
    singles = [algorithm.singles(one, 0)["news"] for one in (preset, large, small, selected)]
    assert key(singles[0]) == key(singles[1]) and len({key(single) for single in singles}) == 3
    asked = [answering(one, singles[:1], ["test/news"]).key for one in (preset, large)]
    assert asked[0] != asked[1]
    with pytest.raises(cached.NotDone, match="Single, news, seed 0 is not done"):
        singles[0].result()
    assert not list(results.rglob("job.pkl"))  # to ask for a result starts nothing


def loss_of(kd_space, progress, weight=None, annealing="linear"):
    """Two positions, all probabilities chosen: student 0.5 and 0.5, teacher 0.8 and 0.2 at the gold first position."""
    student = SimpleNamespace(start_logits=torch.zeros(1, 2), end_logits=torch.zeros(1, 2))
    teacher = torch.tensor([[0.8, 0.2]]).log()
    zero = torch.zeros(1, dtype=torch.long)
    batch = {"start": zero, "end": zero, "attention_mask": torch.ones(1, 2), "teacher_start": teacher}
    batch |= {"teacher_end": teacher} | ({} if weight is None else {"weight": torch.tensor([weight])})
    terms = trainings.joint_loss(kd_space, annealing)(student, batch, progress)
    return {name: round(float(term), 4) for name, term in terms.items()}


def test_joint_loss_by_hand():
    likelihood = round(2 * math.log(2), 4)
    assert loss_of("gold", 0.0) == {"likelihood": 0.0, "divergence": 0.18}  # 2 x 0.3 squared
    assert loss_of("gold", 1.0) == {"likelihood": likelihood, "divergence": 0.0}
    assert loss_of("gold", 0.25) == {"likelihood": round(0.5 * math.log(2), 4), "divergence": 0.135}
    assert loss_of("gold", 0.9, annealing="constant") == {"likelihood": round(math.log(2), 4), "divergence": 0.09}
    assert loss_of("probabilities", 0.0)["divergence"] == 0.36  # both positions count
    logits = (math.log(0.8) ** 2 + math.log(0.2) ** 2) / 2
    assert loss_of("logits", 0.0)["divergence"] == round(2 * logits, 4)
    weighted = loss_of("gold", 0.25, weight=0.5)
    assert weighted == {"likelihood": round(0.25 * math.log(2), 4), "divergence": 0.0675}  # Eq. 7


def test_a_damaged_reader_and_a_damaged_store_are_named_and_made_again(monkeypatch, preset, capsys):
    preset = preset.model_copy(update={"imm": preset.imm.model_copy(update={"rounds": 1})})
    monkeypatch.setattr(once, "_checked", set())
    done = engine.run_plans({0: algorithm.algorithm1(preset, 0, preset.imm, 1)}, preset.engine)[0]
    before = {i: reader.result() for i, reader in done.value.theta[-1].items()}
    single = done.tasks[0]
    store = next(task for task in done.tasks if isinstance(task, trainings.TeacherLogits))
    flip(single.folder() / "model.safetensors")
    flip(store.infra.uid_folder() / "outputs.safetensors")
    phi = next(task for task in done.tasks if "phi" in task.label)
    cut = phi.infra.uid_folder() / "job.pkl"
    cut.write_bytes(cut.read_bytes()[:40])
    once._checked.clear()
    capsys.readouterr()
    again = engine.run_plans({0: algorithm.algorithm1(preset, 0, preset.imm, 1)}, preset.engine)[0]
    said = capsys.readouterr().out
    assert (
        single.label in said
        and store.label in said
        and phi.label in said
        and said.count("it has to be made again") == 3
    )
    damaged = "model.safetensors", "outputs.safetensors", "job.pkl"
    assert all(f"{name} is damaged" in said for name in damaged)
    for i, reader in again.value.theta[-1].items():
        result = reader.result()
        assert {**result, "seconds": 0} == {**before[i], "seconds": 0}


def test_outputs_of_another_teacher_or_of_other_windows_are_refused(preset):
    done = engine.run_plans({0: algorithm.algorithm1(preset, 0, preset.imm, 1)}, preset.engine)[0]
    store = next(task for task in done.tasks if isinstance(task, trainings.TeacherLogits))
    tensors, facts = checkpoints.load_tensors(store.infra.uid_folder() / "outputs.safetensors")
    for wrong in ({"teacher": "another"}, {"windows": "others"}):
        checkpoints.save_tensors(
            store.infra.uid_folder() / "outputs.safetensors", tensors, {**facts, **wrong}, "outputs"
        )
        with pytest.raises(checkpoints.DamagedFile, match=r"outputs\.safetensors holds another teacher's outputs"):
            store.stored()


def test_steps_alike_or_epochs_over_a_stages_own_questions(monkeypatch, preset):
    waves, rounds = drive(monkeypatch, algorithm.algorithm1(preset, 0, preset.imm, 1), better_every_round)
    phi = next(one for wave in waves for one in wave if "phi, news" in one.label)
    expected = {"Single": ["news"], "phi": ["encyclopedia", "search"], "theta": ["news"]}
    found = {"Single": rounds.theta[0]["news"], "phi": phi, "theta": rounds.new[0]["news"]}
    assert {name: reader.steps for name, reader in found.items()} == {
        name: budget(preset, domains) for name, domains in expected.items()
    }
    equal = trainings.equal_steps(preset)
    _, alike = drive(monkeypatch, algorithm.algorithm1(equal, 0, equal.imm, 1), better_every_round)
    assert alike.theta[0]["news"].steps == budget(preset) != budget(preset, ["news"])


def test_own_domains_are_taught_where_teachers_are_better_than_what_they_teach(monkeypatch, preset):
    def driven(single, untaught, taught):
        def valid(reader):
            return single if "Single" in reader.label else taught if reader.teachers else untaught

        waves, (rounds, lead) = drive(monkeypatch, own.rounds_of(preset, 0), valid)
        readers = [one for wave in waves for one in wave if isinstance(one, trainings.ImmTraining)]
        return any(one.teachers for one in readers), rounds.theta[-1]["news"], lead

    tried, kept, lead = driven(single=40.0, untaught=50.0, taught=99.0)
    assert not tried and lead == -10 and kept.teachers == {} and "theta" in kept.label
    tried, kept, lead = driven(single=50.0, untaught=45.0, taught=60.0)
    assert tried and lead == 5 and set(kept.teachers) == {"news"}
    tried, kept, _ = driven(single=50.0, untaught=45.0, taught=40.0)  # then none is better than the first
    assert tried and kept.label.startswith("Single")
