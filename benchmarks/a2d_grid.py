"""With which temperature and weights A2D's students learn most, on draws 1 to 3, which no record uses.

    python benchmarks/a2d_grid.py

The best validation F1 of the students of the same ensembles for every temperature and weights of Eq. 1, mean and
standard deviation over draws; test questions are not read.
"""

import itertools

import numpy as np

from helpers import engine
from helpers.papers.a2d import algorithm
from helpers.presets.load import load_preset
from helpers.training import Training

TEMPERATURES, ANSWER_WEIGHTS, ATTENTION_WEIGHTS = (1.0, 2.0, 4.0, 8.0, 16.0), (0.3, 1.0), (0.1,)
SEED, DRAWS = 1, 3


def main() -> None:
    preset = load_preset("mini", "a2d", **{"data.seed": SEED, "seeds": DRAWS, "trainings": "regimes"})
    students: dict[tuple, list[Training]] = {}
    for weights in itertools.product(TEMPERATURES, ANSWER_WEIGHTS, ATTENTION_WEIGHTS):
        changes = dict(zip(("temperature", "answer_weight", "attention_weight"), weights, strict=True))
        changed, (kind, *_) = preset.changed("a2d", **changes), algorithm.list_kinds(preset)
        students[weights] = [
            student
            for seed in range(preset.seeds)
            for student in algorithm.student_trainings(changed.for_seed(seed), kind, seed).values()
        ]
    engine.run((wave for wave in [list(itertools.chain(*students.values()))]), preset.engine)
    scores = {weights: [student.best for student in trained] for weights, trained in students.items()}
    print("| temperature | gamma | delta | validation F1 | standard deviation |\n|---|---|---|---|---|")
    for weights, of_seeds in sorted(scores.items(), key=lambda item: -np.mean(item[1])):
        cells = [*(f"{weight:g}" for weight in weights), f"{np.mean(of_seeds):.1f}", f"{np.std(of_seeds, ddof=1):.1f}"]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
