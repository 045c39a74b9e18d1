#!/usr/bin/env bash
# Builds the release of HEAD in two clones and fails if any checksum differs. The clones have
# different paths, and the builds different file modes, time zones, and locales. krew then validates the
# manifest of the plugin, and installs each archive.
#
# Usage: hack/verify-release.sh [FLAG=VALUE...], with variables for `make release`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

head=$(git rev-parse HEAD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # build CLONE UMASK [VARIABLE=VALUE...] -- [MAKE VARIABLE...]
	local clone=$work/$1 mask=$2 environment=()
	shift 2
	while [[ $1 != -- ]]; do environment+=("$1"); shift; done
	shift
	# A clone with an object database of its own, as on another machine. Both build the same commit,
	# even if HEAD changes meanwhile.
	(umask "$mask" && git clone --quiet --no-hardlinks --no-checkout . "$clone" && git -C "$clone" checkout --quiet --detach "$head")
	(umask "$mask" && env "${environment[@]}" make -C "$clone" --no-print-directory release VERSION=v0.0.0-verify SNAPSHOT=1 "$@")
}

build first 022 TZ=UTC LC_ALL=C -- "$@"
build another/directory/second 077 TZ=Pacific/Auckland LC_ALL=C.UTF-8 -- "$@"

if ! diff "$work/first/dist/release/SHA256SUMS" "$work/another/directory/second/dist/release/SHA256SUMS"; then
	echo "The two builds of the release differ in the files above. Make them reproducible." >&2
	exit 1
fi
(cd "$work/first/dist/release" && sha256sum --check --quiet SHA256SUMS)
echo "Both builds have the same checksums:"
cat "$work/first/dist/release/SHA256SUMS"

krew=sigs.k8s.io/krew/cmd
cp "$work/first/dist/release/krew.yaml" "$work/realmkeeper.yaml" # krew expects the name of the plugin
go run $krew/validate-krew-manifest@v0.5.0 --skip-install --manifest "$work/realmkeeper.yaml"
for archive in "$work"/first/dist/release/kubectl-realmkeeper-*.tar.gz; do
	platform=${archive##*kubectl-realmkeeper-} platform=${platform%.tar.gz}
	KREW_ROOT="$work/krew/$platform" KREW_OS=${platform%-*} KREW_ARCH=${platform#*-} \
		go run $krew/krew@v0.5.0 install --manifest="$work/realmkeeper.yaml" --archive="$archive"
done
