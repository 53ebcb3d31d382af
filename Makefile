# Overlane. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
# rustup's folder, for shells that did not read the profile.
export PATH := $(PATH):$(HOME)/.cargo/bin
# The scripts and the tests look for target/release/overlane.
export CARGO_TARGET_DIR := $(CURDIR)/target

.PHONY: help setup build install uninstall demo test test-all check unit system fuzz soak kernels mutants bench fmt deny clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup: ## check prerequisites, install what building and the laboratory need
	@scripts/setup demo

build: ## target/release/overlane
	@cargo build --release --locked --bin overlane

install: ## the program, its man pages, completions and unit into PREFIX=/usr/local; DESTDIR=… for packages
	@scripts/install install

uninstall: ## removes what `make install` with the same PREFIX and DESTDIR wrote
	@scripts/install uninstall

demo: setup build ## set-up, build, then the quick study: two hosts, five networks, one table and a report
	@target/release/overlane lab run jumbo-vxlan --quick

test: ## minutes: set-up, lints, cargo tests, the oldest kernel in QEMU, each system test once
	@scripts/test short

test-all: ## everything: all system tests, the upgrade, a million random packets, fuzzing
	@scripts/test all

check: ## formatting, lints, rules of the house
	@scripts/check

unit: ## cargo tests only
	@cargo test --workspace --locked

system: build ## system tests only; pass arguments with ARGS="-k vxlan"
	@scripts/system-tests all 4 $(ARGS)

fuzz: ## fuzz every target; FUZZ_SECONDS=60 in all
	@fuzz/run $(or $(FUZZ_SECONDS),60)

soak: ## random packets on both executors: PACKETS=1000000, SEED=… repeats a run
	@scripts/soak $(or $(PACKETS),1000000) $(SEED)

kernels: ## golden cases and system tests on each of Debian's kernels, in QEMU; writes docs/kernels.md
	@scripts/setup test
	@tests/kernels/run.py suite --write $(KERNELS)

mutants: ## plant small bugs, one by one: do the tests find them? SEED=… MUTANTS=300 RUST=300
	@scripts/setup mutants
	@SEED=$(SEED) MUTANTS=$(MUTANTS) RUST=$(RUST) tests/mutants/run.py

bench: ## what a packet costs, on each executor: ARGS="--against results/…-bench" compares
	@scripts/bench $(ARGS)

fmt: ## format Rust and C
	@cargo fmt --all
	@clang-format-19 -i bpf/*.c bpf/*/*.h

deny: ## licences, advisories and sources of the dependencies (needs: cargo install cargo-deny)
	@cargo deny check

clean: ## what building and measuring left here (results/ stays)
	@cargo clean
	@rm -rf fuzz/target fuzz/artifacts
