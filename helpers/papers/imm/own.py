"""IMM on somebody's own domains: what is trained, what it is worth beside Single, and how fast that goes."""

import shutil
from functools import partial
from statistics import mean

from helpers.models.pretrained import load_encoder
from helpers.papers.card import OwnModel
from helpers.papers.imm import algorithm
from helpers.papers.imm.tables import NOT_TAUGHT, add_imm, scores_by_domain
from helpers.papers.imm.trainings import steps_of
from helpers.papers.rows import Trained
from helpers.presets.schema import Preset
from helpers.results.records import Claim
from helpers.tasks import spans
from helpers.tasks.answering import answering
from helpers.tasks.pace import Speed, Speeds, measured
from helpers.training.cached import Cached
from helpers.training.engine import After, Outcome, Plan, replay, run_plans
from helpers.training.loop import fit, training_device

ROWS = {"Single": "Single", "IMM": "IMM"}
WINDOWS = 64  # that the reading is measured on


def rounds_of(preset: Preset, seed: int) -> Plan:
    """Algorithm 1 without the divergence, and with it as well where the readers of one domain are better teachers, on
    average over validation questions, than what came of the first round without: those that are worse pull their
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
    return preset.changed("imm", **algorithm.VARIANTS[NOT_TAUGHT])


def folders(preset: Preset) -> dict[str, list[str]]:
    """A reader a domain."""
    return {name: [name] for name in preset.data.domains}


def tasks(preset: Preset) -> list[Cached]:
    """All that `train` did, or all that it can come to do: one round without teachers, and all rounds with them."""
    found = []
    for seed in range(preset.seeds):
        own = preset.drawn(seed)
        value, done = replay(rounds_of(own, seed))
        if value is None:
            first = not_taught(own).changed("imm", rounds=1)
            untaught, taught = (replay(algorithm.rehearsal(p, seed), lambda task: True) for p in (first, own))
            value, done = (taught.value, 0.0), [*untaught.tasks, *taught.tasks]
        asked = (answering(r.preset, [r], [f"test/{i}"]) for at in (0, -1) for i, r in value[0].theta[at].items())
        found += [*done, *asked]
    return found


def train(preset: Preset, after: After | None = None) -> tuple[dict, dict[str, OwnModel]]:
    """Single beside IMM as parts of a record, and each domain's reader that is best on validation, of all seeds."""
    seeds = range(preset.seeds)
    plans = {seed: rounds_of(preset.drawn(seed), seed) for seed in seeds}
    trained, notes = Trained.of(preset, ROWS, rounds=preset.imm.rounds), []
    for seed, outcome in run_plans(plans, preset.engine, after=after).items():
        rounds, lead = outcome.value
        trained.add("Single", seed, rounds.theta[0], {})
        add_imm(trained, "IMM", seed, Outcome(rounds, outcome.tasks))
        tried = "so these are taught too" if lead > 0 else "so nobody is taught"
        notes.append(f"seed {seed}: {lead:+.1f} F1 from readers without a teacher to their possible teachers, {tried}")
    models, readers = {}, trained.rows["IMM"]
    for domain in preset.data.domains:
        best = max(seeds, key=lambda seed: algorithm.valid(readers[seed][domain]))
        made_in = next(
            k for k, theta in enumerate(trained.histories["IMM", best].theta) if theta[domain] is readers[best][domain]
        )
        first, second = "taught by their readers, weighted by similarity", "taught by its predecessor"
        if not readers[best][domain].teachers:
            first, second = "weighted by similarity", "both without teachers, as these were no better"
        history = (
            f"of round {made_in} of IMM, of at most {trained.rounds}: trained on the other domains, {first} "
            f"({preset.imm.similarity}), then on {domain}, {second} (iterative multi-source mutual knowledge transfer, "
            "Liu et al. 2020)"
            if made_in
            else f"trained on {domain} alone: no round of IMM was better on its validation questions"
        )
        models[domain] = OwnModel(partial(shutil.copytree, readers[best][domain].folder()), best, history)
    beats = Claim(text="IMM beats Single", above="IMM", below="Single")
    parts = {"baselines": ["Single"], "claims": [beats], "notes": notes, "training_seconds": trained.seconds}
    return {**parts, **scores_by_domain(trained, after)}, models


def speeds(preset: Preset) -> Speeds:
    """All steps are alike: those of a reader, whose teachers were asked before."""
    names, longest = list(preset.data.domains), preset.windows.max_length
    model = load_encoder(preset.encoder, seed=0, random_layers=preset.random_layers, max_length=longest)
    model.to(device := training_device())

    def steps(number: int) -> float:
        batches = spans.training_batches(preset, names, number, 0, device)
        return fit(model, batches, spans.loss, preset.training, seed=0, label="measuring").seconds

    windows = spans.windows_over(preset, spans.windows_of(preset, names[:1], "valid").examples[:WINDOWS])
    speed: Speed = measured(
        steps, lambda: spans.predict(model, windows, precision=preset.training.precision), len(windows)
    )
    return lambda task: speed


def facts(preset: Preset, domains: list[str]) -> dict[str, object]:
    """How a reader of these domains reads, and how long it was trained, for its card."""
    cut = preset.windows
    return {
        "stride": f"each {cut.stride} tokens on" if cut.stride_is == "step" else f"which share {cut.stride} tokens",
        "unanswerable": ". Where the passage holds no answer it says nothing"
        * any(map(preset.data.may_be_unanswerable, domains)),
        "steps": steps_of(preset, domains[:1], 1),
    }
