"""What preset paper costs, told without its corpora."""

import re

from helpers import __main__ as cli
from helpers.notebooks import planning, runner


def test_a_preset_is_planned_without_its_corpora(results, capsys):
    assert cli.main(["run", "--preset", "paper", "--list", "08", "12", "-p", "seeds", "2"]) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"08_a2d_attention of paper.seeds=2: 13 trainings, .* M windows, \d+ h, \d+ GB; seeds: 2 \(no verdict", printed
    )
    assert re.search(r"12_hrkd_ablation .*: \d+ trainings", printed) and not list(results.rglob("*.json"))
    assert re.search(r"missing: mrqa-2019:SQuAD \(737 MB .*goes to data/cache/mrqa-2019/SQuAD, or give a", printed)


def test_windows_are_estimated_from_what_the_preset_states(results):
    """Twelve members and a student of SQuAD's 86,288 questions, a window each, for 20 epochs."""
    (job, _) = runner.select_jobs(["08"], {"preset": "paper"})
    schedule = planning.follow(job._replace(preset=planning.plan_preset(job.preset)).plan())
    trainings = [task for task in schedule.tasks.values() if isinstance(task, planning.Training)]
    windows = {planning.count_windows(training) for training in trainings}
    assert len(trainings) == 13 and all(1_700_000 < number < 1_760_000 for number in windows)
