"""What handing trainings out by Ray costs, beside worker processes of this machine, in one run.

    pip install -e ".[ray]" && python benchmarks/cluster.py

Nodes of one core each, all on this machine, and as many local workers train the same: first many readers of a few
steps, whose difference is the overhead of a task, then some of a few seconds. Both are done in turns, each time into an
empty folder, after a first time that starts workers and does not count.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from statistics import median

from helpers import engine
from helpers.papers.imm import algorithm
from helpers.presets.load import load_preset
from helpers.presets.schema import EngineSettings

MEMORY = 80_000_000  # bytes of a node's store
DOMAINS = {"news": "news", "encyclopedia": "encyclopedia"}


def trained(settings: EngineSettings, changes: dict[str, object], seeds: int) -> float:
    """Seconds that a reader of each domain takes for so many seeds, with what lies between them."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HELPERS_RESULTS"] = folder
        preset = load_preset("smoke", "imm", **{"data.domains": DOMAINS, **changes})
        readers = [reader for seed in range(seeds) for reader in algorithm.single_readers(preset, seed).values()]
        begun = time.perf_counter()
        engine.run((wave for wave in [readers]), settings)
        return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--short", type=int, default=30, help="seeds of trainings of a few steps")
    parser.add_argument("--long", type=int, default=6, help="seeds of longer ones")
    parser.add_argument("--epochs", type=float, default=40.0, help="of the longer ones")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    import ray  # an extra
    from ray.cluster_utils import Cluster

    works = {
        "short": ({"training.epochs": 0.1, "training.evaluations": 1}, options.short),
        "long": ({"training.epochs": options.epochs, "training.evaluations": 1}, options.long),
    }
    for nodes in options.nodes:
        node = {"num_cpus": 1, "object_store_memory": MEMORY}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        for _ in range(nodes - 1):
            cluster.add_node(**node)
        ways = {
            "local": EngineSettings(processes=nodes, threads=1),
            "one folder": EngineSettings(kind="ray", address=cluster.address, threads=1),
        }
        print(f"\n{nodes} nodes of one core, {nodes} local workers, {engine.cores()} cores")
        for work, (changes, number) in works.items():
            rounds = [
                {way: trained(settings, changes, number) for way, settings in ways.items()}
                for _ in range(options.rounds + 1)
            ]
            print_times(work, number * len(DOMAINS), rounds[1:])
        ray.shutdown()
        cluster.shutdown()


def print_times(work: str, number: int, rounds: list[dict[str, float]]) -> None:
    """Print how long a work took, and what it took more than with local workers."""
    print(f"{number} {work} trainings: local {median(of['local'] for of in rounds):.2f} s")
    for way in [way for way in rounds[0] if way != "local"]:
        ratios = sorted(of[way] / of["local"] for of in rounds)
        more = sorted(1000 * (of[way] - of["local"]) / number for of in rounds)
        print(
            f"  {way}: {median(ratios):.2f} times as long ({ratios[0]:.2f} to {ratios[-1]:.2f}), "
            f"{median(more):+.0f} ms a training ({more[0]:+.0f} to {more[-1]:+.0f})"
        )


if __name__ == "__main__":
    main()
