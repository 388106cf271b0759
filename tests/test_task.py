"""Work that is done once: keys, results, damage, locks."""

import importlib
import linecache
import os
import pwd
import stat
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FunctionType

import pytest
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from helpers.errors import UserError
from helpers.extractive_qa import likelihood
from helpers.files import unwritten
from helpers.presets.load import load_preset
from helpers.task import DamagedFile, NotDone, Task, name_code, with_needs


@dataclass(frozen=True, kw_only=True, eq=False)
class Number(Task):
    """A number plus those of other tasks."""

    value: int
    terms: tuple["Number", ...] = ()
    named: dict = field(default_factory=dict)

    def settings(self) -> dict:
        return {"rate": self.preset.training.learning_rate}

    def work(self) -> dict:
        save_file({"value": torch.tensor([self.value])}, self.folder / "value.safetensors")
        return {"sum": self.value + sum(term.result()["sum"] for term in self.terms)}


@pytest.fixture
def number(results):
    preset = load_preset("smoke")

    def make(value, terms=(), **parts):
        return Number(preset=parts.pop("preset", preset), label=f"number {value}", value=value, terms=terms, **parts)

    return make


def test_a_key_stands_for_fields_settings_and_version(number, monkeypatch):
    one = number(1)
    assert one.key == number(1).key != number(2).key
    assert number(1, (number(2),)).key != number(1, (number(3),)).key
    assert number(1, named={"a": number(2)}).key != number(1, named={"b": number(2)}).key
    faster = load_preset("smoke", **{"training.learning_rate": 0.5})
    assert (
        number(1, preset=faster).key != one.key == number(1, preset=load_preset("smoke", **{"data.test_size": 3})).key
    )
    monkeypatch.setattr(Number, "version", 2)
    assert number(1).key != one.key


def test_code_counts_by_its_source(number, tmp_path, monkeypatch):
    def key_of(text, module="mine"):
        (tmp_path / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop(module, None)
        importlib.invalidate_caches()
        linecache.checkcache()
        code = importlib.import_module(module).likelihood
        return number(1, named={"loss": partial(code, weight=2)}).key, number(1, named={"loss": code}).key

    text = "def likelihood(output, batch, progress=0.0, weight=1):\n    return {{'likelihood': {}}}\n"
    keys = {key_of(text.format("1 + 1")), key_of(text.format("1 + 222")), key_of("likelihood = lambda: 33333\n")}
    assert len(keys) == 3 and key_of(text.format("1 + 1")) in keys
    assert name_code(likelihood)[:2] == ["helpers.extractive_qa", "likelihood"]
    assert name_code(likelihood)[2].startswith("def likelihood(output, batch")
    assert name_code(torch.relu)[1:] == ["_VariableFunctionsClass.relu", ""]  # built in: there is no source
    with pytest.raises(UserError, match="no source is there to tell versions apart; write it in a file"):
        name_code(FunctionType(compile("0", "<nowhere>", "eval"), {"__name__": "mine"}, "f"))


def test_needs_come_first_and_once(number):
    leaf, other = number(1), number(2)
    middle = number(3, (leaf, other))
    top = number(4, (middle,), named={"again": [number(1)]})
    assert [task.value for task in with_needs([top]).values()] == [1, 2, 3, 4]


def test_a_task_is_done_once(number, monkeypatch):
    leaf = number(1)
    top = number(2, (leaf,))
    with pytest.raises(NotDone, match="number 1 is not done"):
        leaf.result()
    for task in with_needs([top]).values():
        task.do()
    assert top.is_done() and top.result()["sum"] == 3
    assert load_file(top.file("value.safetensors"))["value"].tolist() == [2]
    monkeypatch.setattr(Number, "work", lambda self: pytest.fail("it is done"))
    top.do()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("diverged"), "diverged"),
        (OSError(28, "No space left on device"), "cannot finish number 1: .*free some space and run again"),
    ],
)
def test_a_task_that_fails_is_not_done(number, monkeypatch, error, message):
    def fail(self):
        save_file({"value": torch.tensor([0])}, self.folder / "value.safetensors")
        raise error

    one = number(1)
    with monkeypatch.context() as patch, pytest.raises(type(error), match=message):
        patch.setattr(Number, "work", fail)
        one.do()
    assert not one.is_done()
    one.do()
    assert load_file(one.file("value.safetensors"))["value"].tolist() == [1]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_mode_that_the_umask_says(number, mask, mode):
    one, before = number(1), os.umask(mask)
    try:
        one.do()
    finally:
        os.umask(before)
    names = ("value.safetensors", "result.json")
    assert [stat.S_IMODE((one.folder / name).stat().st_mode) for name in names] == [mode] * 2


def test_every_damaged_byte_is_noticed(number):
    one = number(1)
    one.do()
    file = one.folder / "value.safetensors"
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(DamagedFile, match=r"not as it was written; delete .*Number-.* and run again"):
            one.file("value.safetensors")
    file.unlink()
    with pytest.raises(DamagedFile):
        one.file("value.safetensors")
    (one.folder / "result.json").write_text('{"sum"')
    with pytest.raises(DamagedFile, match=r"result\.json: not readable"):
        one.result()


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '"files"', '{"sum": 1}', '{"files": []}', "\xff"])
def test_what_is_no_result_is_named_with_what_to_delete(number, content):
    one = number(1)
    one.folder.mkdir(parents=True)
    (one.folder / "result.json").write_text(content, encoding="latin-1")
    assert one.is_done()  # and stays so until a person has looked
    for read in (one.result, lambda: one.file("value.safetensors")):
        with pytest.raises(DamagedFile, match=r"result\.json: not readable \(.+\); delete .*Number-.* and run again"):
            read()


@pytest.mark.parametrize(("name", "mode"), [("lock", 0), ("", 0o555), ("", 0)])
def test_what_belongs_to_another_user_is_said(number, monkeypatch, name, mode):
    """A lock that nobody else may open, and a results folder that nobody else may write into, or enter."""
    with tempfile.TemporaryDirectory() as results:  # that of pytest may be entered by its owner alone
        monkeypatch.setenv("HELPERS_RESULTS", results)
        one, user = number(1), os.geteuid()
        path = one.folder / name if name else Path(results)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        Path(results).chmod(0o755)
        path.chmod(mode)
        try:
            if user == 0:  # who may do everything
                os.seteuid(65534)
            owner = pwd.getpwuid(user).pw_name
            message = f"cannot begin number 1: .*; {path} belongs to {owner}: ask for permission .*HELPERS_RESULTS"
            with pytest.raises(OSError, match=message):
                one.do(wait=0)
        finally:
            os.seteuid(user)
            path.chmod(0o755)


def test_another_results_folder_is_advised_for_results_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path / "results"))
    for place, is_result in (("results/mini/lock", True), ("cache/file", False)):
        message = str(unwritten("write it", PermissionError(13, "Permission denied", str(tmp_path / place))))
        assert "ask for permission to write" in message and ("HELPERS_RESULTS" in message) == is_result


def test_a_full_disk_is_advised_once(number, monkeypatch):
    full = "Error while serializing: I/O error: No space left on device (os error 28)"

    def fail(self):
        raise unwritten("save the model", SafetensorError(full))

    monkeypatch.setattr(Number, "work", fail)
    with pytest.raises(OSError, match="cannot finish number 1: cannot save the model: ") as error:
        number(1).do()
    assert str(error.value).count("free some space and run again") == 1


def test_a_task_that_another_run_is_at_is_not_begun(number):
    one = number(1)
    one.folder.mkdir(parents=True)
    with FileLock(one.folder / "lock"), pytest.raises(Timeout):
        one.do(wait=0)
    one.do(wait=0)
    assert one.is_done()
