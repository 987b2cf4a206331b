# The same few commands for people and for CI. Each makes the virtual environment that it needs.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help demo test lint types check bench clean

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

demo: $(VENV)/.demo   ## 200 streaming chats at once on a SQLite file, and the proof that nothing was lost
	$(BIN)/diarist demo $(ARGS)

test: $(VENV)/.dev    ## all tests (servers: what this machine can start; see tests/servers/README.md)
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev    ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev   ## types, tests included
	$(BIN)/mypy
	$(BIN)/pyright

check: lint types test  ## everything that must hold before a change goes in

bench: $(VENV)/.dev   ## the short load tests, as ratios
	$(BIN)/python -m load_tests $(ARGS)

clean:           ## the virtual environment and what tools left
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[cli]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.demo
