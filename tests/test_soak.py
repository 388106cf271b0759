"""What the soak run does to files and processes, and how it tells what came of it."""

import random
from collections import Counter

from conftest import benchmark

soak = benchmark("soak")


def test_one_byte_is_turned_over(tmp_path):
    (file := tmp_path / "file").write_bytes(bytes(100))
    assert soak.damage(file, random.Random(0)) and sum(byte != 0 for byte in file.read_bytes()) == 1
    (empty := tmp_path / "empty").touch()
    assert not soak.damage(empty, random.Random(0)) and not soak.damage(tmp_path / "none", random.Random(0))


def test_disturbances_are_as_many_as_asked_for_and_of_every_kind():
    found = soak.events(8, ["job.pkl", "files.json"], random.Random(0))
    assert Counter(event.kind for event in found) == {"kill": 8, "full": 5, "damage": 2}
    assert Counter(event.what for event in found if event.kind == "kill") == dict.fromkeys(soak.KILLED, 2)


def test_files_that_are_read_again_are_damaged_and_places_of_full_disks_told_apart(tmp_path):
    folder = tmp_path / "smoke/models/class/key"
    (folder / "model").mkdir(parents=True)
    for name in ("lock", "files.json", "full-uid.yaml", "model/config.json"):
        (folder / name).touch()
    assert soak.kinds_of_files(tmp_path) == ["config.json", "files.json"]
    said = "cannot save the weights of a domain best-a.safetensors: x", "cannot write /a/b.json: y", "cannot say: z"
    assert [found and (found["what"], found["suffix"]) for found in map(soak.FULL.search, said)] == [
        *(("weights of a domain", ".safetensors"), (None, ".json")),
        None,
    ]


def test_where_records_differ():
    assert soak.difference({"scores": [1, 2], "title": "a"}, {"scores": [1, 3], "title": "a"}) == (
        "scores; for example 2 and 3"
    )
    assert soak.difference(None, {}) == "only with disturbances" and soak.difference({}, None) == "only in peace"
