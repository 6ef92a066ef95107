# The commands for newcomers. `make run` requires Rust and a C compiler; `make check` and `make test`
# install the other tools that they need if they may (root on a machine with apt).

# The formatter is searched for when it is used, because `tools` may only just have installed it.
CLANG_FORMAT = $(shell command -v clang-format-19 || echo clang-format)
C_FILES := $(shell find scheduler -name '*.[ch]') $(wildcard crates/native/include/*.h crates/native/include/*/*.h crates/lab/tests/decisions/*.c crates/policy/tests/c/*.[ch] vm/in-guest/*.c) vm/calls.c
CARGO_FLAGS := --locked
# Runs the parts that this machine supports, and notes how long each took.
PART := tests/part
# Debian's kernels into which every policy must load: the last one of each version in its archive. `make test`
# loads a policy of each scheduler into the newest one, in addition to the tests in the oldest one, which
# vm/build-kernel builds.
KERNELS := 6.16.12 6.17.13 6.18.15 6.19.14 7.0.13 7.2.13 7.3.4
# The tests in a guest that any change may break, long ones first; test-vm runs all tests in a guest, in full, with
# every policy.
VM_TESTS := capacity hotplug mixed-load starvation verifier@$(lastword $(KERNELS)) cgroups fairness record cage affinity clients smoke scx-simple

.PHONY: ablate properties run quick check checks test test-all properties test-python test-package pristine fuzz test-corpus misbehave soak soak-vm objects record-decisions docs book install matrix field cost mutants sensitivity bench bench-import vm-kernel test-vm test-kernels bench-vm predict format check-format check-prose check-licenses check-tools lint tools

run:
	cargo run --locked --release -- compare --machine rk3588 --workload game

# The inner loop, which takes a minute after a change of one file: format, prose, lints, unit tests, and the
# tests of the schedulers' C. cargo and the cache of objects rebuild only what has changed.
quick: check-format check-prose lint check-tools
	$(PART) "the unit tests and those of the schedulers' C" cargo test $(CARGO_FLAGS) --lib --bins --test c
	@$(PART) --end

# Checks to run before each commit, without virtual machines.
check: checks
	@$(PART) --end

checks: check-format check-prose check-licenses lint check-tools
	$(PART) "building the tests" cargo test $(CARGO_FLAGS) --no-run
	$(PART) "the unit tests" cargo test $(CARGO_FLAGS) --lib --bins
	$(PART) "the tests of crates and of the command" cargo test $(CARGO_FLAGS) --test '*'
	$(PART) "the examples in documentation" cargo test $(CARGO_FLAGS) --doc

# The checks that CI runs, in a clean clone. Dependencies are built once per machine, for all clones at this
# path (a cargo before 1.91 builds them in target/). Clones at two paths must not share the dependencies,
# because cargo confuses the two builds by their modification times.
test: export CARGO_BUILD_BUILD_DIR ?= $(HOME)/.cache/equipoise/build$(CURDIR)
test: checks
	$(PART) "the simulated kernel under a sanitizer" tests/sanitize
	$(PART) "the loader, which requires clang and libelf's headers" vm/build-loader --test
	$(PART) "the tests in virtual machines" --if 'vm/install-tools qemu-system-x86' vm/test --quick $(VM_TESTS)
	@$(PART) --end

# Everything, which takes hours.
test-all: test test-vm test-kernels test-python test-package

# Compiles the schedulers into a folder, which `EQUIPOISE_OBJECTS=DIR` makes any program use in place of its
# own schedulers: `make objects OBJECTS=DIR`.
OBJECTS := target/objects
objects:
	cargo run $(CARGO_FLAGS) --quiet --example objects -- $(OBJECTS)

# Builds the book of docs, in target/book (with mdBook).
book:
	mdbook build

# Tests the Python package: its wheel in an empty virtual environment.
test-python:
	tests/python

# Installs the command, and the loader if it can be built here: `make install PREFIX=/usr DESTDIR=/tmp/image`.
PREFIX := /usr/local
DESTDIR :=
install:
	packaging/install "$(PREFIX)" "$(DESTDIR)"

# Tests the Debian package, from its build to its purge.
test-package:
	tests/package
	vm/package

# Runs README's two commands on a Debian that has only a C compiler and Rust.
pristine:
	tests/pristine

# Feeds 200,000 inputs to each reader of a format, which takes hours; `tests/fuzz --runs N` feeds another number.
fuzz:
	tests/fuzz

# Runs hundreds of schedulers in C, each with a fault, as a user would; `make misbehave MISBEHAVE="--count 0"`
# runs all.
misbehave:
	cargo test $(CARGO_FLAGS) --no-run --test command
	tests/misbehave $(MISBEHAVE)

# Reads thousands of files of other projects, which apt fetches, and compares the results with their sources:
# device trees of Linux, topologies of hwloc, dumps of lscpu, loads of rt-app. `make test-corpus
# CORPUS=--record` accepts differences.
test-corpus:
	cargo build $(CARGO_FLAGS)
	tests/corpus/run $(CORPUS)

# Runs every policy on random machines and loads, and checks every invariant: `make soak SOAK="--hours 8"`.
soak:
	cargo bench --locked -p equipoise-simulator --bench soak -- $(SOAK)

# Runs random loads, hotplug, kill -9 and more in guests, two hours each:
# `make soak-vm SOAK_VM="--seconds 600 2"`.
soak-vm:
	vm/soak $(SOAK_VM)

# Writes what README and docs show of the commands: printed output, pictures, the table of results, and the
# screens of `equipoise top`. Without EQUIPOISE_DOCS, the tests that write these compare them instead.
# docs/field.md and docs/matrix.md take hours, and have targets of their own; tests/notebooks runs the
# notebooks. One test runs at a time, because several tests write README.
docs:
	EQUIPOISE_DOCS=1 cargo test $(CARGO_FLAGS) -p equipoise --bins --test command -- --test-threads 1 headline:: printed:: screenshot::

# Records the digests of whole traces (crates/lab/tests/decisions.rs), after a change that is meant to change
# decisions.
record-decisions:
	INSTA_UPDATE=always cargo test $(CARGO_FLAGS) -p equipoise-lab --test decisions

# Compares `equipoise` with `eevdf` for all machines and loads, and prints the measures that are worse; `make
# matrix MATRIX="--machine smp-8"` does less.
matrix:
	python3 -m tools.matrix $(MATRIX)

# Compares `eevdf`, `equipoise` and the published schedulers on six machines under eight loads, and writes
# docs/field.md; `make field FIELD="--machine smp-8 --out FILE"` does less.
field:
	python3 -m tools.field $(FIELD)

# Tests the properties of a fair scheduler (crates/simulator/tests/conformance/fairness/table.rs) on CASES
# random machines and loads each; `make test` tries 200. `make properties SEED=7` tries other cases, and
# `PROPERTY=naps` only some properties, and prints their cases.
CASES := 10000
SEED := 1
properties:
	PROPTEST_CASES=$(CASES) PROPTEST_RNG_SEED=$(SEED) PROPERTY=$(PROPERTY) cargo test $(CARGO_FLAGS) --release -p equipoise-simulator --test conformance -- --ignored --nocapture fairness

# Counts the instructions of a switch in guests, by part of the scheduler and by function, and writes
# docs/costs.md. `make cost COST=--peers` also measures the published schedulers, and writes
# docs/costs-of-peers.md.
cost:
	python3 -m tools.cost $(COST)

# Makes small changes to the meaning of scheduler/equipoise and reports which tests notice; `make mutants
# MUTANTS="fair.h"` does less.
mutants:
	python3 -m tools.mutants $(MUTANTS)

# Removes the rules of scheduler/equipoise, one at a time, and writes what gets worse or better into docs/design/rules.md;
# `make ablate ABLATE="level.h"` does less.
ablate:
	python3 -m tools.ablate $(ABLATE)

# Halves and doubles the thresholds of scheduler/equipoise and prints what that changes; `make sensitivity
# SENSITIVITY="slice lag"` does less.
sensitivity:
	python3 -m tools.sensitivity $(SENSITIVITY)

# Measures instructions, which requires valgrind; time, within 1 GB of address space (given in KiB), which is
# the limit for 20,480 tasks on 1024 CPUs; and the cost of a separate process for a scheduler in C.
bench:
	command -v valgrind >/dev/null || apt-get install -y -qq --no-install-recommends valgrind
	cargo bench --locked -p equipoise-simulator --bench instructions
	cargo bench --locked -p equipoise-simulator --bench context_switches --no-run
	ulimit -v 976562 && cargo bench --locked -p equipoise-simulator --bench context_switches
	cargo bench --locked -p equipoise-lab --bench cage

# Measures the time and memory for importing a million recorded events.
bench-import:
	python3 -m tools.import_speed

# Builds a sched_ext kernel for QEMU once (see vm/README.md), builds the loader, and runs the tests
# that boot the kernel.
vm-kernel:
	vm/build-kernel

test-vm:
	vm/test

# Loads every policy into the kernel of vm/build-kernel and into each of KERNELS, and prints the verifier's costs there.
test-kernels:
	vm/test verifier
	set -e; for kernel in $(KERNELS); do vm/test --kernel $$kernel verifier; done

# Compares schedulers with EEVDF, one after another in one boot.
bench-vm:
	python3 -m tools.bench --json target/bench-vm.json

# Compares the simulator's predictions about schedulers with measurements in a guest.
predict:
	python3 -m tools.predict

# Installs the tools that the tests use in addition to Rust and a C compiler.
tools:
	$(PART) --begin
	tests/install-tools

format:
	cargo fmt --all
	$(CLANG_FORMAT) -i $(C_FILES)

check-format: tools
	@$(PART) "the format of Rust, which requires rustfmt" --if 'cargo fmt --version' cargo fmt --all --check
	@$(PART) "the format of C, which requires clang-format-19" --if 'command -v $(CLANG_FORMAT)' \
		$(CLANG_FORMAT) --dry-run --Werror $(C_FILES)

# Checks the prose of comments, messages and documents (with Vale, which tests/vale/install builds
# once).
check-prose:
	@$(PART) "the words, which require Vale" tests/prose

# Checks that every crate that we link may be combined with GPL-2.0-only (with cargo-deny, which
# tests/licenses installs once).
check-licenses:
	@$(PART) "the licences of dependencies, which require cargo-deny" tests/licenses

lint:
	$(PART) "the lints of Rust, which require clippy" --if 'cargo clippy --version' \
		cargo clippy $(CARGO_FLAGS) --all-targets --all-features -- -D warnings
	@# A workspace of its own, whose targets only `make fuzz` builds and links with libFuzzer.
	$(PART) "the lints of the fuzz targets, which require clippy" --if 'cargo clippy --version' \
		env CUSTOM_LIBFUZZER_PATH=/libfuzzer.a cargo clippy $(CARGO_FLAGS) --manifest-path fuzz/Cargo.toml \
		--target-dir target -- -D warnings
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror -fsyntax-only -I crates/native/include $(shell find scheduler -name main.bpf.c)

# Checks the developers' tools in Python: their types (with mypy), their tests, and whether the mutations,
# thresholds and rules fit the scheduler.
check-tools: tools
	$(PART) "the types of the tools, which require mypy" --if 'mypy --version' mypy --strict --cache-dir target/mypy -p tools
	$(PART) "the tests of the tools, which require Python 3.11" --if 'python3 -c "import tomllib"' \
		python3 -m unittest discover -q -s tools/tests -t .
	$(PART) "whether the mutations and thresholds fit the scheduler, which requires Python 3.11" \
		--if 'python3 -c "import tomllib"' \
		sh -c 'for of in mutants sensitivity ablate; do python3 -m tools.$$of --list || exit; done' >/dev/null
