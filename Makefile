# `make serve` and `make test` are all a newcomer needs; both set up what they use and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The pinned ggml source is fetched once and kept here for every build of the native library.
export KESTREL_GGML_CACHE ?= $(CURDIR)/build/ggml
export PIP_DISABLE_PIP_VERSION_CHECK = 1
NATIVE := $(shell find native -type f)

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-quick lint format sanitize bench clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## environment in .venv with the native library built

serve: setup ## start the server with the embedded default voice (ARGS="--port 9000 ...")
	@exec $(BIN)/kestrel serve $(ARGS)

test: $(VENV)/.test ## run all tests
	$(BIN)/python -m pytest $(ARGS)

test-quick: $(VENV)/.test ## run the tests without the ones marked heavy
	$(BIN)/python -m pytest -m "not heavy" $(ARGS)

lint: $(VENV)/.lint ## ruff, mypy --strict and clang-format
	$(BIN)/ruff check kestrel tests training bench
	$(BIN)/ruff format --check kestrel tests training bench
	$(BIN)/mypy
	find native -name '*.cpp' -o -name '*.h' -o -name '*.c' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(VENV)/.lint ## let ruff and clang-format rewrite the sources
	$(BIN)/ruff check --fix-only kestrel tests training bench
	$(BIN)/ruff format kestrel tests training bench
	find native -name '*.cpp' -o -name '*.h' -o -name '*.c' | xargs $(BIN)/clang-format -i

sanitize: $(VENV)/.installed ## native tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(BIN)/pip install --quiet cmake ninja
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cmake -S native -B build/sanitize -G Ninja -DKESTREL_SANITIZE=ON -DKESTREL_TESTS=ON \
	  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGGML_SOURCE_DIR=$$(ls -d $(KESTREL_GGML_CACHE)/libggml_python-*/ggml)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ninja -C build/sanitize kestrel_tests
	TMPDIR="$(CURDIR)/build" UBSAN_OPTIONS=print_stacktrace=1 build/sanitize/kestrel_tests kestrel/voices/default.gguf 300

bench: $(VENV)/.test ## memory and time per phase of the embedded voice and of full-size Audio8 dimensions
	$(BIN)/python -m bench.phases $(ARGS)

clean: ## remove the environment and everything built
	rm -rf $(VENV) build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=23.2'

$(VENV)/.installed: pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/pip install --quiet -e .
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(BIN)/pip install --quiet -e '.[test]' --config-settings=build.verbose=false
	@touch $@

$(VENV)/.lint: $(VENV)/.installed
	$(BIN)/pip install --quiet -e '.[lint]'
	@touch $@
