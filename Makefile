# Bosun. `make help` lists the targets.

CARGO ?= cargo
# Tests and documentation must not pass because of a stale lock file.
LOCKED := --locked
# Without the Zod reader, whose parser is thirty crates, and the MCP client: docs/decisions/017-build-time.md.
SLIM := --no-default-features
# The program of `make demo` and `make serve`, and what it is built from.
PROGRAM := $(or $(CARGO_TARGET_DIR),target)/debug/bosun
SOURCES := Cargo.toml Cargo.lock crates/*/Cargo.toml crates/*/src examples/agents

.DEFAULT_GOAL := help
.PHONY: attack bench-n8n conformance docs-page e2e-n8n grpc help n8n setup program demo serve install test fmt lint unit doc deny chaos interop otel slim release bench fuzz tck clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the tests need besides Rust (jq, bc, curl and npm), if missing, and fetch the sources of dependencies
	@.ci/setup
	@$(CARGO) fetch --quiet $(LOCKED)

# Cargo decides what is built. The modification times decide what is shown: cargo's progress if a source is newer than the
# program, nothing if not, and how long the first build takes.
program:
	@quiet=--quiet; \
	if [ ! -e '$(PROGRAM)' ]; then \
		quiet=; \
		echo 'Building bosun and its dependencies from source: two to four minutes on two CPUs, this first time only.' >&2; \
	elif [ -n "$$(find $(SOURCES) -newer '$(PROGRAM)' | head -n 1)" ]; then \
		quiet=; \
	fi; \
	$(CARGO) build $$quiet $(LOCKED) -p bosun $(SLIM)

demo: program ## the whole story in ten seconds: no key, no service, nothing left behind
	@$(CARGO) run --quiet $(LOCKED) -p bosun $(SLIM) -- demo

serve: program ## a server on 127.0.0.1:8080 with the example agents
	@$(CARGO) run --quiet $(LOCKED) -p bosun $(SLIM) -- serve --manifests examples/agents

install: ## put `bosun` where cargo puts programs
	$(CARGO) install --quiet $(LOCKED) --path crates/bosun

test: setup lint unit otel slim doc n8n ## everything that CI runs

fmt: ## format the code
	$(CARGO) fmt --all

lint: ## check formatting and clippy without a warning, and the dependencies if cargo-deny is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null 2>&1; \
	then $(MAKE) --no-print-directory deny; \
	else echo "cargo-deny is not installed: licences, bans and sources are checked by a test; 'make deny' installs it and checks advisories too"; fi

unit: ## all tests of the workspace; attacks, which measure the server, run alone
	@interop/a2a/install.sh rust > /dev/null
	@if $(CARGO) nextest --version >/dev/null 2>&1; \
	then $(CARGO) nextest run $(LOCKED) --workspace -E 'not test(/^attack::/)' && $(CARGO) test $(LOCKED) --workspace --doc; \
	else $(CARGO) test $(LOCKED) --workspace -- --skip attack::; fi
	$(CARGO) test $(LOCKED) --workspace --test it -- --test-threads 1 attack::

doc: ## the documentation of the code, without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(LOCKED) --workspace --no-deps --document-private-items

deny: ## check dependencies with cargo-deny, which is installed if missing (a few minutes)
	@command -v cargo-deny >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked
	$(CARGO) deny --workspace check bans licenses sources
	@if $(CARGO) deny fetch db >/dev/null 2>&1; \
	then $(CARGO) deny --workspace check --disable-fetch advisories; \
	else echo "the database of advisories cannot be reached: advisories are NOT checked"; fi

chaos: ## the proofs at their full scale: thousands of kills, races and cuts (about an hour)
	BOSUN_CHAOS_KILLS=2000 BOSUN_CONVERSATION_KILLS=1000 BOSUN_RACE_CALLS=100000 BOSUN_PARALLEL_ROUNDS=5000 BOSUN_DEADLINE_RACES=20000 \
	BOSUN_CANCEL_RACES=20000 BOSUN_EARLY_RESULTS=20000 BOSUN_SSE_CUTS=5000 BOSUN_DISK_FAULTS=200 BOSUN_DISK_FILLS=200 \
	BOSUN_TORN_LOGS=200 BOSUN_SIGNALS=200 BOSUN_UPGRADE_KILLS=200 BOSUN_OVERLOAD=10000 \
	$(CARGO) test $(LOCKED) -p bosun --test it -- --nocapture --test-threads 1 \
	chaos:: conversations:: races:: sse:: disasters:: shutdown:: upgrades:: overload::
	BOSUN_SLOW_SOCKETS=1000 $(CARGO) test $(LOCKED) -p bosun-edges -- --nocapture slow_clients

attack: ## the attacks that this server has seen, against the real process, one line of JSON each (at most ten minutes)
	BOSUN_ATTACK_SHAPES=240 BOSUN_ATTACK_CYCLES=5000 BOSUN_ATTACK_ROUNDS=30 BOSUN_ATTACK_TEMPLATE=490 BOSUN_ATTACK_PATTERNS=1600 \
	BOSUN_ATTACK_FAULTS=230000 BOSUN_ATTACK_CALLS=20000 BOSUN_ATTACK_ANSWER=52428800 BOSUN_ATTACK_EXCHANGES=150 \
	BOSUN_ATTACK_CHANGES=200 BOSUN_ATTACK_UPLOAD_MB=60 BOSUN_ATTACK_TENANTS=1 \
	$(CARGO) test $(LOCKED) -p bosun --test it -- --nocapture --test-threads 1 attack::

conformance: ## generated requests against every route of docs/openapi.json (needs Python), and MCP's own suite against the client (needs npm)
	interop/openapi/run.sh
	interop/mcp/conformance/run.sh

interop: ## the converters of Zod, n8n and OpenAPI and the stand-ins for model APIs and Nango against the real packages, argument validation against JSON Schema's own tests, public MCP servers over HTTP, the official clients of A2A (needs npm and pip)
	interop/zod/run.sh
	interop/n8n/run.sh
	interop/openapi-docs/run.sh
	interop/json-schema/run.sh
	interop/models/run.sh
	interop/nango/run.sh
	BOSUN_MCP_PEERS=all $(CARGO) test $(LOCKED) -p bosun --test it -- mcp::peers::
	interop/a2a/run.sh

tck: ## A2A's compatibility kit, from KIT=<checkout of a2aproject/a2a-tck, branch 1.0-dev or 0.3.x>; with GRPC=1 over gRPC too (needs Python)
	$(CARGO) build --quiet $(LOCKED) -p bosun $(if $(GRPC),--features grpc)
	interop/a2a/tck/run.sh $(KIT)

grpc: ## A2A over gRPC, with a client of the protocol's own crate: a second build, with 37 more crates; not part of `make test`
	$(CARGO) clippy $(LOCKED) --workspace --all-targets --features bosun/grpc -- -D warnings
	$(CARGO) test $(LOCKED) --workspace --features bosun/grpc --lib --test it -- grpc:: http2:: architecture::a_feature

otel: ## spans of OpenTelemetry, with a collector on loopback: a second build of the program, and of nothing else
	$(CARGO) clippy $(LOCKED) --workspace --all-targets --features bosun/otel -- -D warnings
	$(CARGO) test $(LOCKED) --workspace --features bosun/otel --lib --test it -- telemetry:: traces:: canaries::

slim: ## the program as `make demo` builds it: without a warning, and it says what it lacks
	@CARGO=$(CARGO) .ci/slim

# What npm has installed, as it records it.
packages/node_modules/.package-lock.json: packages/package.json packages/*/package.json packages/package-lock.json
	cd packages && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

n8n: packages/node_modules/.package-lock.json ## the nodes for n8n: types, lint, unit tests with their coverage, build (needs npm)
	cd packages/n8n-nodes-bosun && npm run --silent typecheck && npm run --silent lint && npm test --silent && npm run --silent build

e2e-n8n: packages/node_modules/.package-lock.json ## the nodes and the sample workflows in the real n8n, N8N_VERSION 2.41.1 or 2.8.4, which is installed into a cache folder first
	$(CARGO) build $(LOCKED) -p bosun --features standin
	packages/n8n-nodes-bosun/e2e/run.sh '$(PROGRAM)'

bench-n8n: packages/node_modules/.package-lock.json ## the node against n8n's own agent, in the real n8n, with the same scripted model
	$(CARGO) build $(LOCKED) -p bosun --features standin
	bench/n8n/run '$(PROGRAM)'

docs-page: ## /docs in a real browser, compared with the description of the API (needs npm)
	interop/docs-page/run.sh

release: ## a profile-guided build (PGO and BOLT) of the program (about twenty minutes; installs LLVM's tools if missing)
	@bench/release

bench: ## the speed of a whole cycle, compared with a floor in the same run
	bench/run

fuzz: setup ## every fuzz target for FUZZ_SECONDS (600), with cargo-fuzz, which is installed if missing
	@command -v cargo-fuzz >/dev/null 2>&1 || $(CARGO) install cargo-fuzz --locked
	fuzz/run.sh

clean: ## remove the build
	$(CARGO) clean
