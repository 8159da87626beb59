# The front door: `make help` lists what it opens. CMake does the work (CMakePresets.json).
PRESET ?= default
PRESETS := default debug asan tsan
PREFIX ?= /usr/local
BUILD := $(if $(filter default,$(PRESET)),build,build/$(PRESET))

# More words for the program behind a target: make test ARGS='-R lock', make bench ARGS=--help
ARGS ?=

# The groups of scripts/deps that presets need.
needs = build $(if $(filter debug tsan,$(1)),clang)

.PHONY: all examples demo test test-all bench lint format install clean help

all: $(BUILD)/build.ninja ## build libacre.so, libacre.a and the tool acre
	@cmake --build $(BUILD) --target product

# Ninja runs CMake again by itself when a CMake file changes; only the first run is ours.
$(BUILD)/build.ninja: CMakePresets.json
	@scripts/deps $(call needs,$(PRESET))
	@cmake --preset $(PRESET) >/dev/null
	@touch $@

demo: all ## show what acre does, on this machine's GPU or without one
	@$(BUILD)/acre demo $(ARGS)

examples: $(BUILD)/build.ninja ## build the programs of examples/, into build/examples
	@scripts/deps test
	@cmake --build $(BUILD) --target product examples

test: ## build and run the tests of one preset: make test PRESET=tsan
	@scripts/deps $(call needs,$(PRESET)) test
	@scripts/run-tests $(PRESET) -- $(ARGS)

test-all: ## the tests of every preset, with a table at the end
	@scripts/deps $(call needs,$(PRESETS)) test
	@scripts/run-tests $(PRESETS) -- $(ARGS)

bench: all ## measure
	@$(BUILD)/acre bench $(ARGS)

lint: ## format, static analysis, shell scripts; changes nothing
	@scripts/deps build clang lint
	@scripts/lint

format: ## rewrite the C sources in the project's format
	@scripts/deps lint
	@scripts/lint --format

install: all ## install to PREFIX (/usr/local), below DESTDIR if that is set
	@cmake --install $(BUILD) --prefix "$(PREFIX)"

clean: ## remove what was built
	@rm -rf build acre-demo

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12
	@echo "PRESET is one of: $(PRESETS)"
