# The commands of the course. `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Inside the activated conda environment of environment.yml its Python is used; otherwise .venv is made and used.
ifeq ($(CONDA_DEFAULT_ENV),flash-attention-course)
PYTHON := $(CONDA_PREFIX)/bin/python
READY := $(CONDA_PREFIX)/.course-ready
else
PYTHON := .venv/bin/python
READY := .venv/.course-ready
endif

# The index that PyTorch's install page names for a CPU-only or another CUDA build: make setup TORCH_INDEX=…
TORCH_INDEX ?=
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check
LOCKED := $(PIP) --require-hashes --no-deps
TORCH = $(shell sed -n 's/^\(torch==[0-9.]*\).*/\1/p' deploy/requirements-torch.lock)
# Where HOME cannot be written, all that Triton, Jupyter and matplotlib keep goes to the cache folder.
ifneq ($(shell test -w "$(HOME)" && echo yes),yes)
KEPT := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flash-attention-course
export TRITON_CACHE_DIR := $(KEPT)/triton
export JUPYTER_DATA_DIR := $(KEPT)/jupyter/data
export JUPYTER_CONFIG_DIR := $(KEPT)/jupyter/config
export JUPYTER_RUNTIME_DIR := $(KEPT)/jupyter/runtime
export IPYTHONDIR := $(KEPT)/ipython
export MPLCONFIGDIR := $(KEPT)/matplotlib
endif
LECTURES = $(wildcard notebooks/[0-9][0-9]_*.ipynb)
TESTS ?= tests $(LECTURES)
# Four workers for two cores: one computes where another waits for a browser, a server or a time limit. Each on one thread: threads that
# wait for one another on a busy machine made some cells twenty times slower. Compiled modules are kept, whatever the shell says: over a
# hundred processes import them.
WORKERS = 4
TEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -n $(WORKERS) --dist loadgroup -q
NBVAL = --nbval --nbval-current-env --nbval-cell-timeout=300 --nbval-sanitize-with tests/nbval_sanitize.cfg -p no:cacheprovider

.PHONY: help
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-16s %s\n", $$1, $$2}'

.venv/bin/python:
	@command -v python3 >/dev/null || { echo "python3 is missing: install Python 3.11, 3.12 or 3.13"; exit 1; }
	@python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { echo "python3 is $$(python3 --version); the course needs 3.11, 3.12 or 3.13"; exit 1; }
	@echo "making .venv"
	@python3 -m venv .venv

$(READY): pyproject.toml requirements.lock deploy/requirements-torch.lock | $(PYTHON)
	@echo "installing the locked packages (a minute or two, once)"
ifdef TORCH_INDEX
	@$(PIP) --index-url $(TORCH_INDEX) $(TORCH)
else
	@wheels=$$(mktemp -d) && trap 'rm -rf "$$wheels"' EXIT && $(PYTHON) -m pip download --quiet --disable-pip-version-check --no-deps --dest "$$wheels" $(TORCH) \
		&& $(LOCKED) --no-index --find-links "$$wheels" -r deploy/requirements-torch.lock
endif
	@$(LOCKED) -r requirements.lock
	@if [ -z "$(TORCH_INDEX)" ] && $(PYTHON) -m pip show torch 2>/dev/null | grep -q '^Requires:.*cuda'; then \
		echo "installing CUDA's libraries"; $(LOCKED) -r deploy/requirements-cuda.lock; fi
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: setup
setup: $(READY)  ## make .venv with the locked packages (lab and test do this by themselves)

# Threads of several open lectures on few cores: one that waits lets the others work.
JUPYTERLAB = echo "JupyterLab opens at $(1)/00_start_here.ipynb; stop it with Ctrl+C" && OMP_WAIT_POLICY=passive \
	$(PYTHON) -m jupyterlab --ip=127.0.0.1 --LabApp.app_settings_dir="$(CURDIR)/.jupyter" \
	--LabApp.default_url=/lab/tree/$(1)/00_start_here.ipynb $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_FLAGS)

.PHONY: lab
lab: work  ## open JupyterLab at the first lecture, in your own copy: work/
	@$(call JUPYTERLAB,work)

.PHONY: work
work: $(READY)  ## make or renew your own copy of the lectures (lab does); FRESH=05 puts a new 05 beside one that you changed
	@$(PYTHON) -m course_lib.publish.working_copy work $(if $(FRESH),--fresh "$(FRESH)")

.PHONY: edit
edit: $(READY)  ## open JupyterLab at the originals, with outputs and answers: for authors
	@$(call JUPYTERLAB,notebooks)

.PHONY: present
present: $(READY)  ## a lecture as live slides in JupyterLab, with your notes: make present L=05
	@test -n "$(L)" || { echo "which lecture? make present L=05"; exit 1; }
	@test -d notebooks/slides || { echo "a student's copy has no slides; make lab opens the lectures"; exit 1; }
	@$(PYTHON) -m course_lib.publish.present "$(L)" $(LAB_FLAGS)

.PHONY: test
test: $(READY)  ## run the tests: the library, and each lecture cell by cell; TESTS=… some of them
	@test -d tests || { echo "a student's copy has no tests; make lab opens the lectures"; exit 1; }
	@$(TEST) $(NBVAL) $(TESTS)

.PHONY: test-all
test-all: $(READY)  ## run those, too, that are left to a weekly run: every lecture live, every control's extremes
	@$(TEST) $(NBVAL) -m "" $(TESTS)

.PHONY: test-gpu
test-gpu: $(READY)  ## run the kernel tests on a GPU (fails where there is none)
	@COURSE_REQUIRE_GPU=1 OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n auto --maxprocesses 14 --dist loadgroup -q -m kernel -o faulthandler_timeout=240 tests

.PHONY: test-grid
test-grid: $(READY)  ## the kernels over the full grid of shapes, blocks and inputs (no GPU: over an hour)
	@COURSE_FULL_GRID=1 $(TEST) tests/kernels/test_one_head.py

.PHONY: student
student: $(READY)  ## copy the course without outputs, slides, answers, solutions and tests, for handing out: make student DIR=folder
	@$(PYTHON) -m course_lib.exercises student "$(or $(DIR),student)"

.PHONY: grade
grade: $(READY)  ## check the exercises in a folder of students' notebooks, each student's in a sandbox: make grade DIR=folder
	@test -n "$(DIR)" || { echo "which folder? make grade DIR=folder"; exit 1; }
	@$(PYTHON) -m course_lib.exercises grade "$(DIR)" $(if $(SANDBOX),--sandbox "$(SANDBOX)")

.PHONY: record
record: $(READY)  ## re-run all recorded measurements on this GPU
	@$(PYTHON) -m course_lib.recordings

.PHONY: bench
bench: $(READY)  ## attention() beside cuDNN, FlashAttention-2 and -4 and FlexAttention on a GPU: tables, record, docs/speed.md
	@$(PYTHON) -m course_lib.recordings.bench

.PHONY: peers
peers: $(READY)  ## install FlashAttention-4, which bench leaves out where it is missing
	@$(LOCKED) -r deploy/requirements-peers.lock

.PHONY: bench-host
bench-host: $(READY)  ## what a call of attention() costs the host, beside torch's own, on a GPU: table and record
	@$(PYTHON) -m course_lib.recordings.bench_host

.PHONY: capstone
capstone: $(READY)  ## train a GPT on Shakespeare with attention() (SDPA without a GPU), and let it talk; stopped, it goes on: make capstone ARGS="--steps 500"
	@$(PYTHON) -m course_lib.gpt $(ARGS)

.PHONY: bench-pictures
bench-pictures: $(READY)  ## how long a reader waits for each control's slowest setting, in JupyterLab in Chromium: table; L=05 one lecture, RECORD=1 record
	@test -d tests || { echo "a student's copy has no tests; make lab opens the lectures"; exit 1; }
	@$(PYTHON) tests/bench_pictures.py $(L) $(if $(RECORD),--record)

.PHONY: notebooks
notebooks: $(READY)  ## execute the lectures and refresh their outputs; FRESH=1 re-measures timings
	@$(PYTHON) -m course_lib.publish.notebooks $(if $(FRESH),--fresh)

.PHONY: picture
picture: $(READY)  ## redraw the map of the course and the moving tiles of the README
	@$(PYTHON) -m course_lib.publish.course_map
	@$(PYTHON) -m course_lib.publish.moving_picture

HUB := $(dir $(READY)).hub-ready
$(HUB): $(READY) deploy/package-lock.json
	@echo "installing JupyterHub and its proxy (once)"
	@$(LOCKED) -r deploy/requirements-hub.lock
	@command -v npm >/dev/null || $(LOCKED) -r deploy/requirements-node.lock
	@$(PYTHON) -m course_lib.publish.web deploy
	@touch $@

.PHONY: hub
hub: $(READY) $(HUB)  ## serve the lectures to a class with JupyterHub: make hub CLASS=class.txt; deploy/README.md tells how
	@test -f "$(CLASS)" || { echo "which class? make hub CLASS=class.txt, a file with the name of an account on each line"; exit 1; }
	@COURSE_HUB_CLASS="$(abspath $(CLASS))" $(PYTHON) -m jupyterhub -f deploy/jupyterhub_config.py $(HUB_FLAGS)

.PHONY: test-hub
test-hub: $(READY) $(HUB)  ## thirty students on a real JupyterHub of this machine, about ten minutes; needs root, leaves nothing behind; RECORD=1 record
	@COURSE_REQUIRE_HUB=1 COURSE_RECORD=$(RECORD) $(PYTHON) tests/private_accounts.py $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/test_hub.py

WEB := course_lib/publish/web/node_modules/.package-lock.json
$(WEB): course_lib/publish/web/package-lock.json | $(READY)
	@echo "fetching fonts, MathJax and reveal.js (once)"
	@command -v npm >/dev/null || $(LOCKED) -r deploy/requirements-node.lock
	@$(PYTHON) -m course_lib.publish.web

.PHONY: web
web: $(WEB)  ## fetch fonts, MathJax and reveal.js for the book and the slides (both do this by themselves)

.PHONY: book
book: slides  ## write the course as a book, with the slides, to site/: search, dark mode, clickable pictures; no kernel, no network
	@test -d docs/book || { echo "a student's copy has no book: its lectures have no outputs"; exit 1; }
	@$(PYTHON) -m course_lib.publish.book

.PHONY: slides
slides: $(READY) $(WEB)  ## write the lectures as reveal.js slides to site/slides/: they need no kernel and no network
	@test -d notebooks/slides || { echo "a student's copy has no slides; make lab opens the lectures"; exit 1; }
	@$(PYTHON) -m course_lib.publish.decks


.PHONY: lint
lint: $(READY)  ## ruff on code and notebooks, mypy
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@$(PYTHON) -c "import importlinter.cli as c; raise SystemExit(c.lint_imports(no_cache=True, no_logo=True))"

.PHONY: lock
lock:  ## resolve pyproject.toml into the locks, keeping what is pinned; UPGRADE=1 takes the newest that it allows
	@rm -rf .venv-lock && python3 -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	@UPGRADE=$(UPGRADE) .venv-lock/bin/python .ci/lock.py
	@rm -rf .venv-lock

.PHONY: test-latest
test-latest:  ## run all tests with the newest versions that pyproject.toml allows
	@rm -rf .venv-latest && python3 -m venv .venv-latest
	@echo "installing the newest allowed packages"
	@.venv-latest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade -e '.[dev]'
	@touch .venv-latest/.course-ready
	@$(MAKE) --no-print-directory test-all PYTHON=.venv-latest/bin/python READY=.venv-latest/.course-ready

.PHONY: clean
clean:  ## remove environments, caches and build files
	rm -rf $(READY) .venv .venv-* course_lib/publish/web/node_modules deploy/node_modules site build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
