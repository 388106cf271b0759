import warnings

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig

from helpers.batches.packed import MULTIPLE, packing
from helpers.batches.plans import Batches, TaskBatches, bucketed, plan_steps
from helpers.batches.sequences import make_choices, make_pairs, make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data.examples import Choice, Pair
from helpers.data.mini import domains
from helpers.models import dropout, varlen
from helpers.models.attention import keep_attention
from helpers.models.multitask import Head, new_multitask
from helpers.models.pretrained import HEADS, load_encoder, load_tokenizer
from helpers.models.unpadded import STACKS, can_skip_padding, skip_padding, skips_padding
from helpers.presets.schema import TrainingSettings
from helpers.tasks import labels, spans
from helpers.training import losses, trace
from helpers.training.loop import fit, forward
from helpers.training.teachers import StoredTeacher

SETTINGS = TrainingSettings(learning_rate=1e-3, batch_size=8, epochs=1.0, precision="fp32", evaluations=1)
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48}


@pytest.fixture(scope="module")
def windows():
    examples = domains.load_domain("news", train_size=40).train
    return make_windows(examples, load_tokenizer("data/mini"), max_length=96, stride=32)


def small(kind, head):
    """A random encoder of a type, without dropout, that reads the miniature vocabulary."""
    sizes = {"dim": 32, "n_heads": 2, "n_layers": 2, "hidden_dim": 48} if kind == "distilbert" else SMALL
    config = AutoConfig.for_model(
        kind, vocab_size=len(load_tokenizer("data/mini")), pad_token_id=0, max_position_embeddings=130, **sizes
    )
    config.type_vocab_size = 2
    torch.manual_seed(0)
    model = HEADS[head].from_config(config, attn_implementation=dropout.NAME, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():  # 0.02 is so near 0 that a wrong attention would hardly show
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    return model.eval()


def sequences_of(head, windows):
    tokenizer = load_tokenizer("data/mini")
    texts = [example.question for example in windows.examples[:12]]
    if head == "labels":
        pairs = [Pair(str(n), text, text[: 7 * n + 5], n % 2) for n, text in enumerate(texts)]
        return make_pairs(pairs, tokenizer)
    if head == "choices":
        choices = [Choice(str(n), text, (text[: 7 * n], "no", text), n % 3) for n, text in enumerate(texts)]
        return make_choices(choices, tokenizer)
    return windows


def batch_of(head, windows):
    return SequenceTensors(sequences_of(head, windows)).gather(np.arange(8))


def logits_of(output, batch):
    """Logits where there is a token, or of the whole."""
    if "logits" in output:
        return output.logits
    return torch.stack([output.start_logits, output.end_logits]) * batch["attention_mask"]


def test_packed_tokens_are_the_real_ones_in_order_and_go_back_where_they_were():
    lengths, values = torch.tensor([3, 1, 8, 5]), torch.randn(4, 8, 6)
    how = packing(lengths, 8, torch.device("cpu"))
    packed = how.pack(values)
    real = torch.arange(8) < lengths[:, None]
    assert packed.shape == (1, MULTIPLE, 6) and torch.equal(packed[0, : how.total], values[real])
    assert how.edges.tolist() == [0, 3, 4, 12, 17, MULTIPLE] and how.edges.dtype == torch.int32
    assert how.longest == MULTIPLE - 17
    assert torch.equal(how.unpack(packed), values * real[..., None])


def test_there_is_always_filling_and_its_size_changes_the_shape_in_steps():
    shapes = {len(packing(torch.tensor([n, 1]), 3 * MULTIPLE, torch.device("cpu")).place_T) for n in range(1, 300)}
    assert shapes == {MULTIPLE, 2 * MULTIPLE, 3 * MULTIPLE}
    full = packing(torch.tensor([MULTIPLE]), MULTIPLE, torch.device("cpu"))
    assert len(full.place_T) == 2 * MULTIPLE and full.longest == MULTIPLE


def test_attention_stays_within_each_row():
    torch.manual_seed(0)
    lengths = torch.tensor([5, 2, 7])
    how = packing(lengths, 8, torch.device("cpu"))
    query, key, value = torch.randn(3, 1, 2, len(how.place_T), 4)
    found = varlen.attention(query, key, value, how, 0.0, 0.5)
    for begin, end in zip(how.edges[:-1].tolist(), how.edges[1:].tolist(), strict=True):
        alone = [each[:, :, begin:end] for each in (query, key, value)]
        expected = torch.nn.functional.scaled_dot_product_attention(*alone, scale=0.5).transpose(1, 2)
        assert torch.allclose(found[:, begin:end], expected, atol=1e-6)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_kernel_is_tried_before_it_is_trusted(mode):
    cpu = torch.device("cpu")

    def leaks(query, key, value, edges, longest, dropout, scaling):
        return varlen.spelt_out(query, key, value, edges[[0, -1]], longest, dropout, scaling)

    def stands_still(query, *others):
        return varlen.spelt_out(query.detach(), *others)

    with mode(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert varlen.is_right(varlen.spelt_out, cpu) and not varlen.has_kernel(cpu)
    with mode():
        for function, said in (
            (leaks, "is off here"),
            (stands_still, "does not work here"),
            (varlen.fused, "does not work"),
        ):
            with pytest.warns(UserWarning, match=said):
                assert not varlen.is_right(function, cpu)


@pytest.mark.parametrize("head", ["spans", "labels", "choices"])
@pytest.mark.parametrize("kind", STACKS)
def test_every_kind_says_without_padding_what_it_says_with_it(windows, kind, head):
    batch, padded, free = batch_of(head, windows), small(kind, head), small(kind, head)
    assert can_skip_padding(free) and skips_padding(skip_padding(free)) and not skips_padding(padded)
    assert int((batch["attention_mask"] == 0).sum()) > 0
    seen = []
    layer = next(module for name, module in free.named_modules() if name.endswith("layer.1"))
    layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape))
    outputs = [forward(model, batch, "fp32") for model in (padded, free)]
    tokens = int(batch["lengths"].sum())
    assert seen == [(1, (tokens // MULTIPLE + 1) * MULTIPLE, 32)]
    one, other = (logits_of(output, batch) for output in outputs)
    assert torch.allclose(one, other, rtol=1e-4, atol=1e-4) and one.std() > 0.1
    for logits in (one, other):
        (logits.tanh() * torch.arange(logits.numel()).view_as(logits) / logits.numel()).sum().backward()
    for (name, expected), found in zip(padded.named_parameters(), free.parameters(), strict=True):
        if expected.grad is not None and "key.bias" not in name and "k_lin.bias" not in name:  # whose gradient is 0
            assert torch.allclose(expected.grad, found.grad, rtol=1e-3, atol=1e-4 * expected.grad.abs().max()), name


def test_a_model_may_be_told_to_read_padding_again(windows):
    batch, model = batch_of("spans", windows), skip_padding(small("bert", "spans"))
    skip_padding(skip_padding(model, False))
    assert len(model.bert.encoder._forward_hooks) == 1  # no second set
    seen = []
    model.bert.encoder.layer[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape[0]))
    for skip in (True, False, True):
        forward(skip_padding(model, skip), batch, "fp32")
    forward(model, batch, "fp32", output_hidden_states=True)  # asks for what is inside, which is padded
    assert seen == [1, 8, 1, 8]


def test_what_attention_is_kept_of_stays_padded(windows):
    model = keep_attention(skip_padding(small("bert", "spans")))
    assert not can_skip_padding(model) and not skips_padding(model)
    batch = batch_of("spans", windows)
    assert len(forward(model, batch, "fp32").attention) == 8


def test_other_widths_and_kinds_stay_padded():
    config = AutoConfig.for_model("bert", **{**SMALL, "hidden_size": 20}, vocab_size=50)
    assert not can_skip_padding(HEADS["spans"].from_config(config))
    assert not can_skip_padding(torch.nn.Linear(2, 2))


def test_a_model_of_many_tasks_leaves_out_padding_for_each(windows):
    heads = {"squad": Head("spans"), "pairs": Head("labels"), "answers": Head("labels", san=True)}
    tensors = {task: SequenceTensors(sequences_of(head.kind, windows)) for task, head in heads.items()}
    plan = [(task, np.arange(8)) for task in heads]
    model = new_multitask("data/mini", heads, seed=0, random_layers=2).eval()
    batches = [TaskBatches(tensors, plan).at(step) for step in range(len(plan))]
    expected = [logits_of(forward(model, batch, "fp32"), batch) for batch in batches]
    seen = []
    model.shared.encoder.layer[1].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape[0]))
    assert can_skip_padding(model)
    skip_padding(model)
    for batch, logits in zip(batches, expected, strict=True):
        assert torch.allclose(logits_of(forward(model, batch, "fp32"), batch), logits, atol=1e-5)
    assert seen == [1, 1, 1]


def reader():
    torch.set_num_threads(1)
    model = load_encoder("data/mini", seed=0, random_layers=2)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def batches_of(windows, steps=12):
    return Batches(SequenceTensors(windows), plan_steps(bucketed(windows.lengths_W, batch_size=8, seed=1), steps))


def test_a_training_without_padding_loses_what_one_with_it_does(windows):
    settings = SETTINGS.model_copy(update={"accumulate": 2})
    found = [
        fit(reader(), batches_of(windows), spans.loss, settings, seed=0, padding_free=free, validate=validate)
        for free in (False, True)
        for validate in [lambda model: float(np.abs(spans.predict(model.eval(), windows).start).sum())]
    ]
    curves = [[point[2]["likelihood"] for point in done.curve] for done in found]
    assert np.allclose(*curves, rtol=0, atol=1e-3) and curves[0][-1] < curves[0][0] - 0.2
    assert found[1].best_score == pytest.approx(found[0].best_score, rel=1e-3)


def test_on_a_cpu_nothing_is_packed_unless_asked(windows):
    model = reader()
    fit(model, batches_of(windows, 1), spans.loss, SETTINGS, seed=0)
    assert not skips_padding(model) and not model.bert.encoder._forward_hooks


WAITS = "_local_scalar_dense nonzero is_nonzero equal masked_select bincount _unique2 unique_dim".split()


class Waits(TorchDispatchMode):
    """Counts the operations at which a host would wait for its device."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, arguments=(), others=None):
        if (name := function.overloadpacket.__name__) in WAITS:
            self.seen.append(name)
        return function(*arguments, **(others or {}))


def steps_that_wait(batches, loss, model):
    """How many operations of each step, after the first, the host would have to wait for."""
    seen = []

    def watched(output, batch, progress):
        seen.append(len(waits.seen))
        return loss(output, batch, progress)

    with Waits() as waits:
        fit(model, batches, watched, SETTINGS, seed=0, padding_free=True)
    return np.diff(seen).tolist()


def test_no_step_waits_for_the_device(windows):
    assert len(batches_of(windows)) < trace.READ_EVERY
    batches, tokens = batches_of(windows), int(windows.lengths_W.sum())
    stored = StoredTeacher(batches.tensors, of_sequences={"sure": torch.rand(len(windows))},
                           of_tokens={side: torch.randn(tokens).half() for side in ("start", "end")})  # fmt: skip
    batches.teachers.append(stored)

    def loss(output, batch, progress):
        sides = (output.start_logits, output.end_logits), (batch["teacher_start"], batch["teacher_end"])
        gaps = losses.probability_divergence(*sides, (batch["start"], batch["end"]), batch["attention_mask"])
        of_two = losses.of_domains(gaps, batch["start"] % 2, 2).sum()
        return spans.loss(output, batch, progress) | {"gap": losses.mean(gaps, batch["teacher_sure"]) + of_two}

    assert steps_that_wait(batches, loss, reader()) == [0] * 11


def test_that_such_a_wait_would_be_seen(windows):
    def loss(output, batch, progress):
        return {"bad": output.start_logits.mean() * float(output.end_logits.mean() > 0)}

    assert steps_that_wait(batches_of(windows), loss, reader()) == [1] * 11


def test_a_classifiers_step_does_not_wait_either(windows):
    sequences = sequences_of("labels", windows)
    plan = plan_steps(bucketed(sequences.lengths_W, batch_size=4, seed=1), 5)
    model = load_encoder("data/mini", "labels", seed=0, random_layers=1)
    assert steps_that_wait(Batches(SequenceTensors(sequences), plan), labels.loss, model) == [0] * 4


def test_kept_attention_and_answer_networks_know_the_longest_texts_beforehand(windows):
    def attended(output, batch, progress):
        return {"mean": output.attention.square().mean()}

    assert steps_that_wait(batches_of(windows, 5), attended, keep_attention(reader())) == [1] * 4  # the mask, on a CPU
    tensors = {"pairs": SequenceTensors(sequences_of("labels", windows))}
    model = new_multitask("data/mini", {"pairs": Head("labels", san=True)}, seed=0, random_layers=1)
    plan = [("pairs", np.arange(4) + step) for step in range(5)]
    assert steps_that_wait(TaskBatches(tensors, plan), labels.loss, model) == [0] * 4
