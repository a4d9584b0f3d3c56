# SPDX-License-Identifier: Apache-2.0
# The commands of the README. The build itself is CMake; see CMakePresets.json.

PREFIX ?= /usr/local
FORMATTED = git ls-files -co --exclude-standard '*.c' '*.h' '*.cu'

all: build/release/build.ninja
	@cmake --build --preset release

demo: setup build/release/build.ninja
	@cmake --build --preset release --target tools/all examples/all
	@build/release/bin/oriel demo

check: setup all
	@ctest --preset check

check-all: setup all
	@ctest --preset release

asan tsan debug clang: setup
	@$(MAKE) --no-print-directory build/$@/build.ninja
	@cmake --build --preset $@
	@ctest --preset $@

check-python: setup build/release/build.ninja
	@cmake --build --preset release --target oriel oriel_tool oriel_python
	@ctest --preset release -R '^python/'

check-torch: setup
	@scripts/check-torch

wheel: setup
	@scripts/wheel

field-report: build/release/build.ninja
	@cmake --build --preset release --target field-report

install: build/release/build.ninja
	@cmake --build --preset release --target oriel oriel_static oriel_p2p_mock oriel_p2p_calls oriel_mpi_if_found oriel_tool
	@cmake --install build/release --prefix $(PREFIX)

format:
	@$(FORMATTED) | xargs clang-format -i

clean:
	@rm -rf build

setup:
	@scripts/setup

# Errors and warnings of the configuration go to standard error and stay visible.
build/%/build.ninja:
	@echo "configuring build/$*"
	@cmake --preset $* >/dev/null

help:
	@echo "make                 build the library, the tools and the tests into build/release"
	@echo "make demo            install what is missing, build, show what Oriel does with 4 ranks"
	@echo "make check           install what is missing, build, run the tests for a machine without GPU and NIC"
	@echo "make check-all       the long ones, too: more ranks, more liberties of the network, killed ranks, soak;"
	@echo "                     longer still: ctest --preset release -C adversary -L adversary,"
	@echo "                     ctest --preset release -C shapes -R gather_shapes"
	@echo "make check-python    the tests of the Python package alone"
	@echo "make asan            the same tests under AddressSanitizer and UBSan"
	@echo "make tsan            the same tests under ThreadSanitizer"
	@echo "make debug           the same tests without optimisation"
	@echo "make clang           the same tests, compiled by clang"
	@echo "make field-report    the tool with the conformance suite in one file that needs libc alone"
	@echo "make check-torch     tests of oriel.torch, in an environment with torch (5.4 GB) that it makes"
	@echo "make wheel           a wheel of the Python package for any machine with glibc 2.34, into dist/"
	@echo "make install         into PREFIX ($(PREFIX)); DESTDIR is heeded"
	@echo "make format          clang-format all sources"
	@echo "make clean           remove build/"

.NOTPARALLEL:
.PHONY: all demo check check-all check-python check-torch asan tsan debug clang wheel field-report install format clean setup help
.PRECIOUS: build/%/build.ninja
