#!/usr/bin/env bash
# Runs the end-to-end tests on a real cluster. Arguments go to go test, such as -run NAME.
#
# If KUBECONFIG is set, the tests use that cluster. Realmkeeper must not be installed in it. It
# must have the images, or E2E_LOAD must be a command that loads image archives, such as
# "kind load image-archive". If KUBECONFIG is unset or is that of `make cluster-up`, the tests
# use the node of `make cluster-up`. If it isn't running, this script starts it and stops it at
# the end. E2E_HELM="helm helm3" also tests upgrades with Helm 3. E2E_NIGHTLY=yes adds the nightly
# tests, and builds Prometheus for them. With E2E_REGISTRY, TestRehearsal publishes releases there, and no other
# test can run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$PWD/.e2e
bin=$work/bin
previous=0.0.1-e2e current=0.0.2-e2e
tags=e2e,grpcnotrace

say() { printf '%s\n' "$*"; }

say "Building the programs and images for the end-to-end tests; about 6 min the first time ..."
mkdir -p "$bin"
export CGO_ENABLED=0
kubernetes=$(test/controlplane/build.sh kubectl)
ln -sf "$kubernetes/kubectl" "$bin/kubectl"
go build -modfile=hack/tools/helm/go.mod -o "$bin/helm" helm.sh/helm/v4/cmd/helm
[[ ${E2E_HELM:-} != *helm3* ]] || go build -modfile=hack/tools/helm/go.mod -o "$bin/helm3" helm.sh/helm/v3/cmd/helm
go build -C test -o "$bin/" ./cluster ./e2e/workload

# Test the cluster program first, because only one cluster can run at a time.
own=$PWD/.cluster/kubeconfig
testing=
if (($# == 0)) && [[ ${KUBECONFIG:-$own} == "$own" && ! -e $own ]]; then
	go test -C test -tags e2e,grpcnotrace -count 1 -timeout 20m -v ./cluster &
	testing=$!
fi

archives=("$work/workload.tar")
go run -C hack/image . archive --image realmkeeper-workload:e2e --output "$work/workload.tar" "$bin/workload"
# As in the Makefile.
go build -trimpath -buildvcs=false -tags=grpcnotrace -ldflags "-s -w" -o "$bin/" ./cmd/token-agent
go run -C hack/image . archive --image realmkeeper-token-agent:e2e --output "$work/token-agent.tar" "$bin/token-agent"
archives+=("$work/token-agent.tar")
if [[ -n ${E2E_NIGHTLY:-} ]]; then
	tags+=,nightly
	say "Building Prometheus; a few seconds, 5 min the first time ..."
	# Without the service discovery of clouds, it builds in a fraction of the time.
	go build -C test/promql -trimpath -buildvcs=false -tags=grpcnotrace,remove_all_sd -ldflags "-s -w" -o "$bin/" github.com/prometheus/prometheus/cmd/prometheus
	go run -C hack/image . archive --image realmkeeper-prometheus:e2e --output "$work/prometheus.tar" "$bin/prometheus"
	archives+=("$work/prometheus.tar")
fi
# The KMS plugin is linked dynamically, because it loads SoftHSM.
hack/c-compiler.sh
test/kms/softhsm.sh
CGO_ENABLED=1 go build -C test -buildvcs=false -o "$bin/kms" ./kms
go run -C hack/image . archive --image realmkeeper-kms:e2e --output "$work/kms.tar" \
	--library /usr/lib/softhsm/libsofthsm2.so "$bin/kms"
archives+=("$work/kms.tar")
# The upgrade starts from the newest release before this commit. Until there is one, it starts from a
# commit of v1beta1. Shallow clones have neither, so in them only the version differs.
from=$(git describe --tags --match 'v*' --abbrev=0 HEAD^ 2>/dev/null || echo 9bb128d61ad2a832d610f527c3bd6f59af69db3d)
git cat-file -e "$from^{commit}" 2>/dev/null || from=HEAD
say "The upgrade starts from $(git log -1 --format='%h (%cs)' "$from")."
versions=("$previous" "$current")
if [[ -n ${E2E_REGISTRY:-} ]]; then
	tags+=,rehearse versions=()
	test/e2e/releases.sh "$from" "$E2E_REGISTRY"
fi
rm -rf "$work/previous"
mkdir -p "$work/previous"
git archive "$from" | tar --extract --directory "$work/previous"

packing=()
for version in "${versions[@]}"; do
	source=.
	[[ $version == "$current" ]] || source=$work/previous
	mkdir -p "$work/$version"
	stamp=$(go list -C "$source" ./internal/... | grep /version$) # the package has moved
	# As in the Makefile.
	go build -C "$source" -trimpath -buildvcs=false -tags=grpcnotrace -ldflags "-s -w -X $stamp.Version=$version" -o "$work/$version/" \
		./cmd/{operator,token-server,portal,kubectl-realmkeeper}
	# Compressing an image takes one core for several seconds.
	go run -C hack/image . archive --image "realmkeeper:$version" --output "$work/$version.tar" \
		"$work/$version/"{operator,token-server,portal,kubectl-realmkeeper} &
	packing+=($!)
	archives+=("$work/$version.tar")
done
for job in "${packing[@]}"; do wait "$job"; done

[[ -z $testing ]] || wait "$testing"

export E2E_BIN=$bin E2E_PREVIOUS=$work/previous E2E_NODE=
if [[ -n ${KUBECONFIG:-} && $KUBECONFIG != "$own" ]]; then
	say "Testing on the cluster in KUBECONFIG."
	[[ -z ${E2E_LOAD:-} ]] || for archive in "${archives[@]}"; do $E2E_LOAD "$archive"; done
else
	export KUBECONFIG=$own E2E_NODE=yes
	if [[ ! -e $own ]]; then
		trap '"$bin/cluster" down' EXIT
	fi
	"$bin/cluster" up
	"$bin/cluster" load "${archives[@]}"
fi

say "Running the end-to-end tests; about 5 min ..."
go test -C test -tags "$tags" -count 1 -timeout 45m -v ./e2e "$@"
