# Each target sets up what it uses; nothing has to be installed first but Python, Java and make.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
CLASSES := .cache/spark.jsa

.PHONY: demo test soak fuzz mutate bench bench-aqhi bench-learned bench-recorded bench-incremental lint format setup lock wheel clean
.DEFAULT_GOAL := test

setup: $(STAMP)

# --no-build-isolation: build tools come from the lock too, so that nothing is installed unpinned.
$(STAMP): requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headgate needs Python 3.11 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Starts a private HBase, Kafka, proxy and agent, runs the AQHI dataflow, stops everything again.
demo: setup
	$(BIN)/headgate demo aqhi

# With them Spark, HBase, Kafka and Thrift servers start in half the processor time, and there are
# dozens of starts.
$(CLASSES): $(STAMP) tests/class_archive.py
	$(BIN)/python tests/class_archive.py

# At once: most tests of the real stack wait for something. The processes share one stack, and each
# has the tests of a file together, which share what they start. Programs that they start find their
# modules compiled, whatever the machine's environment says of that.
JOBS ?= 3
test: export PYTHONDONTWRITEBYTECODE :=
test: setup $(CLASSES)
	$(BIN)/python -m pytest -m "not soak" -n $(JOBS) --dist loadfile --no-loadscope-reorder

# The long seeds of the fault tests, and many examples of what is true of all; ARGS=--resume goes on
# where it stopped, as far as neither a test's file nor the product has changed since.
soak: setup $(CLASSES)
	$(BIN)/python -m pytest -m soak --timeout 7200 $(ARGS)
	$(BIN)/python -m pytest -m "hypothesis and not soak" --hypothesis-profile soak --timeout 7200 $(ARGS)

# Looks for inputs that break what reads bytes from outside: BUDGET seconds of a processor for each
# of TARGETS, or of all. Where atheris does not install, inputs are damaged good ones, as in the tests.
BUDGET ?= 600
fuzz: setup
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.lock
	$(BIN)/python tests/fuzz/run.py --seconds $(BUDGET) $(TARGETS)

# Changes the program in COUNT small ways, chosen by SEED among FOLDERS (engine, hbase, recording,
# sessions, replay), and lists the changes that no test notices; goes on where it stopped.
SEED  ?= 1
COUNT ?= 2000
mutate: setup
	$(BIN)/python tests/mutants/mutate.py --seed $(SEED) --count $(COUNT) $(ARGS) $(FOLDERS)

# Ratios of two things measured in one run; not tests.
bench: setup
	@set -e; for program in tests/bench/*.py; do echo "== $$program"; $(BIN)/python $$program; done

# The first paper's evaluation on a private stack; ARGS=--quick, 24 waves; ARGS=--computed, no stack.
bench-aqhi: setup
	$(BIN)/headgate demo evaluation $(ARGS)

# The second paper's evaluation with learned triggers, over tables of all waves; ARGS=--only AQHI.
# Writes build/bench-learned.html. Before it, an engine has to decide as those tables say; after it
# come dataflows that change in service.
bench-learned: setup
	$(BIN)/python -m evaluation.learned.engine_replay
	$(BIN)/python -m evaluation.learned.run $(ARGS)
	$(BIN)/python -m evaluation.learned.drawn.drift

# Learned triggers on recorded years, where they are: ARGS=--data FOLDER.
bench-recorded: setup
	$(BIN)/python -m evaluation.learned.beijing $(ARGS)

# Incremental stages: an increment's cost while the state grows to 50 million keys, and against
# Spark's own state. Writes build/bench-incremental.html; ARGS=--only spark, or ARGS="--rows 500000".
bench-incremental: setup
	$(BIN)/python -m evaluation.incremental.run $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A wheel with a compiled hot path, for hosts with traffic; needs a C compiler.
wheel: setup
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/python -m pip wheel --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --wheel-dir dist .

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The locks name no registry: pip asks the one that the machine is set up for.
LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --quiet
lock:
	$(LOCK) --group build --output-file requirements-build.lock
	$(LOCK) --group airflow --output-file requirements-airflow.lock
	$(LOCK) --group fuzz --output-file requirements-fuzz.lock
	$(LOCK) pyproject.toml --all-extras --group dev --output-file requirements.lock
