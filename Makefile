# `make` alone lists the targets.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN   := bin
TOOLS := $(BIN)/tools

# Arguments of `make run`, such as DEV="--data-dir /tmp/waypost".
DEV ?=
# Packages for `make test`, such as PKG=./keyrange. Without any it runs everything.
PKG ?=
# Time for each fuzz test of `make fuzz`.
FUZZTIME ?= 10s

# These are looked up when a recipe runs: `make -n` starts no command.
LDFLAGS  = -X main.version=$$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null | sed 's/^v//') \
           -X main.revision=$$(TZ=UTC git log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h 2>/dev/null)
PROMTOOL = $$(command -v promtool || echo $(TOOLS)/promtool)

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: install-postgres build ## Build, and run a whole system on this machine until Ctrl-C
	@exec $(BIN)/waypost dev $(DEV)

.PHONY: build
build: ## Build bin/waypost (minutes the first time, then seconds)
	@[ -x $(BIN)/waypost ] || echo "Building for the first time: this takes some minutes, because all dependencies are downloaded and compiled. Each is named when it is done."
	go build $$([ -x $(BIN)/waypost ] || echo -v) -ldflags "$(LDFLAGS)" -o $(BIN)/waypost ./cmd/waypost

.PHONY: quick
quick: ## Run the tests that start no process and need no PostgreSQL (1 minute; most of it is waiting)
	go test -short -p $$((3 * $$(nproc))) $$(go list ./... | grep -vE '^waypost/(bench|test)/')

.PHONY: test
test: $(TOOLS)/gotestsum ## Run all tests (11 to 15 minutes on 2 cores), or those of PKG=./x
	@test/runner/run.sh $(or $(PKG),all)

.PHONY: test-long
test-long: install-postgres install-cc install-prometheus $(TOOLS)/gotestsum ## Run the long forms of tests and write docs/test-long.txt (an hour and a half)
	@test/runner/run.sh long 2>&1 | tee docs/test-long.txt

.PHONY: models
models: ## Check the models of the protocols in every state, and that each flaw is found (a minute)
	@deploy/install-missing.sh spin cc
	go test -count=1 -v ./test/models

.PHONY: drill
drill: install-postgres ## Rehearse the loss of PostgreSQL and of a control plane's disk with 500 links
	TEST_LONG=yes go test -count=1 -v ./test/drill

# Time of the soak, and the file that gets its table: SOAK=30s SOAK_TABLE=/dev/stdout to see that it works.
SOAK ?= 10m
SOAK_TABLE ?= docs/soak.txt

.PHONY: soak
soak: install-postgres install-cc $(TOOLS)/gotestsum ## Restart, cut off and kill a fleet under traffic for SOAK=10m and write the table of requests to docs/soak.txt
	@WAYPOST_SOAK=$(SOAK) WAYPOST_SOAK_TABLE="$(abspath $(SOAK_TABLE))" test/runner/run.sh soak

# Time of make chaos, its seed (default: another one each time), and the file that gets its table.
CHAOS ?= 20m
SEED ?=
CHAOS_TABLE ?= docs/chaos.txt

.PHONY: chaos
chaos: install-postgres install-cc $(TOOLS)/gotestsum ## Run a system under a schedule of faults for CHAOS=20m, judge what clients saw and write docs/chaos.txt; SEED=7 repeats a schedule
	@WAYPOST_CHAOS=$(CHAOS) WAYPOST_CHAOS_SEED="$${SEED:-$$(date +%s)}" WAYPOST_CHAOS_TABLE="$(abspath $(CHAOS_TABLE))" test/runner/run.sh chaos

.PHONY: test-alerts
test-alerts: install-prometheus ## Test the alert rules and the dashboards (seconds; part of make test)
	$(PROMTOOL) check config deploy/prometheus.yaml
	$(PROMTOOL) test rules deploy/alerts_test.yaml
	PROMTOOL=$$(realpath $(PROMTOOL)) go test ./deploy/dashboards

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME=10s (5 minutes on 2 cores)
	@test/runner/fuzz.sh $(FUZZTIME)

# Architectures of make dist, such as ARCH=amd64; empty: all.
ARCH ?=

.PHONY: dist
dist: install-jq ## Build the files of a release in bin/dist: programs, packages, image (10 minutes the first time, then 1; half of it with ARCH=amd64)
	@tools/dist/dist.sh $(abspath $(BIN)/dist) $(ARCH)

.PHONY: test-dist
test-dist: dist ## Test the files of a release (half a minute after make dist)
	DIST=$(abspath $(BIN)/dist) WAYPOST=$$(echo $(abspath $(BIN)/dist)/waypost_*_linux_$$(go env GOARCH)) go test -C tools/dist -count=1 .

.PHONY: test-install
test-install: dist ## Install the package on a bare Debian in a directory, by the documentation; writes docs/test-install.txt (3 minutes, root)
	@test/install/debian.sh $(BIN)/dist/waypost_*_$$(dpkg --print-architecture).deb 2>&1 | tee docs/test-install.txt

# Links of make test-booted.
LINKS ?= 1000000

.PHONY: test-booted
test-booted: dist ## Restart, upgrade and kill an edge under systemd while visitors come; writes docs/test-booted.txt (6 minutes, root)
	@test/install/booted.sh $(BIN)/dist/waypost_*_$$(dpkg --print-architecture).deb $(LINKS) 2>&1 | tee docs/test-booted.txt

.PHONY: check-deploy
check-deploy: install-prometheus install-fronts ## Check the Dockerfile and Compose (half a minute)
	CGO_ENABLED=0 go build -tags failpoints -o $(BIN)/test/waypost ./cmd/waypost
	WAYPOST=$(abspath $(BIN)/test/waypost) go test -C tools/dist .

.PHONY: lint
lint: $(TOOLS)/.built ## Run all linters (2 minutes)
	$(TOOLS)/golangci-lint run ./...

.PHONY: lint-openapi
lint-openapi: ## Check the OpenAPI document with Redocly's recommended rules (needs npm)
	@tools/redocly/lint.sh

.PHONY: check-clients
check-clients: ## Make clients in Go and TypeScript from the OpenAPI document, and compile them (1 minute; needs npm)
	@tools/clients/check.sh

.PHONY: console
console: ## Build the console's files in web/dist from web/src (half a minute; needs npm)
	@tools/console/build.sh

.PHONY: check-console
check-console: ## Check that web/dist is what web/src builds, its types, its logic and its size (half a minute; needs npm)
	@tools/console/build.sh --check

.PHONY: agents
agents: ## Refresh the list of bots, rules/agents/bots.txt, from public lists (half a minute; needs npm)
	@tools/agents/refresh.sh

.PHONY: format
format: $(TOOLS)/.built ## Format all Go files
	$(TOOLS)/gofumpt -w .

# Flags of the benchmarks, such as BENCH="-only half-1m" or BENCH="-before OTHER-BUILD".
BENCH ?=

.PHONY: bench
bench: bench-redirect bench-write ## Measure redirects of a million links and the write side; writes bench/RESULTS.md (6 minutes)

.PHONY: bench-redirect
bench-redirect: install-wrk ## Measure redirects next to bare fasthttp (3 minutes; BENCH=-full for ten million links)
	go run ./bench/redirect $(BENCH)

.PHONY: compare
compare: install-postgres install-wrk install-rivals ## Compare with what people build instead: nginx, Lua and Redis; writes bench/RESULTS.md, from which README.md has its table (10 minutes)
	go run ./bench/redirect -only compare $(BENCH)

.PHONY: bench-write
bench-write: install-postgres ## Measure creates, imports and lag (2 minutes)
	go run ./bench/write $(BENCH)

.PHONY: bench-micro
bench-micro: ## Run the Go benchmarks of the edge, the codecs, the rules and the keys (3 minutes)
	go test -run '^$$' -bench . -benchtime 200ms ./edge/... ./keyrange ./replication ./rules ./controlplane/target

.PHONY: bench-try
bench-try: install-postgres install-wrk ## See that the benchmarks work; writes nothing (a minute; part of make test-long)
	go test ./bench/...
	go run ./bench/redirect -try -only uniform-1m,half-1m
	go run ./bench/write -try

.PHONY: install-postgres
install-postgres: ## Install the PostgreSQL server binaries, if they are missing
	@deploy/install-missing.sh postgres

.PHONY: install-cc
install-cc: ## Install a C compiler, which the race detector needs, if it is missing
	@deploy/install-missing.sh cc

.PHONY: install-fronts
install-fronts: ## Install nginx, HAProxy and Caddy, whose configurations are tested, if they are missing
	@deploy/install-missing.sh nginx haproxy caddy

.PHONY: install-prometheus
install-prometheus: ## Put prometheus and promtool, which test the alert rules, into bin/tools, if they are missing
	@deploy/install-missing.sh prometheus

.PHONY: install-jq
install-jq: ## Install jq, which releases are built with, if it is missing
	@deploy/install-missing.sh jq

.PHONY: install-wrk
install-wrk: ## Install wrk, which the benchmarks send requests with, if it is missing
	@deploy/install-missing.sh wrk

# Without them the flows of the console are skipped, but in CI they fail.
.PHONY: install-browser
install-browser: ## Install Chromium and the packages of npm that test the console, if they are missing
	-@deploy/install-missing.sh chromium npm && tools/console/install.sh

.PHONY: console-images
console-images: install-postgres install-browser ## Take the pictures of the console in docs/images (a minute)
	rm -rf docs/images
	CONSOLE_IMAGES=$(abspath docs/images) go test -count=1 -timeout 10m ./test/console -run Pictures

.PHONY: install-rivals
install-rivals: ## Install nginx, its Lua and Redis, which redirects are compared with, if they are missing
	-@deploy/install-missing.sh nginx redis nginx-lua

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf $(BIN) coverage.out

# Tools have modules of their own so that the product does not depend on them.
$(TOOLS)/.built: tools/go.mod tools/go.sum
	GOBIN=$(abspath $(TOOLS)) go -C tools install tool
	@touch $@

$(TOOLS)/gotestsum: tools/gotestsum/go.mod tools/gotestsum/go.sum
	GOBIN=$(abspath $(TOOLS)) go -C tools/gotestsum install tool
	@touch $@
