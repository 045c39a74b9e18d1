#!/usr/bin/env bash
# Builds and signs two releases in clones of this repository, for TestRehearsal: one of PREVIOUS for this platform,
# and one of HEAD for all. With REUSE=1, those of the last run are used again.
#
# Usage: test/e2e/releases.sh PREVIOUS REGISTRY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
from=${1:?usage: test/e2e/releases.sh PREVIOUS REGISTRY} registry=${2:?usage: test/e2e/releases.sh PREVIOUS REGISTRY}
bin=$PWD/.e2e/bin
releases=$PWD/.e2e/releases

command -v jq >/dev/null || test/debian.sh "10 s" jq
echo "Building cosign, crane, and a registry; a few seconds, up to 15 min the first time ..."
mkdir -p "$bin" "$releases"
# As make release and make publish build them.
ln -sf "$(go tool -n -modfile=hack/image/go.mod crane)" "$bin/crane"
ln -sf "$(go tool -n -modfile=hack/tools/cosign/go.mod cosign)" "$bin/cosign"
go build -C hack/tools/registry -o "$bin/" .

export COSIGN_PASSWORD=
cd "$releases"
for key in cosign another; do
	[[ -e $key.key ]] || "$bin/cosign" generate-key-pair --output-key-prefix "$key"
done

release() { # release VERSION COMMIT [MAKE VARIABLE...]
	local clone=$releases/$1 version=v$1 commit=$2
	shift 2
	[[ -z ${REUSE:-} || ! -e $clone/dist/release ]] || return 0
	rm -rf "$clone"
	git clone --quiet --shared --no-checkout ../.. "$clone"
	git -C "$clone" checkout --quiet --detach "$commit"
	make -C "$clone" --no-print-directory release VERSION="$version" REGISTRY="$registry" COSIGN_KEY="$releases/cosign.key" "$@"
}

head=$(git rev-parse HEAD)
release 0.0.1-e2e "$from" ONLY="linux/$(go env GOARCH)"
release 0.0.2-e2e "$head"
