"""Distillation and multi-task training of readers and text classifiers: five papers over one thin package.

Public names, which dir(helpers) lists; others may change. Classes have help of their own: help(helpers.Training).

- load_reader loads a trained reader from a folder, from the Hub or by its training's name. run executes notebooks.
- metrics.f1 and metrics.exact_match score an answer from 0 to 1, metrics.score many in percent. UserError is raised
  where files, presets or models cannot be used.
- fit trains a model by a loss with TrainingSettings. Training makes model, batches and loss from a preset
  (load_preset), single_readers such Trainings for IMM's Single. A Teacher adds to their batches.

>>> load_reader("deepset/minilm-uncased-squad2").answer("Who leads Gamma?", "Ada Bell leads Gamma.").text
'Ada Bell'
>>> run(["02"], {"preset": "mini", "seeds": 5})  # 0: all notebooks succeeded
0
>>> metrics.f1("Ada", ["Ada Bell"]), issubclass(UserError, ValueError)
(0.6666666666666666, True)

Losses have a value per example. Those on spans take start and end, here of a window of 3 tokens. What a paper adds up
of them is in its module of losses, such as helpers.papers.a2d.losses. The three cross-entropies differ in what they
take of the teacher: soft_cross_entropy its probabilities at a temperature, class_cross_entropy its logits and a
temperature, soft_target_cross_entropy its probabilities, with no temperature.

>>> import torch
>>> student = torch.tensor([[0.0, 2.0, 0.0]]), torch.tensor([[0.0, 2.0, 0.0]])
>>> teacher = torch.tensor([[0.0, 3.0, 0.0]]), torch.tensor([[0.0, 3.0, 0.0]])
>>> gold, mask = (torch.tensor([1]), torch.tensor([1])), torch.ones(1, 3)  # 0 at padding, where A2D's q is 0
>>> gold_divergence(student, teacher, gold, mask)  # IMM, Eqs. 5 and 9
tensor([0.0300])
>>> 2**2 * soft_cross_entropy(student, tuple((side / 2).softmax(-1) for side in teacher), mask, 2)  # A2D, section 3.1
tensor([6.8800])
>>> confusion_margin(student, gold, (torch.tensor([2]), torch.tensor([2])))  # A2D, section 3.2
tensor([0.])
>>> attention_distance(torch.zeros(1, 2, 2), torch.ones(1, 2, 2))  # A2D, section 3.3
tensor([2.])
>>> level_distance(torch.zeros(1, 3, 4), torch.ones(1, 3, 4), mask)  # HRKD, Eqs. 1 and 4
tensor([1.])
>>> class_cross_entropy(torch.zeros(1, 2), torch.zeros(1, 2), 1.0)  # HRKD, Eq. 2
tensor([0.6931])
>>> score_distance((torch.zeros(1, 1, 3, 2),) * 2, (torch.ones(1, 1, 3, 2),) * 2, mask, mask)  # HRKD, Eq. 3
tensor([4.])
>>> soft_target_cross_entropy(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]]))  # MT-DNN with distillation, Eq. 4
tensor([0.6931])

Train any model by any loss. ``micro_batches`` yields (share, batch); shares add up to 1. A `Training` makes them:

>>> class Steps(list):
...     def micro_batches(self, step, number, device, multiple):
...         yield 1.0, {name: part.to(device) for name, part in self[step].items()}
>>> model, settings = torch.nn.Linear(3, 2), TrainingSettings(learning_rate=1e-3, batch_size=8, epochs=1)
>>> model.inputs = ("input",)  # what forward takes of a batch
>>> fit(model, Steps([{"input": torch.eye(3)}] * 5), lambda y, *_: {"size": y.square().mean()}, settings, seed=0).steps
5
>>> reader = single_readers(load_preset("smoke"), 0)["news"]  # a Training: preset, seed, model, data, optim, loss, ...
>>> (batches := reader.batches()).teachers.append(lambda batch: {"teacher_start": batch["start"]})  # see Teacher
>>> fit(reader.build(), batches, reader.loss, settings, seed=0).steps == len(batches)
True
"""

import os
from importlib import import_module

# Threads that wait sleep: spinning takes the cores from others. GNU's OpenMP reads the first, LLVM's the second.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

__version__ = "1.0.0"

PUBLIC = {  # by name: the module, or its function or class, as torch and transformers take seconds to import
    "load_reader": "helpers.answering:load_reader",
    "run": "helpers.notebooks.runner:run",
    "UserError": "helpers.errors:UserError",
    "metrics": "helpers.metrics:",
    "load_preset": "helpers.presets.load:load_preset",
    "fit": "helpers.loop:fit",
    "TrainingSettings": "helpers.presets.schema:TrainingSettings",
    "Training": "helpers.training:Training",
    "Teacher": "helpers.training:Teacher",
    "single_readers": "helpers.papers.imm.algorithm:single_readers",
    "gold_divergence": "helpers.papers.imm.losses:gold_divergence",
    "soft_cross_entropy": "helpers.papers.a2d.losses:soft_cross_entropy",
    "confusion_margin": "helpers.papers.a2d.losses:confusion_margin",
    "attention_distance": "helpers.papers.a2d.losses:attention_distance",
    "level_distance": "helpers.papers.hrkd.losses:level_distance",
    "class_cross_entropy": "helpers.papers.hrkd.losses:class_cross_entropy",
    "score_distance": "helpers.papers.hrkd.losses:score_distance",
    "soft_target_cross_entropy": "helpers.papers.mtdnn_kd.losses:soft_target_cross_entropy",
}
__all__ = sorted(name for name in PUBLIC if name.islower() and name != "metrics")  # functions, for help(helpers)


def __getattr__(name: str) -> object:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=import_module(__name__))
    module, _, attribute = PUBLIC[name].partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)


def __dir__() -> list[str]:
    return sorted(PUBLIC)
