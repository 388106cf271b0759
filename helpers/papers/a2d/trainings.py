"""What A2D learns from: a training question on its way through Eq. 1, and the disk that an ensemble's outputs take."""

import shutil

import numpy as np
import pandas as pd
import torch
from pandas.io.formats.style import Styler

from helpers.batches.sequences import Windows
from helpers.models.attention import keep_attention
from helpers.papers import examples
from helpers.presets.schema import Preset
from helpers.tasks import spans
from helpers.tasks.distilled import DistilledReader, joint_loss
from helpers.tasks.ensembles import knowledge_bytes


def example(student: DistilledReader, number: int = 0) -> Styler:
    """A training question, the ``number``-th that has a confusing answer, on its way through a student's loss: the
    terms of Eq. 1, none weighted. Where none has one, that whose window holds its answer."""
    windows, batches = training_windows(student.preset), student.batches()
    confusing = batches.teachers[0].of_sequences.get("confusing_start", torch.zeros(1)).cpu().numpy()
    loss = joint_loss(dict.fromkeys(student.terms, 1.0), student.temperature)
    return examples.of_question(
        *(student, windows, int(np.flatnonzero(confusing if confusing.any() else windows.labels["start"])[number])),
        *(batches, lambda output, batch: loss(output, batch, 1.0)),
        answers={"right": "", **({"confusing": "teacher_confusing_"} if confusing.any() else {})},
        temperature=student.temperature,
        prepare=keep_attention if "ATT" in student.terms else lambda model: model,
    )


def storage(preset: Preset) -> pd.DataFrame:
    """What an ensemble's outputs on the training questions will take on the disk, and what is free there."""
    windows, folder = training_windows(preset), preset.models
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"outputs of one ensemble": knowledge_bytes(windows), "free": shutil.disk_usage(folder).free}
    table = {name: f"{size / 1e6:,.1f} MB" for name, size in sizes.items()}
    return pd.DataFrame([{"windows": f"{len(windows):,}", **table}], index=[", ".join(preset.data.domains)])


def training_windows(preset: Preset) -> Windows:
    """The windows that readers are trained on and an ensemble is asked about."""
    return spans.windows_of(preset, sorted(preset.data.domains), "train")
