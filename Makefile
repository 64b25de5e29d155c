# SPDX-License-Identifier: Apache-2.0
# A thin front of meson. `make help` lists what there is.

BUILD ?= build
BUILD_INSTALL ?= build-install
PREFIX ?= /usr/local
# Where Debian has libraries, asked of gcc: meson's guess depends on what else is installed.
LIBDIR ?= lib/$(shell gcc -print-multiarch 2>/dev/null)
DESTDIR ?=
export BUILD

# The system's meson with the system's python, whatever else comes first in PATH.
MESON = PATH="/usr/bin:/bin:$$PATH" meson
NINJA = PATH="/usr/bin:/bin:$$PATH" ninja

all: $(BUILD)/build.ninja
	@viewer/install
	@$(NINJA) -C $(BUILD)
	@ln -sfn src/cli/mayfly $(BUILD)/mayfly

$(BUILD)/build.ninja:
	@scripts/setup --check build
	$(MESON) setup $(BUILD)

# The packages that are missing, then a real program recorded and its report.
demo:
	@scripts/setup build viewer demo
	@$(MAKE) --no-print-directory all
	@scripts/demo $(BUILD)

# The three suites. The last line of each is "N passed, N failed, N skipped". test-long holds what takes
# minutes: sanitizers, fuzzing, installations, other systems; .ci/run runs it after test.
check: all
	@tests/run --suite check $(BUILD)

test: test-tools
	@tests/run $(BUILD)

test-long: test-tools
	@tests/newest_clickhouse/install
	@tests/run --suite long $(BUILD)

# What the tests use, installed and built.
test-tools:
	@scripts/setup build viewer test
	@viewer/install --tests
	@$(MAKE) --no-print-directory all

# Measures and writes bench/RESULTS.md: what is installed, which has no asserts.
bench:
	@scripts/setup build test
	@test -e $(BUILD)-bench/build.ninja || $(MESON) setup -Db_ndebug=true $(BUILD)-bench
	@$(NINJA) -C $(BUILD)-bench
	@bench/run $(BUILD)-bench

# make install [PREFIX=/usr/local] [LIBDIR=lib/x86_64-linux-gnu] [DESTDIR=/where/a/package/is/built]
install:
	@scripts/setup --check build
	@$(MESON) setup $(if $(wildcard $(BUILD_INSTALL)/build.ninja),--reconfigure) \
		--prefix="$(PREFIX)" --libdir="$(LIBDIR)" -Db_ndebug=true -Dtests=false -Dbench=false \
		$(BUILD_INSTALL)
	@viewer/install
	@$(NINJA) -C $(BUILD_INSTALL)
	DESTDIR="$(DESTDIR)" $(MESON) install --no-rebuild -C $(BUILD_INSTALL)
	@test -n "$(DESTDIR)" || ! test -w /etc/ld.so.cache || /sbin/ldconfig # or the loader finds no new library
	@ocaml/install "$(BUILD_INSTALL)" "$(PREFIX)" "$(DESTDIR)"

# The tarball of a release, which has the page built.
dist:
	@scripts/setup build viewer
	@$(MAKE) --no-print-directory all
	@scripts/make-dist $(BUILD)

# The Debian packages, in $(BUILD)/packages.
deb:
	@scripts/setup build viewer package
	@viewer/install
	@scripts/make-packages $(BUILD)/packages

# Another version would format some things otherwise.
FORMAT_VERSION = 14
format:
	clang-format-$(FORMAT_VERSION) -i $$(find include src ocaml python tests bench examples \
		-name node_modules -prune -o -name '*.[ch]' -print)

clean:
	rm -rf $(BUILD) $(BUILD_INSTALL) $(BUILD)-asan $(BUILD)-fuzz $(BUILD)-plain $(BUILD)-tsan \
		$(BUILD)-bench

help:
	@echo 'make            build $(BUILD)/mayfly'
	@echo 'make demo       install what is missing, build, record a program, print its report'
	@echo 'make check      build, run the unit tests and each command once (2 minutes)'
	@echo 'make test       install what is missing, build, run the tests (15 minutes)'
	@echo 'make test-long  the same with those that take long: sanitizers, fuzzing, installations, ...'
	@echo 'make bench      measure; writes bench/RESULTS.md'
	@echo 'make install    PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)'
	@echo 'make dist       the tarball of a release in $(BUILD)/dist'
	@echo 'make deb        Debian packages in $(BUILD)/packages'
	@echo 'make format     clang-format all sources'
	@echo 'make clean      remove what was built'

.PHONY: all demo check test test-long test-tools bench install dist deb format clean help
