# make demo, make test: both do all their own set-up, in .venv, with python3 (3.11 or newer).
PYTHON ?= python3
VENV ?= .venv
# Five workers mostly wait, each for a real Slurm; the others, and what the five do after it, keep two cores busy.
WORKERS ?= 7

# Releases of Slurm beside the installed one: all that a real Slurm decides about runs on each of them.
RELEASES := 24.11 26.05

# Bytecode is kept: where the environment forbids it (as many container images do), every worker of the tests would rewrite
# the assertions of all test files again, and every process compile the sources that it imports.
export PYTHONDONTWRITEBYTECODE :=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
STAGE := tools/stage
QUICK := not slow
PYTEST := $(BIN)/python -m pytest
SPREAD = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
SPHINX := $(BIN)/sphinx-build -q -W --keep-going -b html

.DEFAULT_GOAL := help
.PHONY: help demo test t test-core test-slow coverage mutate bench lint format docs check-docs wheel lock warm system flux-lab clean distclean

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: $(VENV)/.core ## One generated week on 980 nodes, uncapped beside a 35 % cap
	@$(BIN)/wattqueue demo

# What comes before the tests takes one core each, so two of them run side by side. The main run comes last, so that the
# last line is pytest's own. Groups of tests come in the order that tests/conftest.py gives them.
test: system $(VENV)/.dev ## Every test but the slow ones
	@$(MAKE) --silent --no-print-directory -j2 --output-sync=target stage-warm stage-check-docs stage-lint
	@echo "=== tests"
	@$(PYTEST) $(SPREAD) -m "$(QUICK)" --durations=25 --durations-min=20

stage-%:
	@$(STAGE) $* $(MAKE) --silent --no-print-directory $*

# Without the compiler most single tests take seconds; JIT=1 runs compiled kernels (and compiles them, once).
t: $(VENV)/.dev ## One test or a folder: make t T=tests/x.py::name (JIT=1: with compiled kernels)
	@NUMBA_DISABLE_JIT=$(if $(JIT),0,1) $(PYTEST) -q $(if $(JIT),,-m "not compiled") $(T)

# The fast suite tries its properties on the same few examples each time; here they are tried on new ones.
PROPERTIES := $(addprefix tests/,checks kernels live model parts policy sim wattqueue_agent wattqueue_grid wattqueue_studies)
test-slow: system $(VENV)/.dev warm ## The slow tests: longer searches, 64 emulated nodes, other releases of Slurm, a wheel
	@tools/system-packages.sh releases emulation
	@tools/slurm-releases.sh
	@HYPOTHESIS_PROFILE=thorough $(PYTEST) -m slow
	@HYPOTHESIS_PROFILE=dev $(PYTEST) -q $(SPREAD) -m "$(QUICK) and not slurm and not flux and not browser" $(PROPERTIES)
	@for release in $(RELEASES); do \
	  echo "=== Slurm $$release"; \
	  WATTQUEUE_ADVERSARIAL_S=$${WATTQUEUE_ADVERSARIAL_S:-600} WATTQUEUE_SLURM_RELEASE=$$release $(PYTEST) -m slurm tests/live tests/wattqueue_agent tests/wattqueue_grid || exit 1; \
	done

# Tests of other packages, and of the repository as a whole, need more than the core.
CORE_TESTS = $(filter-out tests/wattqueue_% $(patsubst %,tests/%,architecture bench fuzz package tools),$(patsubst %/,%,$(wildcard tests/*/)))
test-core: $(VENV)/.dev ## The core's tests where the other packages cannot be imported (T=tests/api: some of them)
	@$(BIN)/python -m tools.core_wheel $(VENV)-core
	@$(VENV)-core/bin/python -m pytest $(SPREAD) -m "$(QUICK)" $(or $(T),$(CORE_TESTS))

# What decides, and the kernels it calls: folders of a package in src, or packages, and the folders of tests of these names. What reads, writes and reports calls the same
# kernels, and runs in `make test`; all of it here would take as long once more. COVER="formats cli" covers others.
COVER ?= kernels model parts policy sim live checks wattqueue_agent wattqueue_grid
comma := ,
space := $(subst x,,x x)
COVERED = $(subst $(space),$(comma),$(foreach name,$(COVER),src/*/$(name)/* src/$(name)/*))
coverage: $(VENV)/.dev ## Coverage of what decides by its fast tests, kernels as plain Python (continuous integration runs it)
	@$(BIN)/coverage erase
	@HYPOTHESIS_PROFILE=ci-cover NUMBA_DISABLE_JIT=1 $(PYTEST) -q $(SPREAD) -m "$(QUICK) and not compiled" --cov --cov-report= --no-header -r fE \
	  $(patsubst %,tests/%,$(COVER))
	@$(BIN)/coverage report --include="$(COVERED)"

# Kernels as plain Python, as in the coverage run: nothing is compiled, and coverage sees which tests run them.
mutate: $(VENV)/.dev ## Mutation testing: make mutate N=40 (SEED=1, PACKAGES="kernels policy", FRESH=1, AGAIN=out/mutation.json)
	@$(BIN)/python -m tools.mutation --places $(or $(N),40) --seed $(or $(SEED),1) $(if $(PACKAGES),--packages $(PACKAGES)) \
	  $(if $(TESTS),--tests $(TESTS)) $(if $(FRESH),--fresh) $(if $(AGAIN),--again $(AGAIN))

bench: $(VENV)/.dev ## The benchmarks: a table, and JSON in bench/results
	@$(BIN)/python -m bench

lint: $(VENV)/.dev ## ruff and mypy
	@$(BIN)/ruff check src tests examples bench tools docs
	@$(BIN)/ruff format --check --quiet src tests examples bench tools docs
	@$(BIN)/mypy

format: $(VENV)/.dev ## Bring the code into the formatter's shape
	@$(BIN)/ruff check --fix src tests examples bench tools docs
	@$(BIN)/ruff format src tests examples bench tools docs

docs: $(VENV)/.dev ## The user guide and API reference, in docs/_build/html
	@$(SPHINX) docs docs/_build/html

check-docs: $(VENV)/.dev # The same without pages of highlighted sources and the tree of pages in each page
	@$(SPHINX) -t check docs docs/_build/check

LOCK = $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --resolver=backtracking

lock: $(VENV)/.dev ## Renew both lock files (with the oldest Python supported: Debian 12 has 3.11.2)
	$(LOCK) --upgrade --all-extras --output-file requirements-dev.lock pyproject.toml
	@# An extra that names another one brings WattQueue itself, which has no hash: the lock would be refused.
	@sed -i '/^# WARNING: pip install will require/,/^wattqueue @ /d' requirements-dev.lock
	$(LOCK) --upgrade --extra parts --build-deps-for editable --constraint requirements-dev.lock --output-file requirements.lock pyproject.toml

wheel: $(VENV)/.dev ## Wheels in dist: one with compiled kernels for x86-64 (needs gcc), one without
	@$(BIN)/python -m tools.wheel

warm: $(VENV)/.dev # Every worker of the tests would compile these kernels otherwise
	@$(BIN)/python -m tests.warm

system:
	@tools/system-packages.sh

flux-lab: ## Build a Flux to test against, once (tests use WATTQUEUE_FLUX, else flux on the PATH, else skip)
	@tools/flux-lab.sh

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "WattQueue needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1) (make PYTHON=python3.12 ...)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "No venv for $(PYTHON): on Debian, apt-get install python3-venv"; exit 1; }

# The lock names every package, so nothing is resolved: with a resolver, a release newer than the lock (an extra of a
# locked package, which pip matches before the lock's line) ends the installation.
LOCKED := install --no-deps --require-hashes -r
$(VENV)/.core: requirements.lock pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "Setting up $(VENV) ..."
	@$(PIP) $(LOCKED) requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/pyvenv.cfg
	@$(STAGE) "set up $(VENV)" $(PIP) $(LOCKED) requirements-dev.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.core

clean: ## Remove what was built, keep the environment
	@rm -rf build dist out docs/_build docs/api/generated bench/results .mutation .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean ## Remove the environment too
	@rm -rf $(VENV) $(VENV)-core
