# make demo: from nothing to classified files.   make test: everything that CI checks.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow clean

demo: $(VENV)/demo-installed
	$(BIN)/capstext train configs/demo.yaml --out runs/demo --resume
	$(BIN)/capstext evaluate runs/demo
	$(BIN)/capstext classify runs/demo data/sample --explain --format text

test: $(VENV)/dev-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

test-slow: $(VENV)/dev-installed
	$(BIN)/pytest -m slow --timeout=3600

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo-installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[demo]'
	touch $@

$(VENV)/dev-installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
