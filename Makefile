# The commands of the README. Each says what it does; all can be run again.
#
#   make setup           install what is missing (Debian 12); the others do it first
#   make build           penstockd, penstock and penstock-worker, into target/release
#   make demo            two tenants, two hosts, real packets (needs root);
#                        LCORES=2: with so many forwarding threads in each worker,
#                        UNDERLAY=6: over IPv6,
#                        KEEP=1: it stays, to be looked at
#   make demo-stop       remove a demo that stayed (needs root)
#   make lint            formatting, clippy, licences
#   make test            everything that CI checks
#   make test-long       the same, longer and with more cases
#   make bench-smoke     packets per second of one forwarding thread
#   make bench-revocation
#                        time until what a change of policy takes back has ended
#   make bench-policy    judging, compiling and changing large policies, and memory;
#                        JSON=1, for all three: JSON lines only
#   make p4              recompile the P4 program (needs p4c)

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: help setup build demo demo-stop test test-long lint p4

AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo)
CARGO ?= cargo
# Crates that build without libdpdk are the workspace's default members.
DEFAULT := --locked
ALL := --locked --workspace
# Tests that start workers.
BEDS := package(penstock-integration) and kind(test) or package(penstock-worker) and kind(test)

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@tools/setup

build: setup
	$(CARGO) build $(ALL) --release --bins

demo: build
	$(AS_ROOT) target/release/demo --lcores $(or $(LCORES),1) --underlay $(or $(UNDERLAY),4) $(if $(KEEP),--keep)

demo-stop:
	$(AS_ROOT) target/release/demo --stop

# Formatting, lints, licences. The first clippy run hides libdpdk on purpose: all but
# the worker must build without it.
lint: setup
	$(CARGO) fmt --all --check
	PKG_CONFIG_LIBDIR=/nonexistent $(CARGO) clippy $(DEFAULT) --all-targets -- -D warnings
	$(CARGO) clippy $(ALL) --all-targets -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
	    $(CARGO) deny --locked check bans licenses sources; \
	else echo "SKIPPED: cargo-deny is not installed"; fi

# What forwards is tried with several lcores, too: its quick part here, all of it in the long run.
test: lint
	$(CARGO) build $(ALL) --bins
	tools/test $(ALL)
	PENSTOCK_LCORES=2 tools/test $(ALL) -E 'package(penstock-worker) and test(/^forwarding::/)'
	PENSTOCK_LCORES=4 tools/test $(ALL) -E 'package(penstock-worker) and test(/^forwarding::/)'

test-long: lint
	$(CARGO) build $(ALL) --bins
	PENSTOCK_LONG=1 tools/test $(ALL)
	PENSTOCK_LCORES=2 PENSTOCK_LONG=1 tools/test $(ALL) -E '$(BEDS)'
	PENSTOCK_LCORES=4 PENSTOCK_LONG=1 tools/test $(ALL) -E '$(BEDS)'

bench-%: setup
	@JSON=$(JSON) tools/bench $*

p4:
	p4/program/compile.sh
