"""Tensors on disk: what is written is read, what was damaged is refused, what does not fit leaves nothing behind."""

import json
import struct
import sys

import pytest
import torch
from safetensors.torch import save_file

from helpers.training import jobs, once
from helpers.training.checkpoints import DamagedFile, digest, load_tensors, save_tensors

TENSORS = {
    "start": torch.tensor([[0.5, -2.0, 65504.0], [0.0, 6e-8, 1.0]], dtype=torch.float16),
    "scalar": torch.tensor(3.5),
    "step": torch.tensor(7),
    "empty": torch.zeros(0, 4),
    "bf16": torch.tensor([1.0, 3.0], dtype=torch.bfloat16),
}
FACTS = {"progress": '{"steps": 12}', "teacher": "Ωmega"}


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "outputs.safetensors"
    save_tensors(path, TENSORS, FACTS, "teacher's outputs")
    return path


def parts(path):
    """The file's bytes, and how many of them are its header: eight for the length, then JSON."""
    content = path.read_bytes()
    return content, 8 + struct.unpack("<Q", content[:8])[0]


def facts_of(path):
    """The places of the facts, which stand in the header like a tensor of the name __metadata__."""
    content, header = parts(path)
    begin = content.index(b'"__metadata__"')
    return range(begin, content.index(b"},", begin, header))


def survivors(path, places):
    """The places among ``places`` where a byte may change (in its lowest bit) and the file still be read."""
    content, found = path.read_bytes(), []
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            load_tensors(path)
            found.append((place, chr(content[place])))
        except DamagedFile as error:
            assert str(path) in str(error) and "\n" not in str(error)
    path.write_bytes(content)
    return found


def test_what_is_written_is_read(stored):
    tensors, facts = load_tensors(stored)
    assert set(tensors) == set(TENSORS) and FACTS.items() <= facts.items()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype and tensors[name].shape == tensor.shape
        assert torch.equal(tensors[name], tensor), name
    assert [path.name for path in stored.parent.iterdir()] == ["outputs.safetensors"]  # and no temporary


def test_a_view_is_written_as_it_looks(tmp_path):
    grid = torch.arange(6).reshape(2, 3)
    save_tensors(tmp_path / "new" / "a.safetensors", {"turned": grid.T, "every second": grid[:, ::2]}, {}, "grid")
    tensors, _ = load_tensors(tmp_path / "new" / "a.safetensors")
    assert tensors["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert tensors["every second"].tolist() == [[0, 2], [3, 5]]


def test_the_digest_stands_for_names_values_and_facts():
    one = digest({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3)}, {"x": "1"})
    assert len(one) == 16 and one == digest({"b": torch.tensor(3), "a": torch.tensor([1.0, 2.0])}, {"x": "1"})
    others = [
        ({"a": torch.tensor([2.0, 1.0]), "b": torch.tensor(3)}, {"x": "1"}),
        ({"a": torch.tensor([1.0, 2.0]), "c": torch.tensor(3)}, {"x": "1"}),
        ({"a": torch.tensor([1.0, 2.0])}, {"x": "1"}),
        ({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3)}, {"x": "2"}),
        ({"a": torch.tensor([[1.0, 2.0]]), "b": torch.tensor(3)}, {"x": "1"}),
    ]
    assert len({one, *(digest(*other) for other in others)}) == 6


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DamagedFile, match=r"gone\.safetensors cannot be read"):
        load_tensors(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("left", [0.0, 0.02, 0.5, 0.99])
def test_a_file_cut_short_is_named(stored, left):
    content, _ = parts(stored)
    stored.write_bytes(content[: int(left * len(content))])
    with pytest.raises(DamagedFile, match=r"outputs\.safetensors cannot be read") as error:
        load_tensors(stored)
    assert str(stored) in str(error.value)


def test_a_flipped_byte_of_a_tensor_is_named(stored):
    content, header = parts(stored)
    assert len(content) - header == 12 + 4 + 8 + 0 + 4
    changed = bytearray(content)
    changed[-1] ^= 255
    stored.write_bytes(changed)
    with pytest.raises(DamagedFile, match=r"outputs\.safetensors is damaged") as error:
        load_tensors(stored)
    assert str(stored) in str(error.value)


def test_no_byte_of_a_tensor_can_change_unnoticed(stored):
    content, header = parts(stored)
    assert survivors(stored, range(header, len(content))) == []


def test_no_byte_of_the_header_can_change_unnoticed(stored):
    _, header = parts(stored)
    assert survivors(stored, [place for place in range(header) if place not in facts_of(stored)]) == []


def test_no_byte_of_a_fact_can_change_unnoticed(stored):
    assert survivors(stored, facts_of(stored)) == []


def test_a_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    for facts in (None, {"format": "pt"}):
        save_file(TENSORS, path, metadata=facts)
        with pytest.raises(DamagedFile, match=r"other\.safetensors cannot be read"):
            load_tensors(path)


def save_large(path):
    save_tensors(path, {"start": torch.ones(100_000)}, {"teacher": "new"}, "teacher's outputs")  # 400,000 bytes


@pytest.mark.skipif(sys.platform == "win32", reason="no limit to the size of a file")
@pytest.mark.parametrize("size", [0, 200_000])
def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path, disk_of, size):
    with disk_of(size), pytest.raises(OSError) as error:
        save_large(tmp_path / "outputs.safetensors")
    said = str(error.value)
    assert said.startswith("cannot save the teacher's outputs outputs.safetensors: ")
    assert "File too large" in said and "\n" not in said  # what the limit is called, where a disk has no space left
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_keeps_no_temporary(tmp_path):
    (tmp_path / "outputs.safetensors").mkdir()
    with pytest.raises(OSError, match=r"cannot save the teacher's outputs outputs\.safetensors: .*directory") as error:
        save_tensors(tmp_path / "outputs.safetensors", TENSORS, FACTS, "teacher's outputs")
    assert [path.name for path in tmp_path.iterdir()] == ["outputs.safetensors"] and "space" not in str(error.value)


@pytest.mark.skipif(sys.platform == "win32", reason="no limit to the size of a file")
def test_a_full_disk_leaves_the_file_that_was_there(stored, disk_of):
    before = stored.read_bytes()
    with disk_of(200_000), pytest.raises(OSError, match="File too large"):
        save_large(stored)
    assert stored.read_bytes() == before and len(list(stored.parent.iterdir())) == 1
    with disk_of(1_000_000):  # the limit is what it was about
        save_large(stored)
    assert load_tensors(stored)[1]["teacher"] == "new"


def test_a_folder_may_be_sealed_again(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    (tmp_path / "lock").touch()
    once.seal(tmp_path)
    once.seal(tmp_path)  # as one that came from another machine is
    assert list(json.loads((tmp_path / jobs.SEAL).read_text())) == ["model/config.json"]
    once.check(tmp_path)
    (tmp_path / "model/config.json").write_text("[]")
    with pytest.raises(DamagedFile, match=r"config\.json is damaged"):
        once.check(tmp_path)
