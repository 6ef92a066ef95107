# The words a newcomer types. `make run` needs Rust and a C compiler; `make check` and `make test` install
# what else they need when they may (root on a machine with apt).

# Looked for when it is used: what `tools` installs is not there before.
CLANG_FORMAT = $(shell command -v clang-format-19 || echo clang-format)
C_FILES := $(shell find scheduler -name '*.[ch]') $(wildcard crates/native/include/*.h crates/native/include/*/*.h crates/lab/tests/decisions/*.c crates/policy/tests/c/*.c vm/in-guest/*.c)
CARGO_FLAGS := --locked
# Runs what this machine can, and keeps a list of the rest.
SKIPPABLE := tests/skippable
# Of the tests that boot a guest those that any change may break, long ones first; test-vm runs all, in full. mixed-load
# loads every policy.
VM_TESTS := capacity hotplug mixed-load affinity fairness record smoke scx-simple
# Debian's kernels that every policy must load into: the last of each version in its archive. In `make test` a policy
# of each scheduler is loaded into the newest, beside the tests in the oldest, which vm/build-kernel builds.
KERNELS := 6.16.12 6.17.13 6.18.15 6.19.14 7.0.13 7.2.13 7.3.4
NEWEST := $(lastword $(KERNELS))

.PHONY: run check test test-python test-package pristine fuzz misbehave soak soak-vm record-decisions matrix mutants bench bench-import vm-kernel test-vm test-kernels bench-vm format check-format check-prose lint tools

run:
	cargo run --locked --release -- reproduce mixed-capacity

# Checks to run after each change, without virtual machines.
check: check-format check-prose lint
	cargo test $(CARGO_FLAGS)

# What CI runs, on a clean clone: what we depend on is built once a machine, for clones in this place (by a cargo
# before 1.91 in target/, as ever). Clones in two places must not share it: cargo takes them for one, by their times.
test: export CARGO_BUILD_BUILD_DIR ?= $(HOME)/.cache/equipoise/build$(CURDIR)
test: check
	tests/sanitize
	$(SKIPPABLE) "the loader, which requires clang and libelf's headers" vm/build-loader --test
	$(SKIPPABLE) "the tests in virtual machines" --if 'vm/install-tools qemu-system-x86' vm/test --quick $(VM_TESTS)
	$(SKIPPABLE) "the newest kernel's verifier" --if 'vm/install-tools qemu-system-x86' vm/test --quick --kernel $(NEWEST) verifier
	@tests/skippable --end

# The Python package: its wheel in an empty virtual environment.
test-python:
	tests/python

# The Debian package, from its build to its purge.
test-package:
	tests/package
	vm/package

# README's two commands on a Debian that has nothing but a C compiler and Rust.
pristine:
	tests/pristine

# Every format against a million inputs, which takes hours; tests/fuzz --runs N does less.
fuzz:
	tests/fuzz

# Hundreds of schedulers in C, each with a fault, as a user would run them: `make misbehave MISBEHAVE="--count 0"` has all.
misbehave:
	cargo build $(CARGO_FLAGS) -p equipoise
	tests/misbehave $(MISBEHAVE)

# Random machines and loads under every policy, with every invariant checked: `make soak SOAK="--hours 8"`.
soak:
	cargo bench --locked -p equipoise-simulator --bench soak -- $(SOAK)

# Random loads, hotplug, kill -9 and more in guests, two hours each: `make soak-vm SOAK_VM="--seconds 600 2"`.
soak-vm:
	vm/soak $(SOAK_VM)

# The digests of whole traces (crates/lab/tests/decisions.rs), for a change that is meant to change decisions.
record-decisions:
	INSTA_UPDATE=always cargo test $(CARGO_FLAGS) -p equipoise-lab --test decisions

# `equipoise` against `eevdf` on all machines by all loads, and what is worse: `make matrix MATRIX="--machine smp-8"` does less.
matrix:
	tests/matrix $(MATRIX)

# Small changes of meaning to scheduler/equipoise, and which tests notice: `make mutants MUTANTS="vtime.h"` does less.
mutants:
	tests/mutants $(MUTANTS)

# In instructions, which takes valgrind; and in time, in 1 GB (of addresses, in KiB), as much as 20,480 tasks
# on 1024 CPUs may take; and what a process of its own costs a scheduler in C.
bench:
	command -v valgrind >/dev/null || apt-get install -y -qq --no-install-recommends valgrind
	cargo bench --locked -p equipoise-simulator --bench instructions
	cargo bench --locked -p equipoise-simulator --bench context_switches --no-run
	ulimit -v 976562 && cargo bench --locked -p equipoise-simulator --bench context_switches
	cargo bench --locked -p equipoise-lab --bench cage

# How long the import of a million recorded events takes, and how much memory.
bench-import:
	cargo build --locked --release -p equipoise
	tests/import-speed

# A sched_ext kernel in QEMU (see vm/README.md): builds it, once; builds the loader, and runs the tests
# that boot it.
vm-kernel:
	vm/build-kernel

test-vm:
	vm/test

# Every policy in each of Debian's kernels, and what its programs cost the verifier there.
test-kernels:
	vm/test verifier
	set -e; for kernel in $(KERNELS); do vm/test --kernel $$kernel verifier; done

# Schedulers in turn in one boot, against EEVDF.
bench-vm:
	vm/bench --json target/bench-vm.json

# Tools that the tests use beyond Rust and a C compiler.
tools:
	tests/skippable --begin
	tests/install-tools

format:
	cargo fmt --all
	$(CLANG_FORMAT) -i $(C_FILES)

check-format: tools
	@$(SKIPPABLE) "the format of Rust, which requires rustfmt" --if 'cargo fmt --version' cargo fmt --all --check
	@$(SKIPPABLE) "the format of C, which requires clang-format-19" --if 'command -v $(CLANG_FORMAT)' \
		$(CLANG_FORMAT) --dry-run --Werror $(C_FILES)

# The words of comments, messages and documents (Vale, which tests/vale/install builds once).
check-prose:
	$(SKIPPABLE) "the words, which require Vale" tests/prose

lint:
	$(SKIPPABLE) "the lints of Rust, which require clippy" --if 'cargo clippy --version' \
		cargo clippy $(CARGO_FLAGS) --all-targets --all-features -- -D warnings
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror -fsyntax-only -I crates/native/include $(shell find scheduler -name main.bpf.c)
