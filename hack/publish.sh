#!/usr/bin/env bash
# Pushes the images and the chart in dist/release to a registry. Log in to the registry first, for
# example with docker login.
#
# Usage: hack/publish.sh VERSION REGISTRY, such as v1.2.3 ghcr.io/realmkeeper
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:?usage: hack/publish.sh VERSION REGISTRY}
registry=${2:?usage: hack/publish.sh VERSION REGISTRY}
chart=dist/release/realmkeeper-${version#v}.tgz

[[ -f $chart ]] || { echo "$chart is missing. Run make release VERSION=$version." >&2; exit 1; }
(cd dist/release && sha256sum --check --quiet SHA256SUMS)

layouts=$(mktemp -d)
trap 'rm -rf "$layouts"' EXIT
for image in realmkeeper realmkeeper-token-agent; do
	mkdir "$layouts/$image"
	tar -C "$layouts/$image" -xf "dist/release/$image-image.tar"
	go tool -modfile=hack/image/go.mod crane push "$layouts/$image" "$registry/$image:$version"
done
go tool -modfile=hack/tools/helm/go.mod helm.sh/helm/v4/cmd/helm push "$chart" "oci://$registry/charts" ${HELM_PUSH_FLAGS:-}
