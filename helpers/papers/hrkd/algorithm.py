"""HRKD: hierarchical relational knowledge distillation over several domains (Dong et al. 2021).

The five teachers of section 3.2 and the six ways to distil them, as plans: each yields waves of trainings, parents
first. A student learns its teacher's levels, attention and soft labels (section 2.1); HRKD weighs domains and levels by
ratios that graphs of the domains give (sections 2.2, 2.3; ``helpers.models.relations``); the losses are in
``helpers.papers.hrkd.trainings``.
"""

from helpers.data.sections import fingerprint
from helpers.data.texts import label_names, load_texts
from helpers.models.distilled import check_pair
from helpers.models.pretrained import encoder_fingerprint
from helpers.papers.hrkd.trainings import StudentTraining, TeacherTraining
from helpers.presets.schema import Preset
from helpers.tasks.classifiers import ClassifierTraining, steps_for
from helpers.training.engine import Plan

CORPORA = {"mnli": "MNLI", "reviews": "Amazon Reviews"}  # sections of a preset, and what the paper calls them
SINGLE, MIX, MTL = "BERT_B-single", "BERT_B-mix", "BERT_B-mtl"
META, HRKD = "Meta-teacher", "HRKD-teacher"
TEACHERS = (SINGLE, MIX, MTL, META, HRKD)
KD = "TinyBERT-KD"
STUDENTS = (*(f"{teacher} → {KD}" for teacher in (SINGLE, MIX, MTL)), f"{META} → Meta-distillation")
PLAIN, OURS = f"{HRKD} → {KD}", f"{HRKD} → HRKD"
ALONE = "BERT_S, no teacher"  # which the paper does not have
ROWS = (*TEACHERS, *STUDENTS, PLAIN, OURS, ALONE)
CLAIMED = (HRKD, STUDENTS[0], STUDENTS[-1], PLAIN, OURS, ALONE)  # those that claims compare
OF_DOMAINS = ", a checkpoint a domain"
# The teachers of section 3.2, and the student alone, by how batches are made of their domains' texts.
ORDERS = {
    SINGLE: "mixed",  # a teacher a domain
    MIX: "mixed",  # one for all domains, which it does not tell apart
    MTL: "turns",  # a shared encoder with a head a domain, one domain a batch (Liu et al. 2019)
    META: "mixed",  # typical texts weigh more, and domains are hidden (Pan et al. 2020)
    HRKD: "together",  # a shared encoder with a head a domain, all domains in every step (section 2.1)
    ALONE: "together",  # the student's encoder, trained as HRKD-teacher is, for as long as a student with a teacher
}
# The rows of Table 4 by what of the relations they switch off, and below them ours.
ABLATIONS = {
    "HRKD": {},
    "- Self-attention": {"self_attention": False},
    "- Comp-Agg": {"self_attention": False, "compare": False},
    "- Hierarchical Rel.": {"self_attention": False, "compare": False, "hierarchy": False},
    "- Domain Rel.": None,
}
# Rows of ours by what they switch of the preset's settings.
VARIANTS = {
    "dropout in the graph": {"graph_dropout": 0.1},
    "nodes keep their features": {"graph_residual": True},
    "graph not trained": {"train_graph": False},
    "no gradient through ratios": {"steer": False},
    "padding counts": {"padding": True},
    "probabilities matched": {"attention": "probabilities"},
}
Models = dict[str, ClassifierTraining]  # by domain


def compared(preset: Preset, corpus: str, seed: int, rows: tuple[str, ...]) -> Plan:
    """Rows of Tables 2 and 3 (sections 3.2, 3.4), and a student without a teacher: each row's model of each domain."""
    check_pair(preset.hrkd.student, preset.encoder)
    domains = list(getattr(preset, corpus).domains)
    wanted = {row.partition(" → ")[0] for row in rows}
    made = {name: by_labels(preset, corpus, seed, name, domains) for name in ORDERS if name in wanted}
    for name in (name for name in rows if "→" in name):
        teacher = made[name.partition(" → ")[0]]
        if name in (PLAIN, OURS):
            switched_off = None if name == PLAIN else {}
            made[name] = alike(together(preset, corpus, seed, name, teacher, switched_off), domains)
        else:
            made[name] = {d: student(preset, corpus, seed, name, [d], teacher[d]) for d in domains}
    made = {name: made[name] for name in ROWS if name in made}
    yield [model for models in made.values() for model in models.values()]
    return {name: models for name, models in made.items() if name in rows}


def together(
    preset: Preset, corpus: str, seed: int, label: str, teacher: Models, switched_off: dict | None
) -> StudentTraining:
    """One student of all domains: TinyBERT-KD without relations (``switched_off`` is None), else HRKD, but for what is
    switched off of these (Eq. 17)."""
    known, relations = preset.hrkd, None
    if switched_off is not None:
        graph = {"heads": known.heads, "graph_width": known.graph_width, **switched_off}
        graph |= {"dropout": known.graph_dropout} if known.graph_dropout else {}
        graph |= {"residual": True} if known.graph_residual else {}
        relations = {"shape": graph, "train": known.train_graph, "steer": known.steer}
    return student(preset, corpus, seed, label, list(teacher), next(iter(teacher.values())), relations)


def by_labels(preset: Preset, corpus: str, seed: int, name: str, domains: list[str]) -> Models:
    """A teacher of section 3.2, or the student alone: its model of each domain."""
    if name == SINGLE:
        return {d: classifier(preset, corpus, seed, name, [d], ORDERS[name]) for d in domains}
    parts = {META: {"meta": preset.hrkd.corruption_weight}, ALONE: {"encoder": "student"}}.get(name, {})
    return alike(classifier(preset, corpus, seed, name, domains, ORDERS[name], **parts), domains)


def plans(preset: Preset) -> dict[tuple[str, int], Plan]:
    """What Tables 2 and 3 need, by (section of the corpus, seed)."""
    others = preset.hrkd.other_seeds or preset.seeds
    return {
        (corpus, seed): compared(preset.drawn(seed), corpus, seed, ROWS if seed < others else CLAIMED)
        for corpus in corpora(preset)
        for seed in range(preset.seeds)
    }


def main_plans(preset: Preset) -> dict[tuple, Plan]:
    """What Tables 2 and 3 need, and accuracy against size."""
    of_sizes = sized(preset) if "reviews" in corpora(preset) else {}
    return plans(preset) | {("layers", *key): plan for key, plan in of_sizes.items()}


def sized(preset: Preset) -> dict[tuple[int, int], Plan]:
    """Students of other sizes, trained as those of Table 3, by (layers of the teacher's that they begin as, seed)."""
    return {
        (layers, seed): compared(of_layers(preset, layers).drawn(seed), "reviews", seed, (HRKD, OURS))
        for layers in preset.hrkd.sizes
        for seed in range(preset.seeds)
    }


def of_layers(preset: Preset, layers: int) -> Preset:
    """The preset with a student that begins as so many layers of the teacher's encoder."""
    return preset.changed("hrkd", student="", student_layers=layers)


def few_shot(preset: Preset) -> dict[tuple[float, int], Plan]:
    """What Figure 2 needs (section 3.5), by (share of the training texts, seed)."""
    corpus = preset.hrkd.few_shot
    rows = (f"{SINGLE} → {KD}", f"{META} → Meta-distillation", OURS)
    return {
        (share, seed): compared(reduced(preset.drawn(seed), corpus, share), corpus, seed, rows)
        for share in preset.hrkd.shares
        for seed in range(preset.seeds)
    }


def reduced(preset: Preset, corpus: str, share: float) -> Preset:
    """The preset with a share of the corpus's training texts, from the front (section 3.3)."""
    return preset.changed(corpus, train_share=share)


def ablations(preset: Preset, corpus: str = "reviews") -> dict[tuple[str, int], Plan]:
    """What Tables 4 to 6 need, by (row, seed): HRKD without its parts (section 3.6), and with our switches."""
    domains = list(getattr(preset, corpus).domains)

    def plan(row: str, seed: int) -> Plan:
        drawn = preset.drawn(seed)
        switched = drawn.changed("hrkd", **VARIANTS.get(row, {}))
        teacher = by_labels(drawn, corpus, seed, HRKD, domains)
        made = together(switched, corpus, seed, row, teacher, ABLATIONS.get(row, {}))
        yield [*teacher.values(), made]
        return made

    return {(row, seed): plan(row, seed) for row in (*ABLATIONS, *VARIANTS) for seed in range(preset.seeds)}


def classifier(
    preset: Preset,
    corpus: str,
    seed: int,
    label: str,
    domains: list[str],
    order: str,
    encoder: str = "teacher",
    **parts,
) -> TeacherTraining:
    """The config of one training on labels."""
    of_student, epochs = encoder == "student", preset.training.epochs
    settings = settings_of(preset, corpus, domains if not parts.get("meta") else None)
    if of_student:
        settings, epochs = student_settings(preset, corpus, settings), preset.hrkd.epochs
    return TeacherTraining(
        preset=preset,
        label=named(label, domains, seed),
        corpus=corpus,
        domains=domains,
        order=order,
        encoder=encoder,
        one_head=of_student and preset.hrkd.one_head,
        seed=seed,
        steps=steps_of(preset, corpus, domains, order, epochs),
        settings=settings,
        **parts,
    )


def student(
    preset: Preset,
    corpus: str,
    seed: int,
    label: str,
    domains: list[str],
    teacher: ClassifierTraining,
    relations: dict | None = None,
) -> StudentTraining:
    """The config of one distillation: of one domain alone, or of all together."""
    known, meta = preset.hrkd, bool(getattr(teacher, "meta", 0.0))
    settings = student_settings(preset, corpus, settings_of(preset, corpus, None if meta else domains))
    return StudentTraining(
        preset=preset,
        label=named(label, domains, seed),
        corpus=corpus,
        domains=domains,
        order="together",
        one_head=known.one_head,
        seed=seed,
        steps=steps_of(preset, corpus, domains, "together", known.epochs),
        settings=settings,
        teacher=teacher.key,
        matching=known.model_dump(include={"gamma", "temperature", "attention", "padding"}),
        relations=relations,
        meta=meta,
    )


def steps_of(preset: Preset, corpus: str, domains: list[str], order: str, epochs: float) -> int:
    """Steps of so many epochs over the training texts of these domains."""
    known = load_texts(getattr(preset, corpus))
    return steps_for([len(known[name].train) for name in domains], order, preset.training.batch_size, epochs)


def settings_of(preset: Preset, corpus: str, domains: list[str] | None) -> dict:
    """What a model of some domains (None: all take part) depends on besides its seed, steps and teacher."""
    texts = getattr(preset, corpus)
    return {
        "encoder": encoder_fingerprint(preset.encoder),
        "random_layers": preset.random_layers,
        "texts": {name: fingerprint(texts, name, "train", "valid") for name in domains or texts.domains},
        "labels": list(label_names(texts)),
        "max_length": texts.max_length,
        "training": preset.training.model_dump(exclude={"epochs", "checkpoint_minutes"}),
    }


def student_settings(preset: Preset, corpus: str, settings: dict) -> dict:
    """The same of a student, which has a learning rate of its own and a start."""
    known = preset.hrkd
    training = settings["training"] | {"learning_rate": getattr(known, f"{corpus}_learning_rate")}
    start = {"student": encoder_fingerprint(known.student)} if known.student else {"layers": known.student_layers}
    return {**settings, "training": training, "start": start}


def corpora(preset: Preset) -> list[str]:
    """The sections of those corpora that the preset has."""
    return [corpus for corpus in CORPORA if getattr(preset, corpus).is_given]


def alike(model: ClassifierTraining, domains: list[str]) -> Models:
    """One model for all domains."""
    return dict.fromkeys(domains, model)


def named(label: str, domains: list[str], seed: int) -> str:
    """What a person calls a training."""
    return f"{label}, {' + '.join(domains)}, seed {seed}"
