"""HRKD's students: what their ratios say (Tables 5 and 6 of Dong et al. 2021), what they cost, and what they keep."""

from functools import partial
from itertools import combinations, product

import numpy as np
import pandas as pd
import torch

from helpers import papers
from helpers.data.load import label_names, load_domains
from helpers.loop import training_device
from helpers.papers.hrkd import CORPORA, algorithm, tables
from helpers.papers.hrkd.algorithm import HRKD, OURS, RELATION_STUDENTS, load_distilled
from helpers.papers.hrkd.meta_kd import mean_tokens
from helpers.papers.measure import average_columns, time_in_turns
from helpers.presets.schema import Preset
from helpers.records import Claim, Score
from helpers.task import Plan
from helpers.training import Training, predict

SAME, DIFFERENT = "same label", "different labels"
UNTRAINED_NOTE = (
    "the weights are those of the released method: noise of the dropout in a graph that is never trained. The shares "
    "of levels come from matrices that keep their first weights"
)


def compute_ratios(student: Training) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute a trained student's ratios for batches of one test text per domain, the n-th text of each.

    Returns ratios N×V×D, shares N×D×V×V (the last axis: of levels in the graph of a level), and labels N×D.
    """
    learner, data = load_distilled(student), student.data
    sequences = [data.sequences(student.preset, "test", domain) for domain in data.names]
    sequences = [texts.select(np.arange(min(map(len, sequences)))) for texts in sequences]
    means_NxVxDxF = np.stack([mean_tokens(learner.student, texts, "fp32") for texts in sequences], axis=2)
    torch.manual_seed(student.seed)  # dropout in the graph is always on
    with torch.inference_mode():
        levels = torch.as_tensor(means_NxVxDxF, device=training_device()).unbind(1)
        levels = learner.project(levels) if learner.relations.projected else levels  # linear, so it may follow the mean
        outputs = map(learner.relations, torch.stack(levels, 1))
        ratios, shares = (torch.stack(values).cpu().numpy() for values in zip(*outputs, strict=True))
    return ratios, shares, np.stack([texts.labels["label"] for texts in sequences], 1)


def average_gaps(values_NxVxD: np.ndarray, labels_NxD: np.ndarray) -> dict[str, float]:
    """Average the absolute difference of two domains' values where their texts have the same label, and where not.

    Each pair of domains counts equally, so differences of domains are not mistaken for those of labels.
    """
    gaps: dict[str, list[float]] = {SAME: [], DIFFERENT: []}
    for one, other in combinations(range(labels_NxD.shape[1]), 2):
        gaps_N = np.abs(values_NxVxD[:, :, one] - values_NxVxD[:, :, other]).mean(1)
        alike_N = labels_NxD[:, one] == labels_NxD[:, other]
        if alike_N.any() and not alike_N.all():  # a pair without both kinds says nothing
            gaps[SAME].append(gaps_N[alike_N].mean())
            gaps[DIFFERENT].append(gaps_N[~alike_N].mean())
    return {kind: float(np.mean(values)) for kind, values in gaps.items() if values}


def table5(preset: Preset) -> Plan:
    """Make Table 5: ratios of texts that share a label, except one. Its claim is about all test texts."""
    models, scores = (yield from algorithm.train(preset, "reviews", (OURS,))), []
    values = [compute_ratios(models.first(OURS, seed)) for seed in preset.seed_numbers]
    for seed, (ratios, shares, labels) in zip(preset.seed_numbers, values, strict=True):
        flat_shares = shares.reshape(*labels.shape, -1).transpose(0, 2, 1)
        for column, of_domains in {"ratios": ratios, "shares of levels": flat_shares}.items():
            gaps = average_gaps(of_domains, labels).items()
            scores += [Score(method=row, column=column, seed=seed, value=100 * gap) for row, gap in gaps]
    parts = show_place(models.first(OURS), "table5", len(preset.reviews.domains) - 1, *values[0])
    note = "numbers: how far two domains' ratios, or shares of levels, are apart, over all test texts"
    return {**parts, "scores": scores, "claims": state_claims() if scores else [], "notes": [*parts["notes"], note]}


def state_claims() -> list[Claim]:
    """State the claim of Table 5, beside the gaps between the ratios of the eight texts that the paper prints."""
    frames = [read_ratios(table) for table in ("table5", "table6")]
    labels_NxD = np.array([[row.endswith("positive") for row in frame.index] for frame in frames], int)
    gaps = average_gaps(np.stack([frame.to_numpy().T for frame in frames]), labels_NxD)
    text, printed = "the ratios of texts with the same label are nearer to each other", gaps[DIFFERENT] - gaps[SAME]
    rows = {"above": DIFFERENT, "below": SAME, "columns": ["ratios"]}
    return [Claim(text=text, **rows, primary=True, printed=round(printed, 2), printed_for="for eight texts")]


def read_ratios(table: str) -> pd.DataFrame:
    """Read the ratios that the paper prints in a table, in percent: a row per text, a column per level."""
    printed = pd.DataFrame(number.model_dump() for number in papers.read_printed(f"hrkd/{table}_ratios"))
    return printed.pivot_table("value", "method", "column", sort=False)


def table6(preset: Preset) -> Plan:
    """Make Table 6: ratios of texts, half of them with one label."""
    student = (yield from algorithm.train(preset, "reviews", (OURS,))).first(OURS)
    return show_place(student, "table6", (len(preset.reviews.domains) + 1) // 2, *compute_ratios(student))


def show_place(
    student: Training, table: str, same: int, ratios: np.ndarray, shares: np.ndarray, labels_NxD: np.ndarray
) -> dict:
    """Show the texts at the first place of the domains' test parts where about ``same`` of them have the last label.

    That is "positive", as in the paper's tables. Panels have in percent the weight of each domain by level, ours and
    the paper's, and the shares of the levels in each domain's graphs.
    """
    names, domains = label_names(student.data.texts(student.preset)), load_domains(student.data.texts(student.preset))
    count_N = (labels_NxD == len(names) - 1).sum(1)
    place = int(np.abs(count_N - same).argmin())
    rows = [f"{domain}, {names[label]}" for domain, label in zip(domains, labels_NxD[place], strict=True)]
    texts = {row: domain.test[place].first for row, domain in zip(rows, domains.values(), strict=True)}
    levels = ["embeddings", *(f"layer {layer}" for layer in range(1, ratios.shape[1]))]
    frames = {"weight of each domain": pd.DataFrame(ratios[place].T, rows, levels)}
    frames["the paper's"] = read_ratios(table) / 100
    for row, shares_VxV in zip(rows, np.where(np.tri(len(levels)), shares[place], np.nan), strict=True):
        frames[f"{row}: levels"] = pd.DataFrame(shares_VxV, [f"graph of {level}" for level in levels], levels)
    panels = {
        title: {name: line.dropna().to_dict() for name, line in (100 * frame).round(1).iterrows()}
        for title, frame in frames.items()
    }
    note = f"text {place + 1} of each test part: the first where {count_N[place]} of {len(rows)} are {names[-1]}"
    return {"payload": {"panels": panels, "x": "", "y": "", "text": texts}, "notes": [note, UNTRAINED_NOTE]}


def ratios(preset: Preset) -> Plan:
    """Trace the percentage of a level's weight that separates all ratios from equal ones, over the training."""
    models, scores = (yield from algorithm.train(preset, "reviews", RELATION_STUDENTS)), []
    for row, seed in product(models.by_row, preset.seed_numbers):
        result = models.first(row, seed).result()
        for step, _, details in result["validation"]:
            if "ratios" in details:
                moved, x = measure_moved(np.asarray(details["ratios"])), round(100 * step / result["steps"])
                scores.append(Score(method=row, column="moved", seed=seed, value=moved, x=x))
    return {"scores": scores, "payload": {"x": "% of the training"}, "notes": tables.make_notes(preset, "reviews")}


def measure_moved(ratios_VxD: np.ndarray) -> float:
    """Return the percentage of a level's weight that separates the ratios from equal ones, averaged over levels."""
    return float(50 * np.abs(ratios_VxD - 1 / ratios_VxD.shape[1]).sum(1).mean())


def compression(preset: Preset) -> Plan:
    """Compare what a student costs and keeps with its teacher: accuracy, size, and speed in turns."""
    parts, scores = (yield from tables.compute_accuracies(preset, "reviews", (HRKD, OURS))), []
    models, accuracy = (yield from algorithm.train(preset, "reviews", (HRKD, OURS))), average_columns(parts)
    for seed in preset.seed_numbers:
        pair = {row: models.first(row, seed) for row in (HRKD, OURS)}
        texts = pair[HRKD].data.sequences(preset.for_seed(seed), "test")
        texts = texts.select(np.linspace(0, len(texts) - 1, min(64, len(texts))).astype(int))
        files = {row: model.saved().glob("*.safetensors") for row, model in pair.items()}
        loaded = {row: model.load() for row, model in pair.items()}
        values = {
            "accuracy": {row: accuracy[row, seed] for row in pair},
            "% of the teacher's accuracy": {OURS: 100 * accuracy[OURS, seed] / accuracy[HRKD, seed]},
            "thousand parameters": {row: model.result()["parameters"] / 1000 for row, model in pair.items()},
            "MB": {row: sum(file.stat().st_size for file in files[row]) / 1e6 for row in pair},
        }
        for size, how in {1: "one at a time", 32: "32 at a time"}.items():
            work = {row: partial(predict, model, texts, "fp32", batch_size=size) for row, model in loaded.items()}
            seconds = time_in_turns(work)
            values[f"ms an example, {how}"] = {row: 1000 * seconds[row] / len(texts) for row in pair}
            values[f"times faster than the teacher, {how}"] = {OURS: seconds[HRKD] / seconds[OURS]}
        cell = {"column": CORPORA["reviews"], "seed": seed}
        for metric, by_row in values.items():
            scores += [Score(method=row, value=value, metric=metric, **cell) for row, value in by_row.items()]
    return {"scores": scores, "notes": [*parts["notes"], f"times are for {len(texts)} texts"]}
