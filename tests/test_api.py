"""The public names."""

import doctest
import inspect
import pydoc
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import helpers


@pytest.mark.parametrize("name", helpers.PUBLIC)
def test_a_public_name_is_documented_with_an_example(name):
    assert len(inspect.getdoc(getattr(helpers, name))) > 40
    assert re.search(rf"^>>> .*\b{name}\b", helpers.__doc__, re.MULTILINE)
    assert name in dir(helpers)


def examples():
    return doctest.DocTestParser().get_examples(helpers.__doc__)


def test_examples_run(results):
    names = {name: getattr(helpers, name) for name in helpers.PUBLIC} | {"torch": torch}
    reader = SimpleNamespace(answer=lambda question, passage: SimpleNamespace(text=passage[:8]))
    names |= {"load_reader": lambda folder: reader, "run": lambda notebooks, parameters: 0}  # with tests elsewhere
    test = doctest.DocTest(examples(), names, "helpers", None, None, None)
    outcome = doctest.DocTestRunner().run(test)
    assert outcome.failed == 0 and outcome.attempted > 15


def test_help_lists_the_public_names():
    page = pydoc.render_doc(helpers, renderer=pydoc.plaintext)
    assert [name for name in helpers.PUBLIC if not page.count(name)] == [] and "others may change" in page
    examples, _, functions = page.partition("\nFUNCTIONS\n")
    assert examples.count("\n") < 120 and "soft_cross_entropy(student: " in functions


def test_names_are_imported_when_they_are_asked_for():
    code = "import sys, helpers as h; dir(h); print('torch' in sys.modules); h.fit; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    with pytest.raises(AttributeError, match="no attribute 'load_raeder'"):
        helpers.load_raeder  # noqa: B018
