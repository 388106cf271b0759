"""What a cached training leaves in its folder when it has ended; read without torch."""

import pickle
from pathlib import Path

JOB = "job.pkl"  # exca's, with the result or the error
SEAL = "files.json"  # written last: the fingerprints of all that it left


def result_in(folder: Path) -> dict:
    """What a training returned that lies there. Raises what the training did, or anything where the file is damaged.

    exca's own ``job()`` compares the configuration with its files each time, which takes 30 ms.
    """
    with (folder / JOB).open("rb") as file:
        return pickle.load(file).result()
