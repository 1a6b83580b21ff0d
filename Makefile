# One command per job; each one makes the environment it needs.
#   make demo    the whole story on the Palmer penguins, into demo-output/
#   make studio  the page on which to ask a model of the penguins, in a browser
#   make test    lint, types, every test and the docs
#   make docs    the docs, into site/
#   make pictures  the pictures of the README and the docs, made afresh
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
READY   = $(VENV)/.ready

.PHONY: help setup demo studio test lint types tests docs pictures format clean
help:
	@grep -E '^#   make' Makefile | cut -c3-

# torch first and pinned: an unpinned torch pulls a CUDA build of several gigabytes.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable ".[dev]"
	@touch $(READY)

setup: $(READY)

demo: $(READY)
	$(BIN)/harpoon demo --output demo-output

# The demo leaves its model behind; where it is there already, nothing is trained.
demo-output/penguins.harpoon: | $(READY)
	$(BIN)/harpoon demo --output demo-output

studio: demo-output/penguins.harpoon
	$(BIN)/harpoon serve demo-output/penguins.harpoon --open

test: lint types tests docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# One thread per worker: two workers on two cores, and small networks gain nothing from more.
tests: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup --cov --cov-report=term-missing:skip-covered

# Warnings are errors; nothing is fetched, neither here nor by who reads the pages. They open as files, too; only the
# search wants a server: python -m http.server -d site. (The variable silences an advertisement.)
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

pictures: demo-output/penguins.harpoon
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/screenshots.py demo-output/penguins.harpoon

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo-output site .mypy_cache .ruff_cache .pytest_cache .coverage
