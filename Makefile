# Everything a contributor runs. It needs Go, make, git and bash; what else is
# needed is built from pinned sources, once. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
REVISION ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# The time of everything in the image: that of the commit, so that it is built alike anywhere.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
FUZZTIME ?= 60s

STAMP := github.com/realmkeeper/realmkeeper/internal/version
LDFLAGS := -s -w -X $(STAMP).Version=$(VERSION) -X $(STAMP).Revision=$(REVISION)

# The same on every machine, with a C compiler or without; so one build cache serves
# all targets. Only the race detector needs cgo.
export CGO_ENABLED := 0

# The tools are pinned in modules of their own; go builds them once and keeps them.
TOOL := go tool -modfile=hack/tools/go.mod
GOLANGCI_LINT := go tool -modfile=hack/tools/golangci/go.mod golangci-lint
HELM_TOOL := go tool -modfile=hack/tools/helm/go.mod
HELM := $(HELM_TOOL) helm.sh/helm/v4/cmd/helm

# What `make generate` writes, and `make verify` expects unchanged.
GENERATED := api config/crd/bases config/rbac/role.yaml docs/api-reference.md \
	charts/realmkeeper/templates/crds charts/realmkeeper/templates/rbac charts/realmkeeper/README.md
# All but hack/tools/crds, from which nothing is built.
MODULES := . test hack/tools hack/tools/golangci hack/tools/helm test/controlplane/coredns test/controlplane/etcd test/controlplane/kubernetes hack/image test/promql

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Try it

.PHONY: demo
demo: ## Run everything on this machine without containers: get a token, open the portal.
	@echo "Building the demo; about 2 min the first time ..."
	@go run -C test ./demo up

.PHONY: demo-down
demo-down: ## Stop the demo and remove all that it made.
	@go run -C test ./demo down

.PHONY: cluster-up
cluster-up: ## Run a Kubernetes cluster of one node on this machine, as root, without Docker.
	@echo "Building the cluster; about 9 min the first time ..."
	@go run -C test ./cluster up

.PHONY: cluster-down
cluster-down: ## Stop the cluster and remove all that it made.
	@go run -C test ./cluster down

##@ Build

.PHONY: build
build: ## Build the binaries into bin/.
	@echo "Building bin/ (version $(VERSION)); about 2 min the first time ..."
	@mkdir -p bin
	@go build -buildvcs=false -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: image
image: ## Build the container image for amd64 and arm64 into dist/, without Docker.
	@echo "Building the image into dist/; about 5 min the first time ..."
	@go run -C hack/image . --source "$(CURDIR)" --version "$(VERSION)" --revision "$(REVISION)" \
		--source-date-epoch "$(SOURCE_DATE_EPOCH)" --ldflags "$(LDFLAGS)"

# The chart has the version of the image, where that is one of SemVer; a bare commit isn't.
CHART_VERSION = $(shell [[ "$(VERSION:v%=%)" =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$$ ]] && \
	echo "$(VERSION:v%=%)" || echo "0.1.0-dev.g$(VERSION)")

.PHONY: chart
chart: ## Package the Helm chart into dist/, for the image of the same version.
	@echo "Packaging the chart into dist/; some seconds, 4 min the first time because Helm is built ..."
	@$(HELM) package charts/realmkeeper --destination dist --version "$(CHART_VERSION)" --app-version "$(VERSION)"

.PHONY: control-plane
control-plane: ## Build etcd, kube-apiserver, kube-controller-manager and kubectl, once per version (5 min).
	@test/controlplane/build.sh kubectl >/dev/null

.PHONY: clean
clean: ## Remove what was built here. The shared caches and a running demo stay.
	@rm -rf bin dist .test coverage* test/interop/node/node_modules

##@ Develop

.PHONY: generate
generate: ## Write deepcopy, apply configurations, CRDs, RBAC, the API reference and what the chart has of them anew.
	@echo "Generating code, CRDs, RBAC, the API reference and the chart; about 20 s, 2 min the first time ..."
	@$(TOOL) controller-gen paths=./api/... \
		object:headerFile=hack/boilerplate.go.txt \
		applyconfiguration:headerFile=hack/boilerplate.go.txt \
		crd output:crd:dir=config/crd/bases
	@$(TOOL) controller-gen paths=./internal/... paths=./cmd/... \
		rbac:roleName=realmkeeper-operator output:rbac:dir=config/rbac
	@go run ./hack/chart
	@mkdir -p docs
	@$(TOOL) crd-ref-docs --log-level=ERROR --source-path=api/v1alpha1 --renderer=markdown \
		--config=hack/crd-ref-docs.yaml --templates-dir=hack/crd-ref-docs --output-path=docs/api-reference.md
	@$(HELM_TOOL) helm-docs --chart-search-root=charts --sort-values-order=file --log-level=warning

.PHONY: fmt
fmt: ## Format the Go code.
	@$(GOLANGCI_LINT) fmt .

.PHONY: lint
lint: ## Lint, with the import rules of the architecture.
	@echo "Linting; about 1 min, 3 min the first time because the linter is built ..."
	@$(GOLANGCI_LINT) run --allow-serial-runners ./...
	@cd test && go tool -modfile=../hack/tools/golangci/go.mod golangci-lint run --allow-serial-runners ./...

##@ Test

.PHONY: test-unit
test-unit: ## Run the unit tests. They need only Go.
	@go test ./...

.PHONY: test
test: lint test-race test-integration ## Lint, then run the unit tests with the race detector and the API server tests.

.PHONY: test-all
test-all: test test-extra ## Run all tests except e2e: test and test-extra.

.PHONY: test-race
test-race: c-compiler ## Run the unit tests with the race detector.
	@echo "Running the unit tests with the race detector; 2 min, 5 min the first time ..."
	@CGO_ENABLED=1 go test -race ./...

# The suites share one build of the product with the race detector. Test code itself runs without.
RACE_BINARIES := $(CURDIR)/.test/bin

# The suites run the binaries and don't import their code, so cached results would be stale:
# hence -count=1. They mostly wait, so all of them run at the same time.
SUITES := REALMKEEPER_BINARIES=$(RACE_BINARIES) go test -C test -count=1 -parallel 8 -timeout 20m

.PHONY: test-integration
test-integration: control-plane race-binaries ## Run operator and token servers against real API servers.
	@echo "Running the integration tests; 4 min ..."
	@$(SUITES) -p 8 ./integration/...

.PHONY: test-extra
test-extra: control-plane race-binaries peers chromium helm ## Test portal, interoperability, chart, demo, harness, and image.
	@echo "Running the other tests; 5 min ..."
	@go test -C hack/image ./...
	@$(SUITES) -p 3 $$(go list -C test ./... | grep -v /test/integration/)

.PHONY: race-binaries
race-binaries: c-compiler
	@echo "Building the binaries with the race detector; some seconds, 3 min the first time ..."
	@CGO_ENABLED=1 go build -race -buildvcs=false -o $(RACE_BINARIES)/ ./cmd/...

.PHONY: e2e
e2e: ## Test in a real cluster: the node of cluster-up, or that of KUBECONFIG.
	@test/e2e/run.sh

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (60s).
	@hack/fuzz.sh "$(FUZZTIME)"

.PHONY: bench
bench: ## Measure the token server against limits of this machine.
	@go run -C test ./bench

.PHONY: verify
verify: verify-generated verify-format verify-modules vet lint chart-lint ## Fail on anything stale or untidy: all of the following, and lint.

.PHONY: verify-generated
verify-generated: generate ## Fail when a generated file differs from what is committed.
	@stale=$$(git status --porcelain -- $(GENERATED)); \
	if [[ -n $$stale ]]; then \
		git --no-pager diff -- $(GENERATED); \
		printf 'Generated files differ from what is committed:\n%s\nRun make generate and commit the result.\n' "$$stale" >&2; \
		exit 1; \
	fi

.PHONY: verify-format
verify-format: ## Fail when Go code isn't formatted.
	@unformatted=$$($(TOOL) gofumpt -l .); \
	if [[ -n $$unformatted ]]; then \
		printf 'Not formatted:\n%s\nRun make fmt.\n' "$$unformatted" >&2; \
		exit 1; \
	fi

.PHONY: verify-modules
verify-modules: ## Fail when a go.mod isn't tidy, or the product and its tests require different versions.
	@echo "Checking that the go.mod files are tidy; some seconds, 1 min the first time ..."
	@for module in $(MODULES); do (cd "$$module" && go mod tidy -diff); done
	@requirements() { awk '/^\t/ && $$2 ~ /^v/ { print $$1, $$2 }' "$$1" | sort; }; \
	different=$$(join <(requirements go.mod) <(requirements test/go.mod) | awk '$$2 != $$3'); \
	if [[ -n $$different ]]; then \
		printf 'go.mod and test/go.mod require different versions:\n%s\nRequire the same, then run go mod tidy in both.\n' "$$different" >&2; \
		exit 1; \
	fi

.PHONY: chart-lint
chart-lint: ## Lint the Helm chart with every file of values, and run its unit tests.
	@echo "Linting the chart and running its unit tests; some seconds, 4 min the first time because Helm is built ..."
	@for values in charts/realmkeeper/{values,values-testing,values-production,ci/everything-values}.yaml; do \
		$(HELM) lint --strict --quiet charts/realmkeeper --values "$$values" --set instance.domain=example.com; \
	done
	@$(HELM_TOOL) helm-unittest --strict charts/realmkeeper

.PHONY: helm
helm: ## Build Helm 3 and 4, which the tests of the chart run.
	@echo "Building Helm; some seconds, 4 min the first time ..."
	@for major in v3 v4; do $(HELM_TOOL) "helm.sh/helm/$$major/cmd/helm" version >/dev/null; done

.PHONY: vet
vet: ## Run go vet.
	@go vet ./...
	@cd test && go vet -tags e2e ./...

.PHONY: c-compiler
c-compiler: ## Install gcc where it is missing: the race detector needs it.
	@hack/c-compiler.sh

.PHONY: peers
peers: ## Install nginx, Node.js and curl for the interoperability tests if they are missing.
	@test/interop/peers.sh

.PHONY: chromium
chromium: ## Install chromium where it is missing: the tests of the portal need it.
	@test/portal/chromium.sh
