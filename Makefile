# Two commands do everything on a machine with Python ≥ 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Compiled modules are kept, even where the environment forbids it: else every process of the tests compiles them anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install demo tour notebooks test test-changed test-slow mutants browser node axe postgres java clients bench bench-quick lint types layers docs site dist audit check clean

help:  ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

install: $(STAMP)  ## make the environment .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("discreet needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable . --group dev
	@touch $@

demo: install  ## a hospital behind its budget: questions, attacks, a report
	$(BIN)/python examples/hospital/demo.py

tour: install  ## the lower floors: noise, channels, accounting
	$(BIN)/python examples/tour.py

browser:  ## find Chromium for the tests of pages, or install it
	@for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq chromium >/dev/null; \
	else echo "no Chromium found: install one, or the tests of pages are skipped"; fi

node:  ## find Node.js for the tests of scripts of pages, or install it
	@command -v node >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq nodejs >/dev/null; \
	else echo "no Node.js found: install it, or the tests of scripts of pages are skipped"; fi

axe: node  ## find axe-core for the tests of the console, or install it outside the project
	@test -f $${DISCREET_AXE:-$$HOME/.cache/discreet/node_modules/axe-core/axe.min.js} && exit 0; \
	if command -v npm >/dev/null; then mkdir -p $$HOME/.cache/discreet && npm install --silent --no-audit --no-fund --prefix $$HOME/.cache/discreet axe-core@4; \
	else echo "no npm found: install it, or accessibility of the console is not tested"; fi

postgres:  ## find PostgreSQL for the tests of its stores and its engine, or install it
	@if command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq postgresql >/dev/null; \
	else echo "no PostgreSQL found: install one, or the tests of its store are skipped"; fi

clients:  ## find PostgreSQL's clients for the tests of its door (psql, JDBC, Node's pg), or install them
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq; \
	command -v psql >/dev/null || apt-get install -y -qq postgresql-client >/dev/null; \
	test -e /usr/share/java/postgresql.jar || apt-get install -y -qq libpostgresql-jdbc-java default-jre-headless >/dev/null; fi; \
	test -d .clients/node_modules/pg || (command -v npm >/dev/null && npm install --silent --prefix .clients pg >/dev/null) || \
	echo "no Node.js with pg: its test is skipped"

java:  ## find a Java runtime for the tests of the Spark engine, or install it
	@command -v java >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq default-jre-headless >/dev/null; \
	else echo "no Java found: install a JRE, or the tests of the Spark engine are skipped"; fi

notebooks: install  ## run the notebooks and keep what they show
	$(BIN)/python examples/notebooks/run.py

test: install browser node axe postgres java clients  ## run all tests but the slow ones
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 25 --durations-min 2 -m "not slow"

test-changed: install  ## run the tests that the changes since main can touch
	$(BIN)/python tests/changed.py

test-slow: install  ## run the long statistical tests
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 25 --durations-min 2 -m slow || test $$? -eq 5  # 5: there are none

mutants: install node  ## break the product on purpose, one sabotage at a time: the tests must notice
	$(BIN)/python tests/mutants/mutants.py

bench: install  ## measure against peers and limits (installs peers outside the project)
	$(BIN)/python -m bench

bench-quick: install  ## the same on little work in under 5 minutes, with the peers that are there: build/bench/index.html
	$(BIN)/python -m bench --quick --out build/bench

lint: install  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## strict types
	$(BIN)/mypy

layers: install  ## the house: who may import whom
	$(BIN)/lint-imports

docs: install  ## run the Python examples of the documentation; `make test` runs its commands
	$(BIN)/python -m pytest -q README.md docs --ignore=docs/site

site: install  ## build the documentation as a site that works offline (build/site)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --group site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --clean

dist: install  ## wheel and source archive, checked, installed and run in an empty environment
	rm -rf dist build/dist-env
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --group dist
	$(BIN)/python -m build --installer uv --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/dist-env
	$(BIN)/uv pip install --quiet --python build/dist-env/bin/python dist/*.whl
	cd build && dist-env/bin/discreet --version && dist-env/bin/discreet claims A6 B3 B11 C6 --fast --force -o dist-claims.html
	cd build && rm -rf dist-demo && dist-env/bin/discreet demo --folder dist-demo

audit: install  ## look up the pinned dependencies in the public list of vulnerabilities, where it can be reached
	$(BIN)/uv tool run --quiet pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off

check: lint types layers docs site test  ## everything that CI runs, but the slow tests

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-out
