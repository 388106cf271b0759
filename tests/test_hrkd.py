"""HRKD: losses worked by hand, who teaches whom, trainings and tables on the smallest miniature texts."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import are_alike, flip
from safetensors.torch import save_file
from torch.nn import functional
from transformers import AlbertConfig, AutoModelForSequenceClassification, BertTokenizerFast, pipeline

from helpers import engine
from helpers.classification import save_domain
from helpers.data.examples import Pair
from helpers.errors import EncoderError
from helpers.loop import forward
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.models.multihead import MultiHead, copy_domain
from helpers.pairs import make_pairs
from helpers.papers import hrkd, model_folders
from helpers.papers.hrkd import algorithm, losses, ratios, tables
from helpers.papers.hrkd.algorithm import ALONE, HRKD, META, OURS, PLAIN, ROWS, SINGLE, STUDENTS, LiveTeacher
from helpers.papers.hrkd.meta_kd import instance_weights
from helpers.papers.hrkd.relations import Relations
from helpers.papers.hrkd.tinybert import (
    TinyBertStudent,
    check_pair,
    keep_layers,
    keep_scores,
    load_student,
    match_layers,
)
from helpers.presets.load import load_preset
from helpers.presets.schema import HrkdSettings
from helpers.records import Record
from helpers.sequences import collate
from helpers.task import DamagedFile
from helpers.training import Training

DOMAINS = ("books", "films", "kitchen")
TEXTS = ["Ada was born in Millford.", "Bela lives there", "A river runs by the town and the school.", "No"]


def smoke(**changes):
    return load_preset("smoke", "hrkd", **{"seeds": 1, **changes})


def name(preset, row):
    """The model of the first domain of reviews."""
    return next(iter(algorithm.model_trainings(preset, "reviews", 0, row).values()))


def run(plan, preset):
    return engine.run(plan, preset.engine)


def batch(domains=(0, 0, 1, 1)):
    examples = [Pair(str(n), text, None, n % 2) for n, text in enumerate(TEXTS)]
    pairs = make_pairs(examples, load_tokenizer("data/mini"), 32)
    pairs.labels["domain"] = np.asarray(domains, np.int32)
    return collate(pairs, np.arange(4))


def encoder(classes=4, **settings):
    return load_encoder("data/mini", "labels", **{"seed": 0, "classes": classes, **settings})


def of_two_domains(model):
    """A classifier with a head of two classes for each of two domains."""
    return MultiHead({"reviews": model}, DOMAINS[:2])


def with_outputs(teacher, inputs, precision="fp32"):
    """A batch with the outputs of a teacher of two domains."""
    fields = {"levels": "hidden_states", "attention": "attentions_kept", "logits": "logits"}
    live = LiveTeacher(of_two_domains(teacher).eval(), fields, {"output_hidden_states": True}, precision)
    return inputs | live(inputs)


def loss(output, inputs, **settings):
    settings = HrkdSettings(**settings).model_dump(include={"gamma", "temperature", "padding"})
    return losses.distillation_loss(output, inputs, domains=2, **settings)


def test_distances_by_hand():
    student, teacher = torch.tensor([[[1.0, 2.0], [9.0, 9.0]]]), torch.tensor([[[3.0, 2.0], [0.0, 0.0]]])
    real, every = torch.tensor([[1, 0]]), torch.ones(1, 2, dtype=torch.long)
    assert losses.level_distance(student, teacher, real).tolist() == [2.0]  # (4 + 0) / 2
    assert losses.level_distance(student, teacher, every).tolist() == [(2 + 81) / 2]


def test_distance_of_scores_by_hand_and_as_the_scores_themselves_have_it():
    query, key = torch.tensor([[[[2.0], [1.0]]]]), torch.tensor([[[[3.0], [5.0]]]])  # scores 6, 10 and 3, 5
    zeros, every = [torch.zeros(1, 1, 2, 1)] * 2, torch.ones(1, 2, dtype=torch.long)
    assert losses.score_distance((query, key), zeros, every, every).tolist() == [(36 + 100 + 9 + 25) / 4]
    assert losses.score_distance((query, key), zeros, every, torch.tensor([[0, 1]])).tolist() == [(100 + 25) / 2]
    student, teacher = (tuple(torch.randn(2, 2, 4, 3, 5).unbind()) for _ in range(2))
    query_mask, key_mask = torch.tensor([[1, 1, 0], [1, 1, 1]]), torch.tensor([[1, 0, 0], [1, 1, 0]])
    for heads in (4, 2):  # as many as the teacher has, or fewer
        fewer = tuple(each[:, :heads] for each in student)
        scores = [q @ k.transpose(2, 3) for q, k in (fewer, teacher)]
        if heads < 4:  # the means over the heads are compared
            scores = [each.mean(1, keepdim=True) for each in scores]
        is_pair = query_mask[:, None, :, None] * key_mask[:, None, None, :]
        gaps = (scores[0] - scores[1]).square() * is_pair
        expected = gaps.sum((2, 3)).mean(1) / is_pair.sum((1, 2, 3))
        assert torch.allclose(losses.score_distance(fewer, teacher, query_mask, key_mask), expected, rtol=1e-4)


def test_soft_labels_by_hand():
    teacher, student = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[0.0, 0.0]])
    assert losses.class_cross_entropy(student, teacher, 1.0).item() == pytest.approx(math.log(2))
    student = torch.tensor([[2 * math.log(3), 0.0]])
    expected = -(0.25 * math.log(0.75) + 0.75 * math.log(0.25))
    assert losses.class_cross_entropy(student, 2 * teacher, 2.0).item() == pytest.approx(expected)


def test_ratios_weight_levels_and_domains():
    one = torch.ones(2, 1, 1)  # two domains, one layer: all numbers by hand
    output = SimpleNamespace(
        levels=(one, 2 * one),
        attentions_kept=((3 * torch.ones(2, 1, 1, 1), torch.ones(2, 1, 1, 1)),),  # a score of 3
        logits=torch.zeros(2, 2),
        ratios=torch.tensor([[0.25, 0.75], [1.0, 0.0]]),
    )
    inputs = {
        "attention_mask": torch.ones(2, 1, dtype=torch.long),
        "domain": torch.tensor([0, 1]),
        "teacher_levels": (torch.tensor([[[0.0]], [[3.0]]]), torch.zeros(2, 1, 1)),
        "teacher_attention": ((torch.zeros(2, 1, 1, 1),) * 2,),
        "teacher_logits": torch.zeros(2, 2),
    }
    terms = loss(output, inputs, gamma=2.0)
    assert terms["embedding"].item() == 0.25 * 1 + 0.75 * 4  # (1 - 0)², (1 - 3)²
    assert terms["attention"].item() == 9.0 and terms["hidden"].item() == 4.0  # of the first domain alone
    assert terms["prediction"].item() == pytest.approx(2 * math.log(2))  # gamma / D, of two domains


def test_a_student_equal_to_its_teacher_has_no_loss_but_its_own_entropy():
    inputs = with_outputs(keep_scores(encoder()), batch())
    output = forward(TinyBertStudent(of_two_domains(encoder()), 128, 2), inputs, "fp32")
    terms, classes = loss(output, inputs), output.logits.softmax(-1)
    assert classes.shape == (4, 2)
    assert terms.pop("prediction").item() == pytest.approx(-(classes * classes.log()).sum(-1).mean().item(), abs=1e-5)
    assert [term.item() for term in terms.values()] == pytest.approx([0] * 3, abs=1e-4)


def test_padding_changes_no_loss_unless_it_counts():
    inputs, student = batch(), TinyBertStudent(of_two_domains(keep_layers(encoder(), 3)), 128, 2).eval()
    longer = {key: functional.pad(values, (0, 8)) if values.dim() == 2 else values for key, values in inputs.items()}
    teacher = keep_scores(encoder(seed=1))
    with torch.no_grad():
        teacher.bert.encoder.layer[0].attention.self.key.weight.mul_(2)
        teacher.bert.embeddings.word_embeddings.weight.mul_(1.5)
    both = [with_outputs(teacher, each) for each in (inputs, longer)]
    pairs = [(forward(student, each, "fp32"), each) for each in both]
    terms, padded = ({name: t.item() for name, t in loss(*pair, padding=False).items()} for pair in pairs)
    assert terms == pytest.approx(padded, rel=1e-5) and min(terms.values()) > 0
    terms, padded = (loss(*pair)["hidden"].item() for pair in pairs)
    assert terms != pytest.approx(padded, rel=1e-3)


def test_a_student_learns_in_bfloat16_too():
    inputs = with_outputs(keep_scores(encoder()), batch(), "bf16")
    relations = Relations(2, 2, 48, heads=1, graph_width=4)
    student = load_student("data/mini/student", "data/mini", 1, seed=0, classes=4, random_layers=1)
    learner = TinyBertStudent(of_two_domains(student), 128, 2, relations=relations)
    output = forward(learner, inputs, "bf16")
    assert output.ratios.dtype == torch.float32
    sum(loss(output, inputs).values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learner.projections.parameters())


def test_meta_kd_by_hand():
    sure, wrong = torch.tensor([[0.0, 100.0]]), torch.tensor([[100.0, 0.0]])
    right, weight = torch.tensor([1]), torch.tensor([1.0])
    assert losses.meta_weights(sure, right, weight).item() == pytest.approx(1.0)
    assert losses.meta_weights(wrong, right, weight).item() == pytest.approx(2 / (math.e + 1))
    output = SimpleNamespace(logits=torch.zeros(3, 2), domain_logits=torch.zeros(3, 3))
    inputs = {"domain": [0, 0, 1], "label": [0, 1, 1], "weight": [1.0, 0.5, 0.0]}
    inputs = {key: torch.tensor(values) for key, values in inputs.items()}
    terms = name(smoke(**{"hrkd.corruption_weight": 0.5}), META).loss(output, inputs, 0.0)
    assert terms["label"].item() == pytest.approx(0.5 * math.log(2))
    assert terms["corruption"].item() == pytest.approx(0.5 * 0.5 * math.log(3))


def test_layers_at_even_distance():
    assert match_layers(4, 12) == [3, 6, 9, 12] and match_layers(3, 6) == [2, 4, 6] and match_layers(3, 3) == [1, 2, 3]
    assert match_layers(1, 3) == [3] and match_layers(2, 3) == [2, 3] and match_layers(3, 1) == [1, 1, 1]


def test_relations_are_trained_steer_and_read_projected_levels_where_settings_say_so():
    for trained, steer, projected in ((True, True, False), (True, False, True), (False, True, True)):
        settings = {"trained": trained, "steer": steer, "projected": projected}
        relations = Relations(4, 2, 128 if projected else 48, heads=1, graph_width=4, residual=True, **settings)
        student = load_student("data/mini/student", "data/mini", 3, seed=0, classes=4)
        learner = TinyBertStudent(of_two_domains(student), 128, 2)
        learner.relations = relations
        (forward(learner, batch(), "fp32").ratios * torch.arange(2)).sum().backward()
        gradients = [p.grad for p in learner.student.parameters() if p.grad is not None]
        assert (relations.first.grad is not None) == trained and any(g.any() for g in gradients) == steer
        assert (learner.projections[0].weight.grad is not None) == (steer and projected)


def test_a_student_is_layers_of_the_teacher():
    student = load_student("", "data/mini", 1, seed=0, classes=4)
    (layer,), last = student.bert.encoder.layer, encoder().bert.encoder.layer[2]
    assert torch.equal(layer.attention.self.key.weight, last.attention.self.key.weight)
    assert student.config.num_hidden_layers == 1
    with pytest.raises(EncoderError, match="cannot take 4 layers of a bert with 3"):
        load_student("", "data/mini", 4, seed=0, classes=4)


def test_weights_of_instances_by_hand():
    states = {"a": np.array([[1.0, 0.0], [0.0, 2.0]]), "b": np.array([[3.0, 3.0]])}
    classes = {"a": np.array([0, 1]), "b": np.array([0])}
    weights, half = instance_weights(states, classes), math.sqrt(0.5)
    assert weights["a"].tolist() == pytest.approx([(1 + half) / 2, 1.0])  # no other domain has class 1
    assert weights["b"].tolist() == pytest.approx([(1 + half) / 2])


def test_pairs_that_cannot_learn_are_refused_before_anything_is_trained(tmp_path):
    check_pair("data/mini/student", "data/mini")
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b")
    BertTokenizerFast(vocab={word: number for number, word in enumerate(words)}).save_pretrained(tmp_path)
    with pytest.raises(EncoderError, match="read different word pieces; use two of one kind"):
        check_pair(str(tmp_path), "data/mini")
    sizes = {"vocab_size": 7, "hidden_size": 8, "embedding_size": 2, "num_attention_heads": 2, "num_hidden_layers": 3}
    AlbertConfig(**sizes).save_pretrained(tmp_path)
    with pytest.raises(EncoderError, match="attention of a albert cannot be read"):
        check_pair("", str(tmp_path))


def test_rows_are_the_paper_s_and_a_student_alone():
    preset = smoke()
    rows = {row: algorithm.model_trainings(preset, "reviews", 0, row) for row in ROWS}
    assert len(ROWS) == 15
    for row, models in rows.items():
        one_per_domain = row in (SINGLE, *STUDENTS)
        expected = [(domain,) for domain in DOMAINS] if one_per_domain else [DOMAINS] * 3
        assert [model.data.names for model in models.values()] == expected
    for row in (*STUDENTS, PLAIN, OURS):
        teachers = rows[row.partition(" → ")[0]]
        assert all(model.teacher.model.key == teachers[domain].key for domain, model in rows[row].items())
    assert not any(model.teacher for model in rows[ALONE].values())
    keys = {model.key for models in rows.values() for model in models.values()}
    assert len(keys) == 3 + 4 + 4 * 3 + 5 + 1  # single, other teachers, their students, HRKD-teacher's five, alone


def test_keys_name_what_weights_depend_on():
    def key(row, **changes):
        return name(smoke(**changes), row).key

    assert key(OURS) == key(OURS, **{"reviews.test_size": 5}) != key(PLAIN)
    graph = {"hrkd.heads": 1, "hrkd.graph_width": 3}
    both = {"hrkd.padding": False, "hrkd.temperature": 2.0, "hrkd.reviews_learning_rate": 1.0}
    for setting, value in {**graph, **both}.items():
        assert key(OURS, **{setting: value}) != key(OURS), setting
        assert (key(PLAIN, **{setting: value}) == key(PLAIN)) == (setting in graph), setting
    assert key(HRKD, **{"hrkd.reviews_epochs": 2.0}) == key(HRKD) and key(ALONE, **{"hrkd.reviews_epochs": 2.0}) != key(
        ALONE
    )
    assert key(META, **{"hrkd.corruption_weight": 1.0}) != key(META)
    assert key("HRKD") == key(OURS) and key("- Domain Rel.") == key(PLAIN)
    assert len({key(row) for row in (PLAIN, algorithm.AGAIN, *algorithm.RELATION_STUDENTS)}) == 11
    another = name(smoke(), algorithm.AGAIN)
    assert another.seed == 100 and another.teacher.model.key == name(smoke(), PLAIN).teacher.model.key


def test_rows_that_no_claim_compares_can_have_fewer_seeds():
    plan = algorithm.train(smoke(seeds=3, **{"control_seeds": 1}), "mnli")
    wave = [(task.label.partition(",")[0], task.seed) for task in next(plan)]
    assert {seed for row, seed in wave if row in (STUDENTS[1], SINGLE)} == {0}
    assert {seed for row, seed in wave if row in (STUDENTS[0], OURS, ALONE, HRKD)} == {0, 1, 2}


def test_a_run_of_later_seeds_trains_these_alone():
    whole = {task.key for task in next(algorithm.train(smoke(seeds=3, **{"control_seeds": 2}), "mnli"))}
    pieces = [{"seeds": 3, "engine.max_seeds": 1}, {"seeds": 3, "engine.first_seed": 1}]
    waves = [next(algorithm.train(smoke(**piece, **{"control_seeds": 2}), "mnli")) for piece in pieces]
    assert whole == {task.key for wave in waves for task in wave}
    assert {task.seed % 100 for task in waves[1]} == {1, 2}


def wrap_new(training):
    """A new student, as its training wraps it for a teacher of width 128."""
    return training.model.wrap(training, algorithm.SmallClassifier.build(training.model, training), 128)


def test_projections_begin_alike_with_relations_and_without():
    preset = smoke(**{"hrkd.reviews_student": "data/mini/student"})
    learners = [wrap_new(name(preset, row)) for row in (PLAIN, OURS)]
    assert len(learners[0].projections) == 2 and learners[0].relations is None is not learners[1].relations
    for one, other in zip(*(learner.projections for learner in learners), strict=True):
        assert torch.equal(one.weight, other.weight)


@pytest.fixture(scope="module")
def trained(module_results):
    """All rows on reviews, one seed."""
    return run(algorithm.train(smoke(), "reviews"), smoke())


def model_of(trained, row):
    return trained.by_row[row][0]["films"][0]


def test_a_saved_student_gives_the_same_logits_through_transformers_alone(trained):
    student = model_of(trained, OURS)
    theirs = AutoModelForSequenceClassification.from_pretrained(student.saved()).eval()
    inputs = collate(student.data.sequences(student.preset, "test", "films"), np.arange(8))
    arguments = {key: inputs[key] for key in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.inference_mode():
        one = copy_domain(MultiHead({"reviews": theirs}, theirs.config.heads), "films")
        logits, one_head = theirs(**arguments).logits, one(**arguments).logits
        ours = student.load().single(**arguments).logits
        of_domain = student.load()(domain=inputs["domain"], **arguments).logits
    assert are_alike(logits, ours) and logits.shape == (8, 6)
    assert torch.allclose(one_head, of_domain) and are_alike(of_domain, ours[:, 2:4])
    assert theirs.config.id2label[2] == "films negative" and theirs.config.heads == list(DOMAINS)


def test_ratios_are_traced_and_relations_stored(trained):
    student = model_of(trained, OURS)
    traced = np.asarray(student.result()["validation"][-1][2]["ratios"])
    assert traced.shape == (2, 3) and np.allclose(traced.sum(1), 1, atol=1e-3)
    assert "ratios" not in model_of(trained, PLAIN).result()["validation"][-1][2]
    of_texts, shares, labels = ratios.compute_ratios(student)
    assert of_texts.shape == (8, 2, 3) and shares.shape == (8, 3, 2, 2) and labels.shape == (8, 3)
    assert np.allclose(of_texts.sum(2), 1) and np.allclose(shares.sum(3), 1)


def test_stored_relations_that_lack_a_weight_are_not_drawn_at_random(tmp_path, monkeypatch):
    student, file = name(smoke(), OURS), tmp_path / "learner.safetensors"
    learner = wrap_new(student)
    monkeypatch.setattr(Training, "load", lambda self: learner.student)
    monkeypatch.setattr(Training, "saved", lambda self: "data/mini")  # the teacher's, for its width
    monkeypatch.setattr(Training, "file", lambda self, name: file)
    weights = {name: each for name, each in learner.state_dict().items() if not name.startswith("student.")}
    save_file(weights, file)
    assert torch.equal(algorithm.load_distilled(student).relations.first, learner.relations.first)
    del weights["relations.second"]
    save_file(weights, file)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\).*relations\.second"):
        algorithm.load_distilled(student)


def test_damage_beside_a_model_is_noticed(trained):
    ours, of_meta = model_of(trained, OURS), model_of(trained, STUDENTS[3])
    reads = {"learner": lambda: ratios.compute_ratios(ours), "view": of_meta.build}
    for name, read in reads.items():
        flip(path := model_of(trained, OURS if name == "learner" else META).folder / f"{name}.safetensors")
        with pytest.raises(DamagedFile, match=name):
            read()
        flip(path)


def test_meta_kd_weights_texts_and_compares_views(trained):
    student = model_of(trained, STUDENTS[3])
    learner, inputs = student.build(), student.batches().at(0)
    weights = algorithm.weigh_texts(student.preset, student.teacher.model.data)["films"]
    assert torch.allclose(inputs["weight"], torch.from_numpy(weights)[inputs["window"]])
    terms = student.loss(forward(learner.eval(), inputs, "fp32"), inputs)
    assert set(terms) == {"embedding", "attention", "hidden", "view", "prediction"} and terms["view"].item() > 0
    plain = model_of(trained, STUDENTS[0]).batches().at(0)
    assert "weight" not in plain and "teacher_view" not in plain


def test_kept_students_are_classifiers_of_one_domain(trained, tmp_path):
    scores = run(tables.table3(smoke()), smoke())["scores"]
    record = Record.model_construct(title="Table 3", unit="accuracy", notes=["a note"], scores=scores)
    students = {domain: (OURS, model) for domain, (model,) in trained.by_row[OURS][0].items()}
    model_folders.keep_models(students, str(tmp_path), record, "load('FOLDER')", save_domain)
    for domain, (_, student) in students.items():
        (guess,) = pipeline("text-classification", str(tmp_path / domain))("a fine story")
        assert guess["label"] in ("negative", "positive")
        (value,) = [score.value for score in scores if (score.method, score.column) == (OURS, domain)]
        intro = f"{student.label}. Table 3, averaged over seeds:"
        readme = (tmp_path / domain / "README.md").read_text()
        for text in (intro, f"| {value:.1f} |", "- a note", f"load('{tmp_path / domain}')"):
            assert text in readme
    model_folders.keep_models({"all": students["films"]}, str(tmp_path), record, "")
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "all").config.num_labels == 6


def test_a_preset_without_texts_has_no_table():
    without = smoke().changed("mnli", source="files", folder="")
    assert run(tables.table2(without), without) == {} and hrkd.list_corpora(without) == ["reviews"]
    main, few, _ = hrkd.PAPER.notebooks
    assert main.left_out(without) == "" != few.left_out(without)


def test_gaps_of_ratios_are_those_of_equal_and_of_different_labels():
    values = np.array([[[0.5, 0.5, 0.1]], [[0.5, 0.3, 0.1]]])  # two places, one level, three domains
    gaps = ratios.average_gaps(values, np.array([[0, 0, 1], [0, 1, 1]]))
    # Domains 0 and 1: alike 0.0, different 0.2. Domains 1 and 2: different 0.4, alike 0.2. 0 and 2: never alike.
    assert gaps == pytest.approx({ratios.SAME: 0.1, ratios.DIFFERENT: 0.3})
    assert ratios.measure_moved(np.array([[0.5, 0.5], [1.0, 0.0]])) == 25.0
