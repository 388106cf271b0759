"""Every example and every window that the presets give, against hashes in golden/fingerprints.json.

A hash covers ids, texts, answers, spans, labels and their order, and no class of the package. Write the file anew,
after a change that is meant, with ``python tests/test_fingerprints.py``; it needs the corpora of ../shared/data.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.data.examples import Choice, Pair
from helpers.data.load import ADVERSARIAL_SETS, load, question_set, state_overlaps
from helpers.models.encoders import load_tokenizer
from helpers.pairs import make_choices, make_pairs
from helpers.presets import load as presets
from helpers.sequences import make_windows

GOLDEN = Path(__file__).parent / "golden/fingerprints.json"
SHARED = Path(__file__).parents[2] / "shared"
FIELDS = ("id", "question", "context", "answers", "span", "group", "first", "second", "endings", "label")
PARTS = ("train", "valid", "test", "unlabelled")
USES = {  # the sections of a preset that a paper's notebooks read
    "imm": ("data",),
    "a2d": ("data",),
    "hrkd": ("mnli", "reviews"),
    "hrkd_fewshot": ("mnli", "reviews"),
    "mtdnn_kd": ("tasks",),
    "mtdnn": ("data", "tasks"),
}
PAPERS = {"smoke": USES, "mini": USES, "lab": ("imm", "hrkd", "mtdnn_kd", "mtdnn")}
SEEDS = {"smoke": 0, "mini": 0, "lab": 1}  # one draw of each preset
WINDOWED = 60  # training examples, of which windows are compared
FOLDERS = {"data": "data/qa", "mnli": "data/nlu/mnli-genres", "reviews": "data/nlu/amazon-reviews", "tasks": "data/nlu"}


def hash_of(content: object) -> str:
    text = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
    return hashlib.sha256(text).hexdigest()[:12]


def examples_hash(*parts: list) -> str:
    return hash_of([[[getattr(e, name) for name in FIELDS if hasattr(e, name)] for e in part] for part in parts])


def windows_hash(windows) -> str:
    ids = [windows.token_ids(row).tolist() for row in range(len(windows) * windows.choices)]
    return hash_of([ids, windows.example_W.tolist(), {name: repr(v.tolist()) for name, v in windows.labels.items()}])


def windows_of(preset, section: str, examples: list):
    tokenizer, settings = load_tokenizer(preset.encoder), getattr(preset, section)
    if section == "data":
        return make_windows(examples, tokenizer, **preset.windows.model_dump(), seed=settings.seed)
    if isinstance(examples[0], Choice):
        return make_choices(examples, tokenizer, settings.max_length)
    scores = isinstance(examples[0], Pair) and isinstance(examples[0].label, float)
    return make_pairs(examples, tokenizer, settings.max_length, scores=scores)


def drawn_presets(name: str) -> Iterator[tuple[str, object]]:
    """The preset as each paper takes it and one seed draws it, by paper."""
    changes = {}
    if name == "lab":
        changes = {f"{section}.folder": str(SHARED / folder) for section, folder in FOLDERS.items()}
        changes["encoder"] = str(SHARED / "models/all-MiniLM-L6-v2")
    for paper in PAPERS[name]:
        topics = ("hrkd", paper) if paper == "hrkd_fewshot" else (paper,)
        preset = presets.load_preset(name, *topics, **changes)
        yield paper, preset.for_seed(SEEDS[name])


def fingerprints(name: str) -> dict[str, dict[str, str]]:
    """Hashes of a preset's domains, question sets and windows, by paper; what an earlier paper has already is left
    out."""
    seen, hashes = set(), {}
    for paper, preset in drawn_presets(name):
        for section in USES[paper]:
            settings = getattr(preset, section)
            if settings in seen:
                continue
            seen.add(settings)
            parts = hashes.setdefault(f"{paper}, {section}", {})
            for domain in settings.named:
                examples = load(settings, domain)
                parts[domain] = examples_hash(*(getattr(examples, part, []) for part in PARTS))
                parts[f"{domain}, windows"] = windows_hash(windows_of(preset, section, examples.train[:WINDOWED]))
            if section == "data":
                # Readers of questions that may lack an answer are never asked adversarial ones.
                sets = (
                    "valid",
                    "test",
                    *(ADVERSARIAL_SETS if settings.adversarial and not settings.unanswerable else ()),
                )
                parts |= {f"set {name}": examples_hash(question_set(settings, name)) for name in sets}
                if settings.narrative and settings.source == "mini":
                    stories = settings.model_copy(
                        update={"domains": {"stories": settings.narrative}, "adversarial": None}
                    )
                    examples = load(stories, "stories")
                    parts["stories"] = examples_hash(*(getattr(examples, part) for part in PARTS[:3]))
    return hashes


@pytest.mark.parametrize("name", SEEDS)
def test_examples_and_windows_are_as_before(name):
    if name == "lab" and not SHARED.is_dir():
        pytest.skip("no real data: ../shared is not there")
    assert fingerprints(name) == json.loads(GOLDEN.read_text())[name]


@pytest.mark.parametrize("name", ["smoke", "mini"])
def test_the_miniature_world_has_no_overlap(name):
    for paper, preset in drawn_presets(name):
        for section in USES[paper]:
            assert state_overlaps(getattr(preset, section)) == []


if __name__ == "__main__":
    hashes = {name: fingerprints(name) for name in SEEDS}
    GOLDEN.write_text(json.dumps(hashes, indent=1, ensure_ascii=False) + "\n")
