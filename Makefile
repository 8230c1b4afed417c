# Every target first makes the environment in .venv: new when there is none, updated when pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all test-capped test-oldest lint docs bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

# The stamp is written last and removed first: an environment without it was left half made, and is made anew.
$(READY): pyproject.toml constraints.txt
	test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	rm -f $@
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt --editable . --group dev
	touch $@

demo: $(READY) ## run the demonstration
	$(BIN)/capax demo

# The processes of pytest-xdist share the cores: one thread each.
test test-slow test-all test-capped: export OMP_NUM_THREADS = 1
# The processes that tests start need not compile capax anew each.
unexport PYTHONDONTWRITEBYTECODE

test: $(READY) ## run the tests that are quick, in five minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not very_slow"

test-slow: $(READY) ## run the slow tests, in ten minutes more
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not very_slow"

# The Pythons that capax is for, where they are at hand; not that of the environment again.
OTHERS = $(filter-out $(shell $(BIN)/python -c 'import sys; print("3.%d" % sys.version_info[1])'), \
	$(shell for one in 3.11 3.12 3.13 3.14; do python$$one -c "print($$one)" 2>/dev/null; done; true))
test-all: $(READY) ## run all tests, and those that are not very slow with the other Pythons that are at hand
	$(BIN)/python -m pytest -n 2 --dist worksteal
	$(MAKE) test-capped $(OTHERS:%=test-%)

# What is promised to the last bit holds with the instructions of other x86-64 processors, too.
CAPPED := tests/training tests/sweeps/test_packs.py tests/sweeps/test_executors.py tests/models/test_module.py
test-capped: $(READY) ## run the tests of training and packs as on processors with fewer instructions
ifeq ($(shell uname -m),x86_64)
	ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
		$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not very_slow" $(CAPPED)
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 \
		$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not very_slow" $(CAPPED)
endif

# In an environment of its own, made anew each time: by an interpreter, with the versions that a file pins.
define tested
	$(1) -m venv --clear $(2)
	$(2)/bin/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(2)/bin/python -m pip install --quiet --constraint $(3) --build-constraint constraints.txt --editable . --group test
	$(2)/bin/python -m pytest -n 2 --dist worksteal -m "not very_slow"
endef

test-oldest test-3.%: export OMP_NUM_THREADS = 1
test-oldest: ## run the tests, without the very slow ones, with the oldest versions that capax takes
	$(call tested,$(PYTHON),$(VENV)-oldest,constraints-oldest.txt)

test-3.%: # the same with another Python
	$(call tested,python3.$*,$(VENV)-3.$*,constraints.txt)

lint: $(READY) ## check style, format, types, and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY) ## build the documentation as a site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY) ## run the benchmarks
	$(BIN)/python -m benchmarks

clean: ## remove the environment, caches and build outputs
	rm -rf $(VENV) $(VENV)-* build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks examples docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
