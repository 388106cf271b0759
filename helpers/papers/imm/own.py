"""IMM on somebody's own domains: what is trained, what it is worth beside Single, and how fast that goes."""

import itertools
import shutil
from functools import partial

from helpers.models.pretrained import load_encoder
from helpers.papers.card import OwnModel
from helpers.papers.imm import algorithm
from helpers.papers.imm.tables import add_imm, scores_by_domain
from helpers.papers.imm.trainings import steps_of
from helpers.papers.rows import Trained
from helpers.presets.schema import Preset
from helpers.results.records import Claim
from helpers.tasks import spans
from helpers.tasks.answering import answering
from helpers.tasks.pace import Speed, Speeds, measured
from helpers.training.cached import Cached
from helpers.training.engine import After, replay, run_plans
from helpers.training.loop import fit, training_device

ROWS = {"Single": "Single", "IMM": "IMM"}
WINDOWS = 64  # that the reading is measured on


def folders(preset: Preset) -> dict[str, list[str]]:
    """A reader a domain."""
    return {name: [name] for name in preset.data.domains}


def tasks(preset: Preset) -> list[Cached]:
    """All that `train` can come to train and to ask."""
    rehearsed = [
        replay(algorithm.rehearsal(preset.drawn(seed), seed), lambda task: True) for seed in range(preset.seeds)
    ]
    compared = [theta for rounds, _ in rehearsed for theta in (rounds.theta[0], rounds.theta[-1])]
    asked = (answering(theta[i].preset, [theta[i]], [f"test/{i}"]) for theta in compared for i in theta)
    return [*itertools.chain(*(tasks for _, tasks in rehearsed)), *asked]


def train(preset: Preset, after: After | None = None) -> tuple[dict, dict[str, OwnModel]]:
    """Single beside IMM as parts of a record, and each domain's reader that is best on validation, of all seeds."""
    seeds = range(preset.seeds)
    plans = {seed: algorithm.algorithm1(preset.drawn(seed), seed, preset.imm, preset.imm.rounds) for seed in seeds}
    trained = Trained.of(preset, ROWS, rounds=preset.imm.rounds)
    for seed, outcome in run_plans(plans, preset.engine, after=after).items():
        trained.add("Single", seed, outcome.value.theta[0], {})
        add_imm(trained, "IMM", seed, outcome)
    models, readers = {}, trained.rows["IMM"]
    for domain in preset.data.domains:
        best = max(seeds, key=lambda seed: algorithm.valid(readers[seed][domain]))
        made_in = next(
            k for k, theta in enumerate(trained.histories["IMM", best].theta) if theta[domain] is readers[best][domain]
        )
        history = (
            f"of round {made_in} of IMM, of at most {trained.rounds}: trained on the other domains, taught by their "
            f"readers, weighted by similarity ({preset.imm.similarity}), then on {domain}, taught by its predecessor "
            "(iterative multi-source mutual knowledge transfer, Liu et al. 2020)"
            if made_in
            else f"trained on {domain} alone: no round of IMM was better on its validation questions"
        )
        models[domain] = OwnModel(partial(shutil.copytree, readers[best][domain].folder()), best, history)
    beats = Claim(text="IMM beats Single", above="IMM", below="Single")
    parts = {"baselines": ["Single"], "claims": [beats], "training_seconds": trained.seconds}
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
