# make look | reproduce | study | test | canary | test-extras | browser | soak | jupyter | gpu | figures | lint. Every target sets up
# what it needs first.
PYTHON ?= python3.11
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.ready
unexport PYTHONDONTWRITEBYTECODE  # every process would compile thousands of modules anew

.PHONY: look reproduce study test canary test-extras browser soak jupyter gpu gpu-bundle figures lint lock clean

# Readers of three domains, and one distilled from an ensemble, in 2 minutes.
look: $(STAMP)
	$(RUN) benchmarks/look.py

reproduce: $(STAMP)
	$(RUN) -m helpers run --preset mini

# Hours, a piece at a time: what is done is skipped, so it may be stopped and called again.
study: $(STAMP)
	$(RUN) -m helpers run --preset study

test: $(STAMP)
	$(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The tests with the newest versions of all packages, in an environment that is made anew and removed.
canary:
	rm -rf .venv-canary
	$(PYTHON) -m venv .venv-canary
	.venv-canary/bin/python -m pip install --quiet --editable ".[dev]"
	.venv-canary/bin/python -m pip freeze | grep -iE "^(torch|transformers|papermill)="
	.venv-canary/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
	rm -rf .venv-canary

# What takes minutes or a package that few need: trainings on Ray, and all notebooks on a slice of preset paper.
test-extras: $(STAMP)
	$(RUN) -m pip install --quiet --constraint requirements.lock --no-build-isolation --editable ".[ray]"
	$(RUN) -m pytest tests/test_cluster.py
	$(RUN) tests/paper_slice.py

# The report and JupyterLab in Chromium, which has to be there (on Debian: apt install chromium).
browser: $(STAMP)
	$(RUN) -m pip install --quiet playwright
	$(RUN) -m pytest tests/test_browser.py

# More than an hour of kills and full disks (docs/reliability.md).
soak: $(STAMP)
	$(RUN) benchmarks/soak.py --kills 60
	$(RUN) benchmarks/soak.py --preset mini --kills 20 12_hrkd_ablation 15_mtdnn_main

# git sees notebooks as they were before they ran (.gitattributes), and the sidebar shows their whole names.
SAVED := $(addprefix metadata.language_info.,codemirror_mode file_extension mimetype nbconvert_exporter pygments_lexer version)
NAMES := {"@jupyterlab/filebrowser-extension:browser": {"showLastModifiedColumn": false}}
jupyter: $(STAMP)
	-git config filter.nbstripout.clean "$(RUN) -m nbstripout --keep-id --extra-keys '$(SAVED)'"
	mkdir -p $(VENV)/share/jupyter/lab/settings
	echo '$(NAMES)' > $(VENV)/share/jupyter/lab/settings/overrides.json
	$(VENV)/bin/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks \
		--FileContentsManager.post_save_hook=helpers.notebooks.saving.refresh_git $(if $(filter 0,$(shell id -u)),--allow-root)

# On a machine with a GPU: its tests, and the speed of trainings beside that of Trainer.
#   make gpu DATA=path/to/domains ENCODER=path/to/encoder
gpu: $(STAMP)
	PYTHON=$(RUN) sh benchmarks/gpu.sh "$(DATA)" "$(ENCODER)"

# What a machine without a network needs, in one folder (benchmarks/bundle.py says what it has to have).
#   make gpu-bundle DATA=path/to/data ENCODER=path/to/encoder [BUNDLE=path/to/folder]
BUNDLE ?= bundle
gpu-bundle: $(STAMP)
	$(RUN) benchmarks/bundle.py --data "$(DATA)" --encoder "$(ENCODER)" --out "$(BUNDLE)"

figures: $(STAMP)
	for preset in mini study lab lab-large; do \
		$(RUN) -m helpers figures --publish --preset $$preset || exit 1; \
	done

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/nbstripout --keep-id --verify notebooks/*.ipynb

# Resolve the newest versions that fit pyproject.toml, with torch as pinned, into a new lock for all of Python 3.11
# (soupsieve 3.0.2 and later want 3.11.5; jsonschema 4.25 and later take 2 seconds to import, which nbformat does).
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet torch==2.13.0 setuptools "soupsieve<3.0.2" "jsonschema<4.25" --editable ".[dev]"
	echo "# Every package that the project and its tests use, pinned (Python 3.11, Linux; written by: make lock)." > $@.new
	.venv-lock/bin/python -m pip freeze --all --exclude-editable | grep -v "^pip==" | sed "s/+cpu//" >> $@.new
	mv $@.new requirements.lock
	rm -rf .venv-lock

clean:
	rm -rf $(VENV)

# The lock pins every package; the project itself is installed editable, without looking for others. Nothing is compiled
# ahead: of 17,000 modules few are ever imported, and the first import of each compiles it.
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --no-compile --requirement requirements.lock
	$(RUN) -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
