# One command per job; each one makes the environment it needs, and no more.
#   make demo      the whole story on the Palmer penguins, into demo-output/
#   make studio    a page in the browser to query a model of the penguins
#   make check     lint, types, import contracts, unit tests and tiny models: what to run all day
#   make test      everything: make check, all other tests, the docs
#   make docs      the docs, into site/
#   make tables    the tables of measured numbers in the docs, from the records
#   make results   whatever a table or figure of the paper lacks (days; can be stopped and continued), and the pages.
#                  RESULTS=--list only prints what is missing and how long it takes
#   make pictures  the pictures of the README and the docs
#   make notebooks  the outputs of the notebooks in docs/notebooks
#   make release-check          the wheel, installed into a new environment and used; RELEASE="--python python3.13"
#   make release-check-minimum  the same with the lowest versions of the dependencies (may download gigabytes)
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One thread per worker: two workers on two cores, and small networks gain nothing from more. Files run in the order of
# their folders, those that train first, so that no worker waits at the end for a long file of the other.
PYTEST  = OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder

.PHONY: help setup demo studio check test lint types contracts tests docs tables results notebooks pictures release-check release-check-minimum format clean
help:
	@grep -E '^#   make' Makefile | cut -c3-

# torch first and pinned: an unpinned torch pulls a CUDA build of several gigabytes.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(PIP) --editable ".[demo]"
	@touch $@

$(VENV)/.studio: $(VENV)/.torch pyproject.toml
	$(PIP) --editable ".[demo,serve]"
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml benchmarks/pyproject.toml
	$(PIP) --editable ".[dev]" --editable benchmarks
	@touch $@

setup: $(VENV)/.dev

demo: $(VENV)/.demo
	$(BIN)/harpoon demo --output demo-output

# The demo leaves its model behind; if it exists, nothing is trained.
demo-output/penguins.harpoon: | $(VENV)/.studio
	$(BIN)/harpoon demo --output demo-output

studio: $(VENV)/.studio demo-output/penguins.harpoon
	$(BIN)/harpoon serve demo-output/penguins.harpoon --open

check: lint types contracts $(VENV)/.dev
	$(PYTEST) tests/model tests/unit

test: lint types contracts tests docs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

# CI measures the coverage of the first part, which takes two thirds longer then; tracing would slow down the trainings
# and clusters of the second, too. At a desk: make tests CI=1.
COVERAGE = $(if $(CI),--cov --cov-report=term-missing:skip-covered)
tests: $(VENV)/.dev
	$(PYTEST) $(COVERAGE) benchmarks/tests tests/model tests/unit benchmarks/harpoon_bench src
	$(PYTEST) tests/statistical tests/integration tests/property

# Warnings are errors; nothing is fetched, neither here nor by the pages. They open as files, too; only the search needs
# a server: python -m http.server -d site. (The variable silences an advertisement.)
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

tables: $(VENV)/.dev
	$(BIN)/python -m harpoon_bench tables

results: $(VENV)/.dev
	$(BIN)/python -m harpoon_bench results $(RESULTS)

notebooks: $(VENV)/.dev
	$(BIN)/python docs/notebooks.py

pictures: $(VENV)/.dev demo-output/penguins.harpoon
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/screenshots.py demo-output/penguins.harpoon

release-check: $(VENV)/.dev
	$(BIN)/python deploy/release_check.py $(RELEASE)

release-check-minimum: $(VENV)/.dev
	$(BIN)/python deploy/release_check.py --constraints constraints-minimum.txt --allow-cuda $(RELEASE)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo-output site .mypy_cache .ruff_cache .pytest_cache .coverage
