# What a newcomer needs, in one word each. `make` alone explains.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN   := bin
TOOLS := $(BIN)/tools

# Arguments of `make run`, such as DEV="--data-dir /tmp/waypost".
DEV ?=
# Packages of `make test`.
PKG ?= ./...
# Time for each fuzz test.
FUZZTIME ?= 10s

# Found when it is used, which may be after it was installed.
PROMTOOL = $(shell command -v promtool || echo $(TOOLS)/promtool)

LDFLAGS = -X main.version=$(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null | sed 's/^v//') \
          -X main.revision=$(shell git rev-parse --short=12 HEAD 2>/dev/null)

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: install-postgres build ## Install what is missing, build, and run a whole system on this machine
	@exec $(BIN)/waypost dev $(DEV)

.PHONY: build
build: ## Build bin/waypost
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/waypost ./cmd/waypost

# Many tests wait for other processes: twice as many packages as processors run at a time.
TEST_PACKAGES = $(shell expr 2 \* $$(nproc))
# The race detector holds each process up for a second when it ends.
TEST_ENV = GORACE=atexit_sleep_ms=10
# Those that count allocations.
ALLOC_PACKAGES = $(shell grep -rlE --include='*_test.go' '^func Test\w*Alloc' . | xargs -n 1 dirname | sort -u)
# How tests are run; see the script.
GO_TEST = $(TEST_ENV) deploy/test-in-memory.sh go test

.PHONY: test
test: install-postgres install-cc install-curl install-wrk ## Install what is missing and run all tests with the race detector
	$(GO_TEST) -race -timeout 30m -p $(TEST_PACKAGES) $(PKG)
	$(GO_TEST) -race -tags rlsonly ./test/tenancy # what row-level security alone lets through
	$(GO_TEST) -run 'Alloc' $(ALLOC_PACKAGES) # allocations can be counted only without the race detector
	$(GO_TEST) ./edge/server # without it sockets are read and written by other system calls, and locks take as long as they do
	$(GO_TEST) -run 'UnderLoad' ./cmd/waypost
	@if deploy/install-missing.sh promtool; then $(MAKE) --no-print-directory test-alerts; \
		else echo "The alert rules were not tested." >&2; fi

.PHONY: test-alerts
test-alerts: install-promtool ## Test the alert rules
	$(PROMTOOL) check rules deploy/alerts.yaml
	$(PROMTOOL) test rules deploy/alerts_test.yaml

.PHONY: lint
lint: $(TOOLS)/.built ## Run all linters
	$(TOOLS)/golangci-lint run ./...

.PHONY: format
format: $(TOOLS)/.built ## Format all Go files
	$(TOOLS)/gofumpt -w .

# Sections of the benchmark, such as BENCH="-only latency-1m"; BENCH=-h tells them all.
BENCH ?=

.PHONY: bench
bench: install-wrk ## Measure redirects of a million links in some minutes; writes bench/RESULTS.md
	go run ./bench/redirect $(BENCH)

.PHONY: bench-redirect
bench-redirect: install-wrk install-rivals ## Measure redirects of ten million links too, and beside others, in up to 45 minutes
	go run ./bench/redirect $(or $(BENCH),-full)

.PHONY: bench-clicks
bench-clicks: install-postgres ## Measure how fast clicks are counted, in half an hour; writes bench/RESULTS.md
	go run ./bench/clicks $(BENCH)

.PHONY: bench-keys
bench-keys: install-postgres ## Measure keys and creates in three minutes; writes bench/RESULTS.md
	go run ./bench/keys $(BENCH)

.PHONY: bench-replication
bench-replication: install-postgres ## Measure snapshots, the tail and the way from a commit to an edge in some minutes; writes bench/RESULTS.md
	go run ./bench/replication $(BENCH)

.PHONY: bench-links
bench-links: install-postgres ## Measure imports, creates and lists of five million links in half an hour; writes bench/RESULTS.md
	go run ./bench/links $(BENCH)

# LOAD=short: a minute, to see that it works; nothing is written.
LOAD ?=

.PHONY: load
load: install-postgres $(TOOLS)/k6 ## Put the load of ten minutes on a whole system that every release must bear; writes bench/RESULTS.md
	go run ./bench/load $(if $(filter short,$(LOAD)),-try)

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME (10s)
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u | while read -r dir; do \
		grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | cut -c6- | while read -r name; do \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$dir"; \
		done; \
	done

.PHONY: install-postgres
install-postgres: ## Install the PostgreSQL server binaries, if they are missing
	@deploy/install-missing.sh postgres

.PHONY: install-cc
install-cc: ## Install a C compiler, which the race detector needs, if it is missing
	@deploy/install-missing.sh cc

.PHONY: install-curl
install-curl: ## Install curl, which the demonstration of two hosts needs, if it is missing
	@deploy/install-missing.sh curl

.PHONY: install-promtool
install-promtool: ## Put promtool, which tests the alert rules, into bin/tools, if it is missing
	@deploy/install-missing.sh promtool

.PHONY: install-wrk
install-wrk: ## Install wrk, which the benchmarks send requests with, if it is missing
	@deploy/install-missing.sh wrk

.PHONY: install-perf
install-perf: ## Install perf, which the benchmarks count system calls with, if it is missing
	@deploy/install-missing.sh perf

.PHONY: install-rivals
install-rivals: ## Install nginx and Redis, which redirects are compared with, if they are missing
	@deploy/install-missing.sh nginx redis

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) coverage.out

# The linters have a module of their own, so that they are no dependencies of the
# product.
$(TOOLS)/.built: tools/go.mod tools/go.sum
	GOBIN=$(abspath $(TOOLS)) go -C tools install tool
	@touch $@

# k6 has one of its own, too: it is large, and only `make load` needs it.
$(TOOLS)/k6: tools/k6/go.mod tools/k6/go.sum
	GOBIN=$(abspath $(TOOLS)) go -C tools/k6 install tool
	@touch $@
