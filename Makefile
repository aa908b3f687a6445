# Bosun. `make help` lists what there is.

CARGO ?= cargo
# Tests and documentation must not pass by luck of a stale lock file.
LOCKED := --locked

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test fmt lint unit doc deny bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the tests need beside Rust: jq, bc and curl, only where missing
	@.ci/setup

demo: ## the whole story in ten seconds: no key, no service, nothing left behind
	@$(CARGO) run --quiet $(LOCKED) -p bosun -- demo

serve: ## a server on 127.0.0.1:8080 with the example agents
	@$(CARGO) run --quiet $(LOCKED) -p bosun -- serve --manifests examples/agents

test: setup lint unit doc ## everything that CI runs

fmt: ## format the code
	$(CARGO) fmt --all

lint: ## format and clippy without a warning, and the dependencies where cargo-deny is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null 2>&1; \
	then $(MAKE) --no-print-directory deny; \
	else echo "cargo-deny is not installed: licences, bans and sources are checked by a test; 'make deny' installs it and checks advisories too"; fi

unit: ## all tests of the workspace
	@if $(CARGO) nextest --version >/dev/null 2>&1; \
	then $(CARGO) nextest run $(LOCKED) --workspace && $(CARGO) test $(LOCKED) --workspace --doc; \
	else $(CARGO) test $(LOCKED) --workspace; fi

doc: ## the documentation of the code, without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(LOCKED) --workspace --no-deps --document-private-items

deny: ## check dependencies with cargo-deny, which is installed where missing (a few minutes)
	@command -v cargo-deny >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked
	$(CARGO) deny --workspace check

bench: ## the speed of a whole cycle, against a floor in the same run
	bench/run

clean: ## remove what was built
	$(CARGO) clean
