# Two commands matter: `make demo` and `make test`. Both install on first use and nothing after that.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where this is set, each worker rewrites the assertions of all tests in every run, and each process
# that tests start compiles snm.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-slow test-accelerators test-all check format bench clean

setup: $(VENV)/.installed

# pip compiles to bytecode on one core. compileall takes all.
define install
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"snm needs Python 3.11 to 3.13, and $(PYTHON) is {v[0]}.{v[1]}: run make PYTHON=python3.12 (or another)")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e '.$(1)' -c constraints.txt
	-$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib
	@touch $(VENV)/.installed
endef

$(VENV)/.installed: pyproject.toml constraints.txt
	$(call install)

# A second stamp, so that somebody who only wants the demo does not fetch the test tools. Its
# environment has what the first one has: pip runs once.
$(VENV)/.installed-dev: pyproject.toml constraints.txt
	$(call install,[dev])
	@touch $@

demo: setup
	$(BIN)/python -m experiments.demo

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

# Modules stay whole (`loadfile`): what one of its tests trained or compiled, the next one uses.
test: check
	$(BIN)/pytest -n 3 --dist loadfile

test-slow: $(VENV)/.installed-dev
	JAX_ENABLE_CHECKS=1 $(BIN)/pytest -n 2 --dist worksteal -m 'slow and not accelerators'
	XLA_FLAGS= $(BIN)/pytest -m bits

# An environment of its own: the compilers' packages announce themselves to every program that uses jax.
TARGETS := .venv-targets

$(TARGETS)/.installed: pyproject.toml constraints.txt
	test -x $(TARGETS)/bin/python || $(PYTHON) -m venv $(TARGETS)
	$(TARGETS)/bin/pip install --quiet --disable-pip-version-check -e '.[dev,target-tpu,target-cuda]' -c constraints.txt
	@touch $@

# ALL=1 adds the cases that take an hour.
test-accelerators: $(TARGETS)/.installed
	XLA_FLAGS= $(TARGETS)/bin/pytest -n 2 -m 'accelerators$(if $(ALL),, and not slow)' tests/targets

test-all: test test-slow test-accelerators

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]' -c constraints.txt
	$(BIN)/snm bench --shape eurlex amazoncat amazon670k --json bench.json

clean:
	rm -rf $(VENV) $(TARGETS) build *.egg-info
