# Everything a checkout needs; each target sets up what it uses.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test soak bench lint format setup lock clean
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

# The locks name no registry: pip asks the one that the machine is set up for.
LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --quiet
lock:
	$(LOCK) --group build --output-file requirements-build.lock
	$(LOCK) pyproject.toml --all-extras --group dev --output-file requirements.lock
