# Everything that contributors run. It needs Go, make, git, and bash; everything else is built
# once from pinned sources. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Tags of other modules, such as api/verify/v1.2.3, aren't versions of the product.
VERSION ?= $(shell git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo unknown)
REVISION ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# The timestamp of all files in the image is that of the commit, so that builds are reproducible.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
FUZZTIME ?= 60s

STAMP := github.com/realmkeeper/realmkeeper/internal/contract/version
# All builds of the product have these flags. Without grpcnotrace, gRPC links html/template. Because templates
# call methods by name, the linker then keeps the exported methods of all types. A -tags of a command
# replaces this one, so it repeats it.
BUILD_FLAGS := -trimpath -buildvcs=false -tags=grpcnotrace
LDFLAGS := -s -w -X $(STAMP).Version=$(VERSION) -X $(STAMP).Revision=$(REVISION)

# The supported minor versions of Kubernetes, oldest first. The tests, the demo, and the cluster run
# the newest one, that of KUBERNETES, as in `make demo KUBERNETES=1.34`, or that in KUBEBUILDER_ASSETS.
KUBERNETES_VERSIONS := $(shell ls test/controlplane/kubernetes | sort -V)

# With or without a C compiler, all targets share one build cache. Only the race detector needs
# cgo.
export CGO_ENABLED := 0
# Without the paths of this checkout, what one target or checkout has compiled is cached for all. Without the
# symbol table, linking takes half as long. The traces of panics and races don't need it.
export GOFLAGS := $(BUILD_FLAGS) -ldflags=-s $(shell go env GOFLAGS 2>/dev/null)
# By default, every program with the race detector sleeps for a second before it exits.
export GORACE := atexit_sleep_ms=0 $(GORACE)

# The tools are pinned in modules of their own. Go builds them once and caches them.
TOOL := go tool -modfile=hack/tools/go.mod
GOLANGCI_LINT := $(CURDIR)/.test/golangci-lint
HELM_TOOL := go tool -modfile=hack/tools/helm/go.mod
HELM := $(HELM_TOOL) helm.sh/helm/v4/cmd/helm

# Files that `make generate` writes and `make verify` checks.
GENERATED := api config/crd/bases config/rbac/role.yaml docs/api-reference.md docs/reasons.md \
	charts/realmkeeper/templates/crds charts/realmkeeper/templates/rbac charts/realmkeeper/templates/admission \
	docs/configuration-reference.md docs/operations/permissions.md docs/review.md docs/images/packages.svg
# The modules that users import or copy, besides the product. Their tests are unit tests, too.
LIBRARIES := api/verify docs/examples
# All modules except hack/tools/crds, which contains no code to build, and those below test/beside, which only make
# beside builds.
MODULES := . $(LIBRARIES) test hack/tools hack/tools/cosign hack/tools/golangci hack/tools/helm hack/tools/registry test/controlplane/coredns test/controlplane/etcd test/controlplane/etcdtools test/controlplane/kubernetes/* hack/image hack/release hack/site hack/size test/oauthclients test/promql

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Try it

.PHONY: demo
demo: ## Run everything on this machine without containers: get a token, open the portal.
	@echo "Building the demo; 25 s, about 10 min the first time ..."
	@hack/quiet.sh go run -C test ./demo up

# The port of the local issuer on the loopback interface. 0 selects a free one.
PORT ?= 8443

.PHONY: serve
serve: ## Serve the objects in config/samples on this machine at PORT (8443), without a cluster.
	@echo "Building the local issuer; a few seconds, about 2 min the first time ..."
	@GOGC=off GOMEMLIMIT=1GiB hack/quiet.sh go build $(BUILD_FLAGS) -ldflags "$(LDFLAGS)" -o bin/ ./cmd/realmkeeper-local
	@bin/realmkeeper-local -f config/samples --port $(PORT)

.PHONY: demo-down
demo-down: ## Stop the demo and remove everything it created.
	@go run -C test ./demo down

.PHONY: cluster-up
cluster-up: ## Run a single-node Kubernetes cluster on this machine, as root, without Docker.
	@echo "Building the cluster; about 9 min the first time ..."
	@go run -C test ./cluster up

.PHONY: cluster-down
cluster-down: ## Stop the cluster and remove everything it created.
	@go run -C test ./cluster down

##@ Build

.PHONY: build
build: ## Build the binaries into bin/.
	@echo "Building bin/ (version $(VERSION)); about 2 min the first time ..."
	@mkdir -p bin
	@go build $(BUILD_FLAGS) -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: image
image: ## Build the container images for amd64 and arm64, or for ONLY, into dist/, without Docker.
	@echo "Building the images into dist/; about 3 min for each platform the first time ..."
	@go run -C hack/image . --source "$(CURDIR)" --version "$(VERSION)" --revision "$(REVISION)" \
		--source-date-epoch "$(SOURCE_DATE_EPOCH)" --ldflags "$(LDFLAGS)" $(if $(ONLY),--only "$(ONLY)")

# The chart has the version of the image if that is a semantic version; a bare commit is not.
CHART_VERSION = $(shell [[ "$(VERSION:v%=%)" =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$$ ]] && \
	echo "$(VERSION:v%=%)" || echo "0.1.0-dev.g$(VERSION)")

.PHONY: chart
chart: ## Package the Helm chart into dist/, for the image of the same version.
	@echo "Packaging the chart into dist/; a few seconds, 4 min the first time to build Helm ..."
	@$(HELM) package charts/realmkeeper --destination dist --version "$(CHART_VERSION)" --app-version "$(VERSION)"

# REGISTRY is where a release is published. SNAPSHOT=1 also builds a working tree with changes. ONLY is
# the only platform to build. COSIGN_KEY is the private key of cosign, as a file or as env://VARIABLE.
REGISTRY ?= ghcr.io/realmkeeper
RELEASE_FLAGS = $(if $(SNAPSHOT),--snapshot) $(if $(ONLY),--only "$(ONLY)") $(if $(COSIGN_KEY),--key "$(COSIGN_KEY)")

.PHONY: release
release: ## Build all files of the release VERSION into dist/release; see docs/release.md.
	@echo "Building the release $(VERSION) into dist/release; 1 min, up to 15 min the first time ..."
	@go run -C hack/release . --source "$(CURDIR)" --version "$(VERSION)" --revision "$(REVISION)" \
		--source-date-epoch "$(SOURCE_DATE_EPOCH)" --ldflags "$(LDFLAGS)" --registry "$(REGISTRY)" $(RELEASE_FLAGS)

.PHONY: verify-release
verify-release: ## Build the release twice, in two clones of HEAD, and fail if a checksum differs.
	@echo "Building the release in two clones; 2 min, up to 18 min the first time ..."
	@hack/verify-release.sh

.PHONY: publish
publish: ## Push the images and the chart in dist/release to REGISTRY; log in first.
	@hack/publish.sh "$(VERSION)" "$(REGISTRY)"

# DOCS_BASE is the path of the published site, such as /v0.1/. The site is built into dist/docs/v0.1/.
DOCS_BASE ?= /
LINK_CHECK := go tool -modfile=hack/site/go.mod htmltest --conf hack/site/htmltest.yml

.PHONY: docs
docs: site-packages ## Build the documentation site into dist/docs, and check its internal links.
	@echo "Building the documentation site; 15 s, 1 min the first time ..."
	@rm -rf dist/docs
	@cd hack/site && VERSION="$(VERSION)" DOCS_BASE="$(DOCS_BASE)" node_modules/.bin/vitepress build
	@$(LINK_CHECK) --skip-external

.PHONY: docs-serve
docs-serve: docs ## Build the documentation site, and serve it at http://127.0.0.1:8000.
	@cd hack/site && node_modules/.bin/vite preview --outDir ../../dist/docs --host 127.0.0.1 --port 8000 --strictPort

.PHONY: docs-links
docs-links: docs ## Build the documentation site, and also check its links to other sites; needs internet access.
	@$(LINK_CHECK)

.PHONY: site-packages
site-packages:
	@hack/site/packages.sh

.PHONY: control-plane
control-plane: ## Build etcd, kube-apiserver, kube-controller-manager, and kubectl, once for each version (6 min).
	@test/controlplane/build.sh kubectl etcdctl etcdutl >/dev/null

.PHONY: clean
clean: ## Remove build output of this checkout, but not shared caches or a running demo.
	@rm -rf bin dist .test coverage* test/interop/node/node_modules test/beside/node/node_modules hack/site/node_modules

##@ Develop

.PHONY: generate
generate: ## Generate deepcopy functions, apply configurations, CRDs, RBAC, the references of the API and the configuration, copies in the chart, and the drawing of the packages.
	@echo "Generating code, CRDs, RBAC, the references, the chart, and the drawing of the packages; about 30 s, 4 min the first time ..."
	@$(TOOL) controller-gen paths=./api/... \
		object:headerFile=hack/boilerplate.go.txt \
		applyconfiguration:headerFile=hack/boilerplate.go.txt \
		crd output:crd:dir=config/crd/bases
	@go run ./hack/descriptions config/crd/bases/*.yaml
	@$(TOOL) controller-gen paths=./internal/... paths=./cmd/... \
		rbac:roleName=realmkeeper-operator output:rbac:dir=config/rbac
	@go run ./hack/chart
	@mkdir -p docs
	@$(TOOL) crd-ref-docs --log-level=ERROR --source-path=api/v1beta1 --renderer=markdown \
		--config=hack/crd-ref-docs.yaml --templates-dir=hack/crd-ref-docs --output-path=docs/api-reference.md
	@go run ./hack/reasons > docs/reasons.md
	@go run ./hack/packages > docs/images/packages.svg
	@$(MAKE) --no-print-directory build
	@go run ./hack/reference

# golangci-lint with kube-api-linter. It collects garbage less often, which saves a sixth of the time.
LINT := GOGC=400 GOMEMLIMIT=4GiB $(GOLANGCI_LINT) run --allow-serial-runners

.PHONY: linter
linter:
	@echo "Building the linter; a few seconds, 3 min the first time ..."
	@go build -C hack/tools/golangci -trimpath -buildvcs=false -o "$(GOLANGCI_LINT)" .

.PHONY: fmt
fmt: linter ## Format the Go code.
	@$(GOLANGCI_LINT) fmt .

.PHONY: lint
lint: linter ## Lint the Go code, including the import rules of the architecture and the conventions for API types.
	@echo "Linting; about 1 min ..."
	@$(LINT) ./...
	@for module in $(LIBRARIES) test; do (cd "$$module" && $(LINT) ./...); done

##@ Test

# lint runs vet.
TEST_FLAGS := -vet=off

.PHONY: test-unit
test-unit: ## Run the unit tests. They need only Go.
	@go test ./...
	@for module in $(LIBRARIES); do go test -C "$$module" ./...; done

.PHONY: test
test: lint test-race test-integration ## Lint, then run the unit tests with the race detector and the API server tests.

.PHONY: test-all
test-all: test test-extra test-site ## Run all tests except e2e and test-nightly: test, test-extra, and test-site.

# Without the race detector, the simulation explores several times as much. test-nightly runs it with the
# race detector.
SIMULATION := ./internal/operator/simulation

.PHONY: test-race
test-race: c-compiler ## Run the unit tests with the race detector.
	@echo "Running the unit tests with the race detector; 3 min, longer the first time ..."
	@code=0; go test $(TEST_FLAGS) $(SIMULATION) & simulation=$$!; \
	CGO_ENABLED=1 go test -race $(TEST_FLAGS) -p 4 $$(go list ./... | grep -v $(SIMULATION:.%=%)$$) || code=$$?; \
	for module in $(LIBRARIES); do CGO_ENABLED=1 go test -C "$$module" -race $(TEST_FLAGS) ./... || code=$$?; done; \
	wait "$$simulation" || code=$$?; exit "$$code"

# The suites share one build of the product. Those in which much happens at the same time share one
# with the race detector (env.WithRaceDetector). Test code itself runs without.
RACE_BINARIES := $(CURDIR)/.test/bin

# The suites run the binaries and don't import their code, so cached results would be stale:
# hence -count=1. Several of them run at the same time. They keep the CPU busy, so all
# programs, those of the control plane included, collect garbage less often.
SUITES := GOGC=400 REALMKEEPER_BINARIES=$(CURDIR)/bin REALMKEEPER_RACE_BINARIES=$(RACE_BINARIES) \
	go test -C test -count=1 $(TEST_FLAGS) -parallel 8 -timeout 20m

# The longest suites start first.
INTEGRATION := -p 4 ./integration/{faults,plugin,tenancy,clients,rotation,availability,scale}
# test-extra runs these suites, because while they wait, its other tests keep the CPU busy.
EXTRA_SUITES := observers permissions

.PHONY: test-integration
test-integration: control-plane build race-binaries ## Run the operator and token servers against real API servers.
	@echo "Running the integration tests; 5 min ..."
	@$(SUITES) $(INTEGRATION) $$(go list -C test ./integration/... | grep -v $(EXTRA_SUITES:%=-e /%))

# The oldest version differs from the newest mainly in the validation of objects. test-versions also
# applies the manifests with it.
.PHONY: test-oldest
test-oldest: export KUBERNETES = $(firstword $(KUBERNETES_VERSIONS))
test-oldest: override export KUBEBUILDER_ASSETS =
test-oldest: ## Run the API's tests on the oldest supported version of Kubernetes.
	@echo "Testing the API on Kubernetes $(KUBERNETES), always built from source; 1 min, 6 min the first time ..."
	@test/controlplane/build.sh kubectl >/dev/null
	@$(SUITES) ./integration/api -skip 'Manifests|Guides|NameReferences|DocumentedPrefix|Readme'

# Files with the build tag nightly prove with real processes what faster tests prove for each change;
# see CONTRIBUTING.md.
.PHONY: test-nightly
test-nightly: test-properties test-versions test-arm64 test-release verify-release test-token-file ## Run the tests that repeat with real processes, or on other versions, what is tested for each change (1 h 30 min).

.PHONY: test-properties
test-properties: c-compiler ## Test the plan of status indexes with random steps, and run the simulation with the race detector.
	@echo "Testing the plan of status indexes and the simulation with the race detector; 10 min ..."
	@EXPLORE=100s CGO_ENABLED=1 go test -race -tags nightly,grpcnotrace -count=1 -timeout 30m ./internal/operator/apiclient/statusindex $(SIMULATION)

.PHONY: test-versions
test-versions: override export KUBEBUILDER_ASSETS =
test-versions: build race-binaries softhsm helm ## Run the integration tests, those of test-nightly included, and the chart tests on every supported version of Kubernetes, one after the other (12 min each).
	@failed=0; \
	for version in $(KUBERNETES_VERSIONS); do \
		echo "Running the integration and chart tests on Kubernetes $$version, always built from source; 12 min, 19 min the first time ..."; \
		export KUBERNETES=$$version; \
		test/controlplane/build.sh kubectl etcdctl etcdutl >/dev/null && $(SUITES) -tags nightly,grpcnotrace $(INTEGRATION) ./integration/observers ./integration/... ./chart || failed=1; \
	done; \
	exit $$failed

# There is no arm64 machine to test on. The control plane and the browser are those of this machine.
.PHONY: test-arm64
test-arm64: control-plane chromium ## As root on Debian, test rotations and the portal with the programs for arm64 in an emulator (5 min).
	@echo "Building the programs for arm64; a few seconds, 3 min the first time ..."
	@LDFLAGS="$(LDFLAGS)" test/arm64.sh "$(CURDIR)/.test/arm64"
	@echo "Testing rotations and the portal with them in an emulator; 5 min ..."
	@REALMKEEPER_BINARIES="$(CURDIR)/.test/arm64" go test -C test -count=1 $(TEST_FLAGS) -timeout 30m \
		./integration/rotation ./portal -run 'TestScheduledRotation|TestKeyRotation|TestPortal'

.PHONY: test-release
test-release: ## Build the image and the release of one platform, and check their content.
	@echo "Testing the image and the release; 2 min ..."
	@go test -C hack/image ./...
	@go test -C hack/release -timeout 20m ./...

.PHONY: test-token-file
test-token-file: ## As root, run Prometheus with token agents in the node of cluster-up, while everything changes that tokens depend on (15 min).
	@E2E_NIGHTLY=yes test/e2e/run.sh -run TestPrometheusReadsTokenFile

.PHONY: test-extra
test-extra: control-plane build peers chromium softhsm helm ## Test the portal, interoperability, the chart, the permissions, the demo, the test framework, and the API on the oldest version of Kubernetes, then attack the servers.
	@echo "Running the other tests, the longest first; 5 min ..."
	@go test -C hack/size ./...
	@go test -tags peers,grpcnotrace $(TEST_FLAGS) ./internal/faces/portal -run TestScriptSnippets
	@code=0; $(MAKE) test-oldest & oldest=$$!; \
	$(SUITES) -p 4 ./{interop,chart} $(EXTRA_SUITES:%=./integration/%) ./portal $$(go list -C test ./... | grep -v -e /test/integration/ -e /test/attack -e /test/site) || code=$$?; \
	wait "$$oldest" || code=$$?; exit "$$code"
	@echo "Attacking the token server and the portal; 2 min ..."
	@$(ATTACKS) -p 1 -parallel 2 ./attack/...

# The attacked servers are ordinary builds, because the race detector takes several times the
# memory. The attacks need the whole machine, so nothing else runs at the same time.
ATTACKS := REALMKEEPER_BINARIES=$(CURDIR)/bin go test -C test -count=1 $(TEST_FLAGS) -timeout 2h

.PHONY: test-site
test-site: docs chromium ## Build the documentation site, check its links, and test it in a browser.
	@echo "Testing the documentation site in a browser; 40 s ..."
	@go test -C test -count=1 $(TEST_FLAGS) ./site

.PHONY: soak
soak: control-plane build ## Attack the token server and the portal at full length, as root, and write dist/soak.md (50 min).
	@echo "Attacking the token server and the portal at full length; 50 min ..."
	@mkdir -p dist; rm -f dist/soak.md
	@failed=0; \
	$(ATTACKS) -v -tags nightly,grpcnotrace ./integration/faults -run TestTwoActiveOperators -args -two-operators 10m || failed=$$?; \
	$(ATTACKS) -parallel 1 ./attack -args -attack.duration 60s -attack.corpus 10s \
		-attack.report "$(CURDIR)/dist/soak.md" || failed=$$?; \
	cat dist/soak.md; exit $$failed

# Not a part of CI, because it installs many packages, and mostly waits for a rotation of the signing key.
.PHONY: beside
beside: control-plane build chromium ## As root on Debian, run the programs of docs/works-with beside the product, and compare what their users see with its pages (35 min).
	@test/beside/packages.sh
	@echo "Building Flux, SPIRE, and other programs from source; a few seconds, about 30 min the first time ..."
	@test/beside/build.sh $(BESIDE_BINARIES)
	@echo "Running the programs of docs/works-with; 35 min, of which they wait 10 min for the next signing key ..."
	@REALMKEEPER_BINARIES=$(CURDIR)/bin BESIDE_BINARIES=$(BESIDE_BINARIES) \
		go test -C test -count=1 $(TEST_FLAGS) -timeout 60m -v -tags beside,grpcnotrace ./beside

# Where the programs that are built from source are.
BESIDE_BINARIES := $(CURDIR)/.test/beside

# EXPLORE is how long the simulation explores.
EXPLORE ?= 1h

.PHONY: simulate
simulate: ## Explore the control plane by simulation for EXPLORE (1h), in two ways at the same time.
	@echo "Exploring the control plane; $(EXPLORE) ..."
	@simulate() { go test $(SIMULATION) -count=1 -timeout 8h -v -explore $(EXPLORE) -run "$$1"; }; \
	code=0; simulate TestExplore & explore=$$!; simulate TestRandomRuns || code=$$?; \
	wait "$$explore" || code=$$?; exit "$$code"

# Like the attacks, this target runs ordinary builds and needs the whole machine.
CLIENTS ?= 20000

.PHONY: scale
scale: control-plane build ## As root, measure CLIENTS (20000) ApiClients and a token server with 5 times as many, and write dist/scale.txt (60 min).
	@echo "Measuring the operator with $(CLIENTS) ApiClients, and the token server; 60 min for 20,000 ..."
	@mkdir -p dist; rm -f dist/scale.txt
	@failed=0; \
	$(ATTACKS) -tags scale,grpcnotrace ./integration/scale -run 'Scale$$' \
		-args -scale $(CLIENTS) -scale.report "$(CURDIR)/dist/scale.txt" || failed=$$?; \
	$(ATTACKS) -tags scale,grpcnotrace ./attack -run TestTokenServerScale \
		-args -attack.clients $$((5 * $(CLIENTS))) -attack.clients.report "$(CURDIR)/dist/scale.txt" || failed=$$?; \
	cat dist/scale.txt; exit $$failed

.PHONY: race-binaries
race-binaries: c-compiler
	@echo "Building the binaries with the race detector; a few seconds, 3 min the first time ..."
	@CGO_ENABLED=1 go build -race $(BUILD_FLAGS) -o $(RACE_BINARIES)/ ./cmd/...

.PHONY: e2e
e2e: ## Test in a real cluster: the node of cluster-up, or the cluster of KUBECONFIG.
	@test/e2e/run.sh

# Not a part of CI, because it builds two releases. The registry listens on the address of this machine for the node.
.PHONY: rehearse
rehearse: ## As root, publish a release of HEAD in a registry on this machine, verify, mirror, install, upgrade, roll back, and uninstall it as documented, and break each step (10 min, 6 min with REUSE=1, which reuses the last release, and up to 45 min the first time).
	@REUSE="$(REUSE)" E2E_REGISTRY=10.244.1.1:5443/realmkeeper test/e2e/run.sh -run TestRehearsal

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (60s).
	@hack/fuzz.sh "$(FUZZTIME)"

.PHONY: bench
bench: ## Measure the token server against limits of this machine.
	@go run -C test ./bench

.PHONY: verify
verify: verify-generated verify-format verify-modules lint chart-lint workflow-lint size ## Fail if anything is stale, untidy, or too large: generated files, formatting, modules, lint, the chart, the workflows, and the size.

.PHONY: verify-generated
verify-generated: generate ## Fail if a generated file differs from the committed one.
	@stale=$$(git status --porcelain -- $(GENERATED)); \
	if [[ -n $$stale ]]; then \
		git --no-pager diff -- $(GENERATED); \
		printf 'Generated files differ from the committed ones:\n%s\nRun make generate and commit the result.\n' "$$stale" >&2; \
		exit 1; \
	fi

.PHONY: verify-format
verify-format: ## Fail if Go code is not formatted.
	@unformatted=$$($(TOOL) gofumpt -l .); \
	if [[ -n $$unformatted ]]; then \
		printf 'Not formatted:\n%s\nRun make fmt.\n' "$$unformatted" >&2; \
		exit 1; \
	fi

.PHONY: verify-modules
verify-modules: ## Fail if a go.mod is not tidy, or if the product, its libraries, and its tests require different versions.
	@echo "Checking that the go.mod files are tidy; a few seconds, 1 min the first time ..."
	@for module in $(MODULES); do (cd "$$module" && go mod tidy -diff); done
	@requirements() { awk '{ sub(/^require /, "\t") } /^\t/ && $$2 ~ /^v/ { print $$1, $$2 }' "$$1" | sort; }; \
	for module in $(LIBRARIES) test; do \
		different=$$(join <(requirements go.mod) <(requirements "$$module/go.mod") | awk '$$2 != $$3'); \
		if [[ -n $$different ]]; then \
			printf 'go.mod and %s/go.mod require different versions:\n%s\nRequire the same, then run go mod tidy in both.\n' "$$module" "$$different" >&2; \
			exit 1; \
		fi; \
	done

.PHONY: size
size: build ## Measure the code and the binaries, and fail if a value is above its ceiling in hack/size/ceilings.txt.
	@echo "Measuring the size of the project; 10 s ..."
	@go run -C hack/size . --bin "$(CURDIR)/bin" $(if $(CONTROL_PLANES),--control-planes "$(CONTROL_PLANES)")

.PHONY: chart-lint
chart-lint: ## Lint the Helm chart with every values file, and run its unit tests.
	@echo "Linting the chart and running its unit tests; a few seconds, 4 min the first time to build Helm ..."
	@for values in charts/realmkeeper/{values,values-testing,values-production,ci/everything-values}.yaml; do \
		$(HELM) lint --strict --quiet charts/realmkeeper --values "$$values" --set instance.domain=example.com; \
	done
	@$(HELM_TOOL) helm-unittest --strict charts/realmkeeper

.PHONY: workflow-lint
workflow-lint: ## Lint the GitHub workflows.
	@$(TOOL) actionlint -shellcheck= -pyflakes=

# The database of vulnerabilities is on the internet, so this target isn't part of verify.
.PHONY: vulncheck
vulncheck: ## Fail if the product calls code with a known vulnerability; needs internet access.
	@$(TOOL) govulncheck ./...
	@for module in $(LIBRARIES); do $(TOOL) govulncheck -C "$$module" ./...; done

.PHONY: helm
helm: ## Build Helm 3 and 4 for the chart tests.
	@echo "Building Helm; a few seconds, 4 min the first time ..."
	@for major in v3 v4; do $(HELM_TOOL) "helm.sh/helm/$$major/cmd/helm" version >/dev/null; done

.PHONY: c-compiler
c-compiler: ## Install gcc, which the race detector needs, if it is missing.
	@hack/c-compiler.sh

.PHONY: peers
peers: ## Install nginx, Node.js, Python, socat, a JDK, curl, and jq for the tests that need them if they are missing.
	@test/interop/peers.sh

.PHONY: softhsm
softhsm: ## Install SoftHSM, which the tests of key encryption need, if it is missing.
	@test/kms/softhsm.sh

.PHONY: chromium
chromium: ## Install Chromium, which the tests of the portal and the documentation site need, if it is missing.
	@test/portal/chromium.sh
