# Every target sets up what it needs: a fresh machine needs only Python 3.11, make and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install reproduce test test-long test-ray lint bench bench-train clean

help:
	@echo "make reproduce   the paper's OutlierBandit and TwoChains comparison, beside the published numbers"
	@echo "make test        the test suite"
	@echo "make test-long   the tests that take minutes"
	@echo "make test-ray    the runner on a real Ray cluster on this machine"
	@echo "make lint        ruff and mypy"
	@echo "make bench       our buffer beside cpprb, Tianshou and TorchRL (builds their environments)"
	@echo "make bench-train the compiled trainer beside its floor and the torch trainer"

install: $(VENV)/installed
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet -e ".[experiments]" --group dev
	touch $@

$(VENV)-ray/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/pip install --quiet --upgrade pip
	$(VENV)-ray/bin/pip install --quiet -e ".[ray]" --group dev
	touch $@

reproduce: install
	$(BIN)/sibling-replay reproduce exact --env OutlierBandit TwoChains
	$(BIN)/sibling-replay table exact

test: install
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-long: install
	$(BIN)/python -m pytest -m long

test-ray: $(VENV)-ray/installed
	$(VENV)-ray/bin/python -m pytest -m ray tests/experiments

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/python benchmarks/setup_peers.py
	$(BIN)/python benchmarks/replay.py

bench-train: install
	$(BIN)/python benchmarks/train.py

clean:
	rm -rf $(VENV) $(VENV)-ray $(VENV)-bench
