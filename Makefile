# `make help` lists the targets. CMake does the work (CMakePresets.json).
PRESET ?= default
PRESETS := default asan tsan

# PREFIX and LIBDIR of `make install` and `make uninstall`. LIBDIR is relative to PREFIX or
# absolute. By default CMake's GNUInstallDirs chooses: lib, lib64, or lib/<architecture> for
# PREFIX=/usr on Debian.
PREFIX ?= /usr/local
LIBDIR ?=

# TOOL=OFF builds and installs the library without the tool, which needs jansson and zlib.
TOOL ?=

BUILD := $(if $(filter default,$(PRESET)),build,build/$(PRESET))

# Arguments for the program of a target: make test ARGS='-R lock', make bench ARGS=--help
ARGS ?=

# The groups of scripts/deps that presets need.
needs = build $(if $(filter OFF,$(TOOL)),,tool) $(if $(filter asan tsan,$(1)),clang)

.PHONY: all configured examples demo test test-all bench heap-table lint format wheel dist deb test-packages abi coverage docs measurements install uninstall clean help

all: configured ## build libacre.so, libacre.a and the tool acre
	@cmake --build $(BUILD) --target acre_product

# Ninja runs CMake again when a CMake file changes. Only the first run, changes of the presets and of
# TOOL, and copies of the tree are here.
configured: $(BUILD)/build.ninja
	@scripts/configure $(BUILD) $(if $(TOOL),ACRE_TOOL=$(TOOL))

$(BUILD)/build.ninja: CMakePresets.json
	@scripts/deps $(call needs,$(PRESET))
	@$(if $(filter OFF,$(TOOL)),:,scripts/deps page || echo "Continuing without pages of acre report.")
	@scripts/configure $(BUILD) $(if $(TOOL),ACRE_TOOL=$(TOOL))

demo: all ## show what acre does, on this machine's GPU or without one
	@$(BUILD)/acre demo $(ARGS)

examples: configured ## build the programs of examples/, into build/examples
	@scripts/deps test
	@cmake --build $(BUILD) --target acre_product acre_examples

test: ## build and run the tests of one preset, but those that run compilers: make test PRESET=tsan
	@scripts/deps $(call needs,$(PRESET)) test
	@scripts/deps page || echo "Continuing without pages of acre report."
	@scripts/run-tests $(PRESET) -- $(ARGS)

test-all: ## all tests of every preset
	@scripts/deps $(call needs,$(PRESETS)) test
	@scripts/deps page browser || echo "Continuing without pages of acre report, or a browser for their tests."
	@scripts/deps programs || echo "Continuing without ffmpeg and Numba's own tests."
	@scripts/run-tests --all $(PRESETS) -- $(ARGS)

bench: all ## measure
	@$(BUILD)/acre bench $(ARGS)

heap-table: ## registers, code and compile time of kernels that use the heap, for every architecture and C++ version of nvcc
	@scripts/heap-table $(ARGS)

lint: ## format, static analysis, shell scripts, spelling; changes nothing (ARGS=--quick: without the analyzer)
	@scripts/deps build tool clang lint
	@scripts/lint $(ARGS)

format: ## rewrite the C sources in the project's format
	@scripts/deps lint
	@scripts/lint --format

# CROSS=x86_64-linux-gnu: builds for that architecture with Debian's cross compiler
# (gcc-x86-64-linux-gnu).
CROSS ?=

wheel: ## the Python package with libacre.so and the tool, in build/dist (CROSS=x86_64-linux-gnu: library only)
	@scripts/deps $(call needs,default)
	@python3 scripts/wheel $(if $(CROSS),--cross $(CROSS)) $(ARGS)

dist: ## the sources of the commit as tarballs, in build/dist; the same commit gives the same bytes
	@scripts/dist $(ARGS)

# In one call (make -j dist deb test-packages) they run in this order.
deb: $(filter dist,$(MAKECMDGOALS)) ## Debian packages of the commit, in build/dist, checked with lintian
	@scripts/deps $(call needs,default) package page
	@scripts/deb $(ARGS)

test-packages: $(filter dist deb,$(MAKECMDGOALS)) ## install the packages of `make dist deb` in a chroot, use and purge them (needs root, and at first a network)
	@scripts/deps build package
	@scripts/test-packages $(ARGS)

abi: configured ## record the ABI of libacre.so in tests/abi
	@scripts/deps test
	@cmake --build $(BUILD) --target acre_shared
	@scripts/abi $(BUILD)/libacre.so include tests/abi/libacre.abi
	@git --no-pager diff --stat -- tests/abi 2>/dev/null || true

coverage: ## run the tests and show how many lines of src/ and include/ they reach; a page in build/coverage
	@scripts/deps build tool test coverage
	@scripts/coverage $(ARGS)

docs: ## the public headers and documents as HTML, in build/docs/html; the picture of the layers
	@scripts/deps docs
	@scripts/docs

measurements: ## write the tables of docs/measurements.md from bench/results
	@scripts/deps docs
	@scripts/measurements

install: $(BUILD)/build.ninja ## install to PREFIX (/usr/local), below DESTDIR if that is set; LIBDIR for libraries
	@scripts/configure $(BUILD) ACRE_MACHINE_CODE=ON $(if $(TOOL),ACRE_TOOL=$(TOOL)) PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)"
	@cmake --build $(BUILD) --target acre_product
	@DESTDIR="$(DESTDIR)" scripts/install $(BUILD) "$(PREFIX)"

uninstall: ## remove what `make install` with the same PREFIX and DESTDIR installed
	@DESTDIR="$(DESTDIR)" scripts/install --remove $(BUILD) "$(PREFIX)"

clean: ## remove what was built
	@rm -rf build acre-demo

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 15
	@echo "PRESET is one of: $(PRESETS)"
