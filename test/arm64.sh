#!/usr/bin/env bash
# arm64.sh FOLDER builds the programs of the image for arm64, as root on Debian. The folder then has a script of the
# name of each, which runs it in an emulator. It needs GOFLAGS and LDFLAGS as in the Makefile.
set -euo pipefail
folder=$1
command -v qemu-aarch64 >/dev/null || "$(dirname "${BASH_SOURCE[0]}")/debian.sh" "1 min" qemu-user
mkdir -p "$folder/programs"
CGO_ENABLED=0 GOARCH=arm64 GOARM64=v8.0 go build -ldflags "$LDFLAGS" -o "$folder/programs/" ./cmd/{operator,token-server,portal,kubectl-realmkeeper}
for program in "$folder"/programs/*; do
	printf '#!/bin/sh\nexec qemu-aarch64 %s "$@"\n' "$program" >"$folder/${program##*/}"
	chmod +x "$folder/${program##*/}"
done
