# Every target sets up what it needs: a fresh machine needs only Python 3.11, make and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Libraries we drop into, by extra; they cannot share one environment, so each has its own.
HOSTS := sb3 torchrl tianshou rllib

.PHONY: help install reproduce report docs docs-serve dist test-dist test-core test-oldest test test-long test-ray test-browser test-docs test-integrations lint bench bench-train bench-minatar \
	bench-hosts bench-keys golden works clean $(HOSTS:%=test-%)

help:
	@echo "make reproduce   the paper's OutlierBandit and TwoChains comparison, beside the published numbers"
	@echo "make report      the page, figures and tables from runs/ and results/ into report/"
	@echo "make docs        the documentation site into site/, for any browser, offline"
	@echo "make docs-serve  the same on http://127.0.0.1:8000, built anew when a page changes"
	@echo "make dist        wheel and sdist into dist/"
	@echo "make test        the test suite"
	@echo "make test-long   the tests that take minutes"
	@echo "make test-core   the core in any Python: make test-core PYTHON=python3.13"
	@echo "make test-oldest the same with the oldest NumPy and Numba admitted"
	@echo "make test-dist   wheel and sdist, installed where nothing else is"
	@echo "make test-ray    the runner on a real Ray cluster on this machine"
	@echo "make test-browser  the report in a real Chromium (installs Debian's if it is missing)"
	@echo "make test-docs   the site in a real Chromium: links, search, colours, the picture to play with"
	@echo "make test-integrations  the adapters against the real SB3, TorchRL, Tianshou and RLlib"
	@echo "make golden      every recorded draw, weight and value again, bit for bit"
	@echo "make works       docs/works.md, what trains where, from the tests that show it"
	@echo "make lint        ruff and mypy"
	@echo "make bench       our buffer beside cpprb, Tianshou and TorchRL (builds their environments)"
	@echo "make bench-train the compiled trainers beside their floors, the torch trainer and SB3"
	@echo "make bench-minatar a MinAtar training step in parts, beside a plain DQN loop"
	@echo "make bench-keys  what the key maps cost: add, batches, rekey, bytes an entry"
	@echo "make bench-hosts training steps in SB3, TorchRL, Tianshou and RLlib, with their replay and ours"

install: $(VENV)/installed
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet -e ".[report,minatar]" --group dev
	touch $@

# The site. No torch: the reference is read from the sources, not imported.
$(VENV)-docs/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/pip install --quiet --upgrade pip
	$(VENV)-docs/bin/pip install --quiet -e ".[report]" --group docs
	touch $@

docs: $(VENV)-docs/installed
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet

docs-serve: $(VENV)-docs/installed
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs serve --dev-addr 127.0.0.1:8000

$(VENV)-dist/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/pip install --quiet --upgrade pip
	$(VENV)-dist/bin/pip install --quiet --group dist
	touch $@

# The wheel is built from the sdist, so both hold the same.
dist: $(VENV)-dist/installed
	rm -rf dist
	$(VENV)-dist/bin/python -m build --no-isolation

BESIDE_ray := ,minatar
GROUPS_sb3 := --group worlds
GROUPS_sbx := --group worlds

# Torch first and pinned: a plain `torch` pulls gigabytes of GPU packages.
$(VENV)-%/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-$*
	$(VENV)-$*/bin/pip install --quiet --upgrade pip
	$(VENV)-$*/bin/pip install --quiet torch==2.13.0
	$(VENV)-$*/bin/pip install --quiet -e ".[$*$(BESIDE_$*),experiments]" --group test $(GROUPS_$*)
	touch $@

reproduce: install
	$(BIN)/sibling-replay reproduce exact --env OutlierBandit TwoChains
	$(BIN)/sibling-replay table exact

report: install
	$(BIN)/sibling-replay report

# One thread a process: small tensors gain nothing from more, and waiting threads would hold up tests.
test test-long test-ray test-browser test-docs $(HOSTS:%=test-%): export OMP_NUM_THREADS = 1

test: install
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-long: install
	$(BIN)/python -m pytest -m long

test-ray: $(VENV)-ray/installed
	$(VENV)-ray/bin/python -m pytest -m ray tests/studies/test_ray.py

test-browser: $(VENV)/browser
	$(BIN)/python -m pytest -m browser tests/browser --ignore tests/browser/test_site.py

# The core, and torch for `to_torch`, in whatever Python is given: make test-core PYTHON=python3.13
CORE_TESTS := tests/buffer tests/strategies tests/replay tests/diagnostics tests/grouping/test_key_map.py \
	tests/grouping/test_maps.py tests/test_docstrings.py tests/test_rng.py tests/test_files.py
CORE_OF := $(VENV)-core-$(notdir $(PYTHON))

test-core:
	$(PYTHON) -m venv $(CORE_OF)
	$(CORE_OF)/bin/pip install --quiet --upgrade pip
	$(CORE_OF)/bin/pip install --quiet torch==2.13.0
	$(CORE_OF)/bin/pip install --quiet -e . --group test $(PINS)
	OMP_NUM_THREADS=1 $(CORE_OF)/bin/python -m pytest -n 2 --dist loadfile $(CORE_TESTS)

# The oldest versions that pyproject.toml admits.
test-oldest: PINS := numpy==1.26.* numba==0.60.* scipy==1.11.* gymnasium==1.2.1
test-oldest: CORE_OF := $(VENV)-oldest
test-oldest: test-core

# Wheel and sdist, installed where nothing else is.
test-dist: install dist
	$(BIN)/python -m pytest -m dist tests/test_dist.py

test-docs: $(VENV)/browser docs
	$(BIN)/python -m pytest -m browser tests/browser/test_site.py

$(VENV)/browser: $(VENV)/installed
	@command -v chromium >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { \
			echo "test-browser needs Chromium at /usr/bin/chromium: apt-get install chromium"; exit 1; }; \
		apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; }
	$(BIN)/pip install --quiet --group browser
	touch $@

test-integrations: $(HOSTS:%=test-%)

$(HOSTS:%=test-%): test-%: $(VENV)-%/installed
	$(VENV)-$*/bin/python -m pytest tests/integrations/$*

# The table of what works where, written anew by the tests that show it.
works: export WRITE_WORKS = 1
works: install $(HOSTS:%=$(VENV)-%/installed)
	$(BIN)/python -m pytest tests/test_works.py
	$(VENV)-sb3/bin/python -m pytest tests/integrations/sb3/test_sb3_works.py
	$(VENV)-tianshou/bin/python -m pytest tests/integrations/tianshou/test_tianshou_works.py \
		tests/integrations/tianshou/test_tianshou_control.py
	$(VENV)-torchrl/bin/python -m pytest tests/integrations/torchrl/test_torchrl_works.py
	$(VENV)-rllib/bin/python -m pytest tests/integrations/rllib/test_rllib_works.py

golden: install
	$(BIN)/python tests/golden/record.py compare

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/python benchmarks/setup_peers.py
	$(BIN)/python benchmarks/replay.py

bench-train: install $(VENV)-sbx/installed
	$(BIN)/python benchmarks/train.py
	$(VENV)-sbx/bin/python benchmarks/vector.py

bench-minatar: install
	$(BIN)/python benchmarks/minatar_step.py

bench-keys: install
	$(BIN)/python benchmarks/keys.py

# TorchRL's own prioritized replay, which ours is timed beside, needs its extension; ours does not.
$(VENV)-torchrl/extension: $(VENV)-torchrl/installed benchmarks/build_torchrl_extension.py
	$(VENV)-torchrl/bin/pip install --quiet setuptools ninja
	PATH="$(CURDIR)/$(VENV)-torchrl/bin:$$PATH" $(VENV)-torchrl/bin/python benchmarks/build_torchrl_extension.py
	touch $@

bench-hosts: $(HOSTS:%=$(VENV)-%/installed) $(VENV)-torchrl/extension
	$(PYTHON) benchmarks/hosts.py $(HOSTS)

clean:
	rm -rf $(VENV) $(VENV)-*
