"""IMM and what it is compared with on somebody's own domains: what is trained, which is best, how fast that goes."""

import shutil
from functools import partial
from pathlib import Path
from statistics import mean

from helpers.data.unlabelled import load_unlabelled
from helpers.models.pretrained import load_saved
from helpers.papers.card import OwnModel
from helpers.papers.imm import algorithm
from helpers.papers.imm.tables import add_imm, scores_by_domain
from helpers.papers.imm.trainings import ImmTraining, steps_of, training
from helpers.papers.reading import tested
from helpers.papers.rows import Trained
from helpers.papers.rows import seconds as seconds_of
from helpers.paths import public_name
from helpers.presets.schema import GENERAL, Preset
from helpers.results.records import Cell, Claim
from helpers.tasks.answering import answering, load_reader
from helpers.tasks.distilled import student
from helpers.tasks.pace import Speeds, asking_speed, reader_speed
from helpers.tasks.soft_labels import SoftLabels, soft_labels
from helpers.training.cached import Cached
from helpers.training.engine import After, Outcome, Plan, is_done, replay, run, run_plans

IMM, TAUGHT, DISTILLED, CHOSEN = "IMM", "Taught", "Distilled", "Chosen"
UNLABELLED = f"{DISTILLED} with more"
ROWS = {row: row for row in (*algorithm.METHODS, TAUGHT, DISTILLED, UNLABELLED)} | {CHOSEN: "chosen"}
HISTORIES = {
    "Single": "trained on {domain} alone",
    "Mix": "trained on all domains together",
    "FT": "trained on the other domains, then on {domain}",
    "MS-FT": "trained on the other domain that is most similar, then on {domain}",
    "MFT": "trained on the other domains, then on all together",
    "MS-MFT": "trained on the other domain that is most similar, then on it and {domain} together",
    "BAM": "trained on all domains, taught by a reader of each, then on {domain} (born-again multi-task networks, "
    "Clark et al. 2019)",
    TAUGHT: "trained on {domain} alone, by its answers and by what {teacher} says of its questions",
    **dict.fromkeys(
        (DISTILLED, UNLABELLED),
        "trained on all domains together, by their answers and by what {members} such readers say together of their "
        "questions{more} (attention-guided answer distillation, Hu et al. 2018)",
    ),
}
MORE = " and of others without answers"
NO_SEED = 1_000_000


def rounds_of(preset: Preset, seed: int) -> Plan:
    """Algorithm 1 without the divergence, and with it as well where the readers of one domain are better teachers, on
    average over validation questions, than what came of the first round without: those that are worse may pull their
    student down (notebook 04). Returns the `algorithm.Rounds` whose last readers are better on validation, and by how
    much F1 the teachers are better."""
    untaught = yield from algorithm.algorithm1(preset, seed, not_taught(preset).imm, preset.imm.rounds)
    lead = mean(algorithm.gain(single, untaught.new[0][i]) for i, single in untaught.theta[0].items())
    if lead <= 0:
        return untaught, lead
    taught = yield from algorithm.algorithm1(preset, seed, preset.imm, preset.imm.rounds)
    return max(untaught, taught, key=lambda rounds: mean(map(algorithm.valid, rounds.theta[-1].values()))), lead


def not_taught(preset: Preset) -> Preset:
    """The preset without the divergence of Eqs. 5 and 9."""
    return preset.changed("imm", **algorithm.VARIANTS[algorithm.NOT_TAUGHT])


def folders(preset: Preset) -> dict[str, list[str]]:
    """A reader a domain."""
    return {name: [name] for name in preset.data.domains}


def methods(preset: Preset) -> list[str]:
    """The methods that are compared, Single first."""
    known = preset.imm
    ours = {TAUGHT: known.teacher, DISTILLED: known.ensemble, UNLABELLED: known.unlabelled}
    asked = [row for row in algorithm.METHODS if row in ("Single", *known.methods)]
    return asked + [row for row, given in ours.items() if given]


def of_general(preset: Preset) -> Preset:
    """The preset whose only domain are the questions that all learn first."""
    return preset.of_general(str(Path(preset.imm.general).expanduser().resolve()), preset.imm.general_size)


def begun(preset: Preset) -> tuple[Preset, ImmTraining | None]:
    """The preset whose encoder is the reader that all others begin as: ``imm.start``, or what that, or the encoder,
    became by ``imm.general``, as soon as that is trained; and this training, where there is one."""
    if preset.imm.start:
        preset = preset.model_copy(update={"encoder": preset.imm.start, "random_layers": 0})
    if not preset.imm.general:
        return preset, None
    general = training(of_general(preset), 0, "general reader", [GENERAL], [GENERAL], 1)
    if is_done(general):
        preset = preset.model_copy(update={"encoder": str(general.folder()), "random_layers": 0})
    return preset, general


def tasks(preset: Preset) -> list[Cached]:
    """All that `train` did, or all that it can come to do: of IMM one round without teachers, and all rounds with them.
    As long as a general reader is not trained, others stand for those that begin as it, with seeds that no run has."""
    (preset, general), rows = begun(preset), methods(preset)
    found = [general] if general else []
    first = NO_SEED if general and not is_done(general) else 0
    for seed in range(first, first + preset.seeds):
        own = preset.drawn(seed)
        readers, done = replay(baselines(own, seed), lambda task: True)
        if IMM in rows:
            value, of_imm = replay(rounds_of(own, seed))
            if value is None:
                once = not_taught(own).changed("imm", rounds=1)
                untaught, taught = (replay(algorithm.rehearsal(p, seed), lambda task: True) for p in (once, own))
                value, of_imm = (taught.value, 0.0), [*untaught.tasks, *taught.tasks]
            readers, done = {**readers, IMM: value[0].theta[-1]}, [*done, *of_imm]
        for i, reader in ((i, reader) for of_row in readers.values() for i, reader in of_row.items()):
            parts = ("test",) if reader.target == [i] else ("test", "valid")
            done += [answering(reader.preset, [reader], [f"{part}/{i}"]) for part in parts]
        found += done
    return found


def baselines(preset: Preset, seed: int) -> Plan:
    """The readers of all methods but IMM, by row and domain; ours are Taught, by ``imm.teacher``, and Distilled."""
    rows = [row for row in methods(preset) if row in algorithm.METHODS and row != IMM]
    readers, temperature = (yield from algorithm.baselines(preset, seed, rows)), preset.imm.temperature
    if TAUGHT in methods(preset):
        labels = {i: soft_labels(preset, i, preset.imm.teacher, temperature) for i in preset.data.domains}
        parts = {i: {"soft": {i: labels[i].key}, "temperature": temperature} for i in labels}
        readers[TAUGHT] = {i: training(preset, seed, f"{TAUGHT}, {i}", [i], [i], 1, **parts[i]) for i in labels}
        yield [*labels.values(), *readers[TAUGHT].values()]
    if preset.imm.ensemble:
        readers |= yield from distillation(preset, seed)
    return readers


def distillation(preset: Preset, seed: int) -> Plan:
    """Readers of all domains that an ensemble of such readers, with other seeds, teaches (Hu et al. 2018, section 3.4),
    by row and domain: on the domains' questions, and on those without answers too. The weights that they begin with
    and their order are those of the row Mix."""
    names, known, rows = list(preset.data.domains), preset.imm, methods(preset)
    seeds = [seed + algorithm.RUNS * number for number in range(1, known.ensemble + 1)]
    members = [training(preset, each, "Mix", names, names, 1) for each in seeds]
    parts = known.model_dump(include={"temperature", "top_k", "answer_weight", "attention_weight"})
    places = {row: place for row, place in {DISTILLED: "", UNLABELLED: known.unlabelled}.items() if row in rows}
    parts["steps"] = steps_of(preset, names, 1)
    students = {row: student(preset, seed, row, members, place=place, **parts) for row, place in places.items()}
    yield [*members, *(said for one in students.values() for said in one.outputs()), *students.values()]
    return {row: dict.fromkeys(names, one) for row, one in students.items()}


def train(preset: Preset, after: After | None = None) -> tuple[dict, dict[str, OwnModel]]:
    """All methods as parts of a record, the last row each domain's chosen one; and of that each domain's reader that is
    best on validation, of all seeds."""
    asked, (preset, general) = preset, begun(preset)
    if general:
        run([general], preset.engine, after=after)
        preset, _ = begun(asked)
    seeds, place = range(preset.seeds), preset.imm.unlabelled
    notes = list(load_unlabelled(preset.data, place).notes) if place else []
    plans = {("baselines", seed): baselines(preset.drawn(seed), seed) for seed in seeds}
    if IMM in methods(preset):
        plans |= {(IMM, seed): rounds_of(preset.drawn(seed), seed) for seed in seeds}
    trained = Trained.of(preset, methods(preset), rounds=preset.imm.rounds)
    for (kind, seed), outcome in run_plans(plans, preset.engine, after=after).items():
        if kind != IMM:
            trained.add_rows(seed, outcome)
            continue
        rounds, lead = outcome.value
        add_imm(trained, IMM, seed, Outcome(rounds, outcome.tasks))
        tried = "so these are taught too" if lead > 0 else "so nobody is taught"
        notes.append(f"seed {seed}: {lead:+.1f} F1 from readers without a teacher to their possible teachers, {tried}")
    spent = {
        row: mean(seconds_of(needed.values()) for needed in of_seeds.values())
        for row, of_seeds in trained.needs.items()
    }
    valid = validation(trained, after)
    chosen = {domain: best_row(trained, valid, domain) for domain in preset.data.domains}
    models = {domain: own_model(trained, valid, row, domain) for domain, row in chosen.items()}
    for seed in seeds:
        trained.rows.setdefault(CHOSEN, {})[seed] = {i: trained.rows[row][seed][i] for i, row in chosen.items()}
    beats = Claim(text="the readers chosen on validation are better than Single", above=CHOSEN, below="Single")
    return {
        **scores_by_domain(trained, after),
        "baselines": ["Single"],
        "claims": [beats],
        "notes": notes,
        "payload": {"seconds": spent, "chosen": chosen},
        "training_seconds": trained.seconds + (seconds_of([general]) if general else 0),
    }, models


def best_row(trained: Trained, valid: dict[Cell, float], domain: str) -> str:
    """The row whose readers of a domain are best on validation, on average over seeds; of equal rows the first."""
    return max(trained.rows, key=lambda row: mean(valid[row, domain, seed] for seed in range(trained.preset.seeds)))


def own_model(trained: Trained, valid: dict[Cell, float], row: str, domain: str) -> OwnModel:
    """A row's reader of a domain, of the seed that is best on validation, and how it came about."""
    best = max(range(trained.preset.seeds), key=lambda seed: valid[row, domain, seed])
    known = trained.preset.imm
    named = {"domain": domain, "teacher": public_name(known.teacher), "members": known.ensemble}
    more = MORE if row == UNLABELLED else ""
    history = imm_history(trained, best, domain) if row == IMM else HISTORIES[row].format(**named, more=more)
    return OwnModel(partial(shutil.copytree, trained.rows[row][best][domain].folder()), best, history)


def validation(trained: Trained, after: After | None = None) -> dict[Cell, float]:
    """F1 on validation questions by row, domain and seed; a reader that was selected by others as well is asked."""
    readers = {((row, seed), domain): reader for row, seed, domain, reader in trained.models()}
    asked = {key: reader for key, reader in readers.items() if reader.target != [key[1]]}
    f1 = tested(trained.preset, asked, "valid", after)
    f1_of = {}
    for key, reader in readers.items():
        (row, seed), domain = key
        f1_of[row, domain, seed] = f1[key] if key in f1 else algorithm.valid(reader)
    return f1_of


def imm_history(trained: Trained, seed: int, domain: str) -> str:
    """How a domain's reader of IMM came about."""
    reader, rounds = trained.rows[IMM][seed][domain], trained.histories[IMM, seed].theta
    made_in = next(k for k, theta in enumerate(rounds) if theta[domain] is reader)
    if not made_in:
        return f"trained on {domain} alone: no round of IMM was better on its validation questions"
    first, second = "taught by their readers, weighted by similarity", "taught by its predecessor"
    if not reader.teachers:
        first, second = "weighted by similarity", "both without teachers, as these were no better"
    return (
        f"of round {made_in} of IMM, of at most {trained.rounds}: trained on the other domains, {first} "
        f"({trained.preset.imm.similarity}), then on {domain}, {second} (iterative multi-source mutual knowledge "
        "transfer, Liu et al. 2020)"
    )


def speeds(preset: Preset) -> Speeds:
    """All steps are alike: those of a reader, whose teachers were asked before. Raises EncoderError, also where
    ``imm.start`` is no reader."""
    preset, _ = begun(preset)
    if preset.imm.start:
        load_saved(preset.imm.start)  # without a head it would be an encoder
    speed = reader_speed(preset)
    if not preset.imm.teacher:
        return lambda task: speed
    asked = asking_speed(preset, load_reader(preset.imm.teacher))
    return lambda task: asked if isinstance(task, SoftLabels) else speed


def facts(preset: Preset, domains: list[str]) -> dict[str, object]:
    """How a reader of these domains reads, and how long it was trained, for its card."""
    cut, (own, general) = preset.windows, begun(preset)
    base = public_name(preset.imm.start or preset.encoder)
    learnt = f", trained on {GENERAL} questions first ({public_name(preset.imm.general)})" if general else ""
    return {
        "base": base.partition("@")[0],
        "begins": f"{'the reader' if preset.imm.start else 'the encoder'} {base}{learnt}",
        "stride": f"each {cut.stride} tokens on" if cut.stride_is == "step" else f"which share {cut.stride} tokens",
        "unanswerable": ". Where the passage holds no answer it says nothing"
        * any(map(preset.data.may_be_unanswerable, domains)),
        "steps": steps_of(own, domains[:1], 1),
    }
