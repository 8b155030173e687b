# SPDX-License-Identifier: Apache-2.0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# No C: programs are static, and what one build has compiled serves all others.
export CGO_ENABLED := 0

VERSION ?= dev
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -X main.gitVersion=$(VERSION) -X main.gitCommit=$(COMMIT)

# Tools are pinned in hack/tools and built when they are first needed.
tool = $$(go -C hack/tools tool -n $(1))

# What "make test" and "make test-fast" test, and how long one package may take.
PACKAGES ?= ./...
TEST_TIMEOUT ?= 40m
TEST_FLAGS ?=

# What is made from other files.
GENERATED := api deploy docs

.PHONY: help
help: ## Show what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##

.PHONY: demo
demo: ## Claim a sandbox and run a command in it, on a local cluster or the one KUBECONFIG names
	@echo 'Building Berth (a few minutes the first time) ...'
	@$(MAKE) --no-print-directory build
	@go run ./hack/demo

.PHONY: down
down: ## Stop what "make demo" started and leave nothing of it behind
	@go run ./hack/cluster down

##

.PHONY: build
build: ## Build the programs into bin/
	@go build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: image
image: ## Build the controller's image, for this machine's architecture, into bin/berth-controller.tar
	@mkdir -p bin
	@go run ./hack/image -o bin/berth-controller.tar $(if $(IMAGE),-reference $(IMAGE))

.PHONY: generate
generate: ## Make what is derived from the Go types in api/, the joined manifests, and the CLI's reference
	go run ./hack/generate
	go run ./hack/manifests
	go run ./hack/clidocs

.PHONY: lint
lint: verify ## Check the code with golangci-lint, and that "make generate" changes nothing
	$(call tool,golangci-lint) run --allow-parallel-runners

.PHONY: verify
verify:
	@sum() { git ls-files -z --cached --others --exclude-standard -- $(GENERATED) | xargs -0 sha256sum; }; \
	before=$$(sum); $(MAKE) --no-print-directory generate; \
	if ! diff <(echo "$$before") <(sum); then \
		echo 'make generate has changed files: commit what it made' >&2; exit 1; \
	fi

.PHONY: test
test: ## Run all tests: units, against a real API server, and with real pods where this machine can run them
	@go run ./hack/cluster build
	KUBE_CACHE_MUTATION_DETECTOR=true $(call tool,gotestsum) --format standard-quiet \
		-- -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(PACKAGES)

.PHONY: test-fast
test-fast: ## Run the tests that need no API server
	KUBE_CACHE_MUTATION_DETECTOR=true go test $(TEST_FLAGS) ./api/... ./cmd/... ./deploy/... ./internal/...

.PHONY: sim
sim: ## Run the controllers through SEEDS=20000 adversarial schedules, from SEED_START=1 on
	SEEDS=$(or $(SEEDS),20000) PROGRESS=1 go test -count=1 -timeout 24h -v -run '^TestSimulation$$' ./internal/simulation

.PHONY: sim-agents
sim-agents: ## Run the controller of AgentRuntimes, beside Berth's and a public one of Sandboxes, through as many
	SEEDS=$(or $(SEEDS),20000) PROGRESS=1 go test -count=1 -timeout 24h -v -run '^TestAgentSimulation$$' ./internal/simulation

.PHONY: sim-mutations
sim-mutations: ## Show that the simulator notices known bugs, each within MUTATION_SEEDS=20000 schedules
	MUTATION_SEEDS=$(or $(MUTATION_SEEDS),20000) go test -count=1 -timeout 24h -v -run '^Test(Agent)?Mutations$$' ./internal/simulation

.PHONY: chaos
chaos: ## Break everything around the running controllers in ROUNDS=10 schedules of SEED=1, and check from outside
	@go run ./hack/cluster build
	CHAOS_ROUNDS=$(or $(ROUNDS),10) CHAOS_SEED=$(or $(SEED),1) go test -count=1 -timeout 24h -v -run '^TestChaos$$' ./test/chaos

.PHONY: scenario
scenario: ## Replay on real pods the incident that NAME=... names, or list all there are
	@list() { go -C test/scenarios test -run '^$$' -args -scenarios | grep NAME=; }; \
	if [[ -z "$(NAME)" ]]; then list; exit; fi; \
	list | grep -q 'NAME=$(NAME) ' || { echo 'There is no scenario "$(NAME)"; "make scenario" lists them.' >&2; exit 1; }; \
	go run ./hack/cluster build; \
	go test -count=1 -timeout $(TEST_TIMEOUT) -v -run '^TestScenario$$/^$(NAME)$$' ./test/scenarios | sed -u '/^=== RUN/d'

.PHONY: bench
bench: ## Run the benchmarks
	go test -run '^$$' -bench . -benchmem ./internal/...
