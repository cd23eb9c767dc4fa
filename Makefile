# The commands of the project. `make` lists them; each prepares what it needs.
PYTHON ?= python3
BIN    := .venv/bin
STAMP  := .venv/.built
# The tests start some thousand processes: where nothing may be kept, each would compile all modules anew (a third of its start).
export PYTHONDONTWRITEBYTECODE =
# Folders in which no test starts a Postgres of its own, by the command line; those that share one are marked `server`.
UNIT   := tests/unit tests/codec tests/chaos/test_checker.py tests/web tests/test_house.py tests/test_leases_doc.py tests/test_prose.py tests/test_public_api.py
.DEFAULT_GOAL := help
.PHONY: help build twins screenshots run unit test further older slow simulation seeds lint types check beyond ci bench bench-check chaos failover asan fuzz docs clean

help:  ## list the commands
	@echo "make run is the place to start; make check is for each commit, make ci what a change must pass."
	@awk -F ':[^#]*## *' '/^[a-z-]+:.*##/ {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(STAMP)  ## make .venv with the package, its C core and the development tools

$(STAMP): pyproject.toml setup.py $(wildcard csrc/*.c csrc/*.h csrc/build.py)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing fastq and the development tools into .venv: a minute or two where nothing is cached"
	$(BIN)/python -m pip install --disable-pip-version-check --config-settings editable_mode=compat --editable '.[embedded,dev]'
	@$(BIN)/python -c 'import fastq._fastq' 2>/dev/null || echo 'note: the C core was not built (no C compiler, or no Python.h): the Python twins do its work'; touch $@

run: build  ## show jobs at work: embedded Postgres, two processes; Ctrl-C ends it
	$(BIN)/fastq migrate && $(BIN)/python -m examples.quickstart
	@echo "two tracebacks will show: one job fails twice, on purpose, and is tried again"
	@echo "after some six seconds all are done, and it waits for more; look at them, or enqueue them again, from another terminal:"
	@echo "  .venv/bin/fastq jobs list        .venv/bin/python -m examples.quickstart        (Ctrl-C here ends it)"
	$(BIN)/fastq run examples.quickstart:registry --procs 2

twins: build  ## make the modules that block from the modules that await, after a change of one of these
	$(BIN)/python tools/twins.py

screenshots: build  ## make the pictures of docs/dashboard.md anew; takes a Chromium
	$(BIN)/python tools/screenshots.py

unit: build  ## run the tests that need no database: what to run after each edit
	$(BIN)/pytest -q -n 2 -m 'not slow and not server' $(UNIT)

test: build  ## run the tests, on Postgres 18
	@echo "some 12,000 tests, some 5 minutes on two cores that have nothing else to do"
	$(BIN)/pytest -q -n 4 --dist loadfile -m 'not slow and not further'

further: build  ## run the tests of the docs, examples, commands, benchmarks, features in whole hosts, and of hosts that take leading from each other
	$(BIN)/pytest -q -n 4 --dist loadfile -m 'further and not slow'

older: build  ## run the tests of the SQL on Postgres 16
	FASTQ_TEST_POSTGRES=16 $(BIN)/pytest -q -n 4 --dist loadfile -m 'not slow' tests/db

slow: build  ## run the tests that take longer than a few seconds each
	$(BIN)/pytest -q -m slow

simulation: build  ## try 10,000 schedules of the cursor and as many of the gatekeeper on a model of Postgres: some 15 minutes
	$(BIN)/python -m tests.simulation --seeds 10000
	$(BIN)/python -m tests.simulation --of queues --seeds 10000
	$(BIN)/python -m tests.simulation --of gate --seeds 10000

seeds: build  ## try 1,000 schedules of the gatekeeper; the tests try the first hundred
	$(BIN)/python -m tests.simulation --of gate --seeds 1000

lint: build  ## check style, format and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell docs fastq examples tools README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md

types: build  ## check types
	$(BIN)/mypy

check: lint types test  ## lint, types and tests: before each commit

beyond: lint types further older seeds asan fuzz

ci: test beyond  ## everything a change must pass: in CI `make test`, then `make beyond`

bench: build  ## measure, one question per file
	$(BIN)/pytest bench -q --benchmark-only

bench-check: build  ## fail if fastq has become slower, beside the floor of the same run; on a quiet machine, some four minutes
	$(BIN)/python -m bench.check

chaos: build  ## kill processes at random and account for every job
	$(BIN)/python -m tests.chaos --jobs 20000 --kills 23 --json
	$(BIN)/python -m tests.chaos.gated
	$(BIN)/python -m tests.chaos.workflows
	$(BIN)/python -m tests.chaos.effects
	$(BIN)/python -m tests.chaos.forgotten
	$(BIN)/python -m tests.chaos.lost_beats

failover: build  ## measure how long nobody leads after each kind of fault, and that no leader of the past writes
	$(BIN)/python -m tests.chaos.failover
	$(BIN)/python -m tests.chaos.failover --freeze 25 --two-leaders 60 --schedule 60

asan: build  ## test the C core under the address and undefined-behaviour sanitizers
	$(MAKE) -C csrc asan PYTHON=../$(BIN)/python

fuzz: build  ## feed both twins random bytes for a few minutes
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --only-binary :all: atheris || echo 'note: no atheris for this Python'
	$(MAKE) -C csrc fuzz PYTHON=../$(BIN)/python

docs: build  ## build the documentation as a site, in build/site
	$(BIN)/python tools/docs_site.py

clean:  ## remove everything that make made, the development database included
	rm -rf "$$(readlink .fastq/postgres/data || echo .fastq)" .fastq .venv build *.egg-info fastq/_fastq*.so .*_cache .benchmarks .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
