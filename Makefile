# `make serve` and `make test` are all a newcomer needs; both set up what they use and are quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The pinned ggml source is fetched once and kept here for every build of the native library.
GGML_CACHE := $(or $(KESTREL_GGML_CACHE),$(CURDIR)/build/ggml)
CMAKE := PATH="$(CURDIR)/$(BIN):$$PATH" KESTREL_GGML_CACHE="$(GGML_CACHE)" $(BIN)/cmake
export PIP_DISABLE_PIP_VERSION_CHECK = 1
SOURCES := $(shell find native -name '*.cpp' -o -name '*.c' -o -name '*.h')
# Python finds the package in this folder; the library is built beside it by CMake, not by pip.
INSTALL := $(BIN)/pip install --quiet -Cwheel.cmake=false -e

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-quick lint format sanitize bench clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: build/native/.built ## environment in .venv with the native library built

serve: setup ## start the server with the embedded default voice (ARGS="--port 9000 ...")
	@exec $(BIN)/kestrel serve $(ARGS)

test: setup $(VENV)/.test ## run all tests
	$(BIN)/python -m pytest $(ARGS)

test-quick: setup $(VENV)/.test ## run the tests without the ones marked heavy
	$(BIN)/python -m pytest -m "not heavy" $(ARGS)

lint: setup $(VENV)/.lint ## ruff, mypy --strict and clang-format
	$(BIN)/ruff check kestrel tests training bench
	$(BIN)/ruff format --check kestrel tests training bench
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)

format: $(VENV)/.lint ## let ruff and clang-format rewrite the sources
	$(BIN)/ruff check --fix-only kestrel tests training bench
	$(BIN)/ruff format kestrel tests training bench
	$(BIN)/clang-format -i $(SOURCES)

sanitize: setup ## native tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(CMAKE) -S native -B build/sanitize -G Ninja -DKESTREL_SANITIZE=ON -DKESTREL_TESTS=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo
	$(CMAKE) --build build/sanitize --target kestrel_tests
	TMPDIR="$(CURDIR)/build" UBSAN_OPTIONS=print_stacktrace=1 build/sanitize/kestrel_tests kestrel/voices/default.gguf 300

bench: setup $(VENV)/.test ## memory and time per phase of the embedded voice and of full-size Audio8 dimensions
	$(BIN)/python -m bench.phases $(ARGS)

clean: ## remove the environment and everything built
	rm -rf $(VENV) build kestrel/engine/_native

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=23.2'

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) '.[build]'
	@touch $@

build/native/.built: $(VENV)/.installed $(SOURCES) native/CMakeLists.txt $(wildcard native/cmake/*)
	$(CMAKE) -S native -B build/native -G Ninja -DKESTREL_IN_PLACE=ON --log-level=WARNING
	$(CMAKE) --build build/native --target kestrel
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(INSTALL) '.[test]'
	@touch $@

$(VENV)/.lint: $(VENV)/.installed
	$(INSTALL) '.[lint]'
	@touch $@
