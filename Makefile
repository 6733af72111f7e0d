# Streaming Hub. `make` alone says what there is.
#
# ARGS hands flags on: make run ARGS="--no-traffic", make bench ARGS="..."
ARGS ?=
GO   ?= go
TESTS ?= ./...
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

GENERATED = db/internal/dbsqlc graph/generated graph/model

.DEFAULT_GOAL := help
.PHONY: help run build console test test-kafka race soak fuzz bench generate release-schema fmt fmt-check lint check-generated settings-doc clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## run a whole hub on this machine (ARGS="--no-traffic")
	@scripts/install-postgres
	@exec bin/hub dev $(ARGS)

build: console ## build the programs into bin/
	@mkdir -p bin
	$(GO) build -ldflags "-X main.version=$(VERSION)" -o bin/ ./cmd/dataplane ./cmd/controlplane ./cmd/hub

console: ## build the web console, where Node is there
	@scripts/build-console

test: ## run all tests (TESTS=./hub/...); Postgres is found or started
	@scripts/install-postgres
	@$(GO) run ./dev/withpostgres $(GO) test $(ARGS) $(TESTS)

test-kafka: ## run the consumer against a real Apache Kafka, where one can be had
	@scripts/install-postgres
	@scripts/install-kafka
	@STREAMING_HUB_TEST_KAFKA=1 $(GO) run ./dev/withpostgres $(GO) test -v -count=1 -run TestRealKafka $(ARGS) ./e2e

race: ## run all tests with the race detector
	@$(MAKE) --no-print-directory test ARGS="-race $(ARGS)"

soak: ## the long forms of tests: 10 000 rounds of a pull reader, 100 000 secrets moved to a new key, 10 000 deliveries over rotations
	STREAMING_HUB_TEST_PULL_ROUNDS=10000 $(MAKE) --no-print-directory test TESTS=./dataplane/pull ARGS="-run TestCursor_never_skips_during_concurrent_ingest -count=1 -v"
	STREAMING_HUB_TEST_SOAK=1 $(MAKE) --no-print-directory test TESTS=./e2e ARGS="-run 'TestRewrap|TestRotation' -count=1 -v"

FUZZTIME ?= 10m
fuzz: ## feed the header parsers nonsense for FUZZTIME each (10m)
	$(GO) test ./hub/wire -run '^$$' -fuzz '^FuzzJudge$$' -fuzztime $(FUZZTIME)
	$(GO) test ./hub/wire -run '^$$' -fuzz '^FuzzObserve$$' -fuzztime $(FUZZTIME)

bench: build ## measure; prints a table and ends in one JSON line (ARGS picks parts)
	@scripts/install-postgres
	@$(GO) run ./bench $(ARGS)

generate: ## make the generated code anew: sqlc, gqlgen
	CGO_ENABLED=0 $(GO) tool -modfile=tools/go.mod sqlc generate
	$(GO) tool gqlgen generate

release-schema: ## take schema.graphql as released: what breaks it from now on is refused
	cp schema.graphql docs/schema/released.graphql
	grep '^#' docs/schema/breaking.txt >docs/schema/breaking.txt.new && mv docs/schema/breaking.txt.new docs/schema/breaking.txt

fmt: ## format the Go code
	@scripts/go-files | xargs gofmt -w

fmt-check: ## fail when Go code is not formatted
	@unformatted=$$(scripts/go-files | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt mends it):"; echo "$$unformatted"; exit 1; fi

lint: fmt-check ## formatting and go vet
	$(GO) vet ./...

check-generated: ## fail when generated code does not fit its sources
	@scripts/check-generated $(GENERATED)

settings-doc: ## print the documentation's table of settings
	@$(GO) run ./cmd/hub settings --markdown

clean: ## remove what was built; .hub/ stays
	rm -rf bin
