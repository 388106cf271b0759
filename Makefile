# make reproduce | test | lab | figures | lint. Every target sets up what it needs first.
PYTHON ?= python3.11
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.ready

.PHONY: reproduce test lab figures lint clean

reproduce: $(STAMP)
	$(RUN) -m helpers run --preset mini

test: $(STAMP)
	$(RUN) -m pytest

lab: $(STAMP)
	$(VENV)/bin/jupyter lab notebooks

figures: $(STAMP)
	$(RUN) -m helpers figures --preset mini

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/nbstripout --verify notebooks/*.ipynb

clean:
	rm -rf $(VENV)

# The lock pins every package; the project itself is installed editable, without looking for others.
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --requirement requirements.lock
	$(RUN) -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
