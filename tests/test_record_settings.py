"""Records in git were made with the settings that their presets have now."""

import json
from fnmatch import fnmatch

import pytest

from helpers import papers, paths
from helpers.notebooks.parameters import preset_for
from helpers.notebooks.session import OF_THIS_MACHINE

READ_BY = {"a2d.lengths": "a2d/steps", "imm.controls": "imm/[!t]*|imm/table[13]*"}  # of their papers' records alone


def flat(settings, prefix=""):
    """Settings by section and key, without the folders of one machine."""
    for key, value in settings.items():
        if key != "folder":
            yield from flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]


def differing(parameters, paper, notebook):
    """Keys that a record and the preset for a notebook both have, with another value, but for those of other papers."""
    preset = preset_for({**parameters, "preset": parameters["preset"]["name"]}, notebook)
    now = dict(flat(preset.model_dump(mode="json", exclude=dict.fromkeys(papers.foreign(paper), True))))
    given = OF_THIS_MACHINE if preset.data.source == "files" else ()
    return {key for key, value in flat(parameters["preset"]) if key not in given and now.get(key, value) != value}


@pytest.mark.parametrize("name", ["mini", "study", "study-small", "study-large", "lab"])
def test_records_have_the_settings_of_their_presets(name, monkeypatch):
    monkeypatch.setattr("helpers.presets.load._has_gpu", lambda: False)  # as where they were made
    growth = [card.name for paper in papers.ALL for card in paper.notebooks if card.shows_growth]
    for paper in papers.ALL:
        for path in sorted(paths.results(name).glob(f"{paper.key}/*.json")):
            record = f"{paper.key}/{path.stem}"
            parameters = json.loads(path.read_text())["run"]["parameters"]
            notebooks = growth if path.stem in ("growth", "regimes") else [card.name for card in paper.notebooks]
            found = min((differing(parameters, paper, notebook) for notebook in notebooks), key=len)
            unread = {key for key, by in READ_BY.items() if not any(fnmatch(record, one) for one in by.split("|"))}
            assert not found - unread, f"{path}: {found - unread} differ from the preset's: make it again"
