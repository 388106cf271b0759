"""What preset paper costs, told without its corpora."""

import re

import numpy as np
import pytest

from helpers import __main__ as cli
from helpers.data import planned
from helpers.data.load import load
from helpers.notebooks import planning, runner
from helpers.presets.load import load_preset


def test_a_preset_is_planned_without_its_corpora(results, capsys):
    assert cli.main(["run", "--preset", "paper", "--list", "08", "12", "-p", "seeds", "2"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"08_a2d_attention of paper.seeds=2: 13 trainings, .* M windows, \d+ to \d+ h, \d+ GB\n", printed)
    assert re.search(r"12_hrkd_ablation .*: \d+ trainings", printed) and not list(results.rglob("*.json"))
    assert "seeds: 2 (no verdict below 5), 1 for controls" in printed
    place = "data/cache/mrqa-2019/SQuAD, or FOLDER/mrqa-2019/SQuAD with -p data_dir FOLDER"
    files = r"  http\S+/train/SQuAD.jsonl.gz as train.jsonl.gz\n  http\S+/dev/SQuAD.jsonl.gz as validation.jsonl.gz"
    assert re.search(rf"\nmrqa-2019:SQuAD \(737 MB .*; licence CC BY-SA 4.0\): {place}\n{files}\n", printed)
    fetch = r"hf download --repo-type dataset --revision \w{40} --local-dir FOLDER/nyu-mll/multi_nli nyu-mll/multi_nli"
    assert re.search(rf"FOLDER/nyu-mll/multi_nli with -p mnli_dir FOLDER\n  {fetch}\n", printed)
    place, fetch = (
        "the Hub's cache, or -p encoder FOLDER",
        r"hf download --revision \w{40} google-bert/bert-base-uncased",
    )
    assert re.search(rf"\ngoogle-bert/bert-base-uncased: {place}\n  {fetch}\n", printed)
    assert (
        "TinyBERT_General_4L_312D: the Hub's cache, or -p hrkd.mnli_student FOLDER -p hrkd.reviews_student" in printed
    )
    assert "bert-large" not in printed  # of other notebooks


def test_a_plan_tells_what_is_read_from_a_folder(results, tmp_path, capsys):
    (tmp_path / "mrqa-2019/SQuAD").mkdir(parents=True)
    assert cli.main(["run", "--preset", "paper", "--list", "08", "-p", "data_dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "\nSQuAD: mrqa-2019/SQuAD, checked as mrqa-2019:SQuAD\n" in printed
    assert "\nmrqa-2019:SQuAD (" not in printed and "\nadversarial-squad:AddSent (" in printed


def test_passages_of_stand_ins_are_as_long_as_the_preset_states(results):
    data = planning.plan_preset(load_preset("paper")).data
    for name, words in (("SQuAD", 137), ("NewsQA", 599), ("TriviaQA", 784)):
        lengths = [len(example.context.split()) - 3 for example in load(data, name).train]
        assert np.mean(lengths) == pytest.approx(words * planned.PER_WORD, rel=0.02)
        assert max(lengths) <= planned.MOST * planned.PER_WORD


def test_windows_are_estimated_from_what_the_preset_states(results):
    """Twelve members and a student of SQuAD's 86,288 questions, a window each, for 20 epochs."""
    (job, _) = runner.select_jobs(["08"], {"preset": "paper"})
    schedule = planning.follow(job._replace(preset=planning.plan_preset(job.preset)).plan())
    trainings = [task for task in schedule.tasks.values() if isinstance(task, planning.Training)]
    windows = {planning.count_windows(training) for training in trainings}
    assert len(trainings) == 13 and all(1_700_000 < number < 1_760_000 for number in windows)


def test_a_plan_tells_what_a_preset_leaves_out(results, capsys):
    assert cli.main(["run", "--preset", "lab", "--list", "10"]) == 0
    assert (
        "10_hrkd_main: left out, as the preset has no texts for it; give mnli_dir or reviews_dir\n"
        in capsys.readouterr().out
    )
