#!/usr/bin/env bash
# Builds the programs that come as Go modules into DIRECTORY.
#
# Usage: test/beside/build.sh DIRECTORY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
to=${1:?usage: test/beside/build.sh DIRECTORY}
mkdir -p "$to"
for module in */go.mod flux/*/go.mod; do
	module=${module%/go.mod}
	case $module in
	traefik) traefik/build.sh "$to" ;;
	spire) CGO_ENABLED=1 go build -C spire -o "$to/" tool ;; # for SQLite
	*) CGO_ENABLED=0 go build -C "$module" -o "$to/" tool ;;
	esac
done
go build -C ../promql -tags=grpcnotrace,remove_all_sd -o "$to/" github.com/prometheus/prometheus/cmd/prometheus
