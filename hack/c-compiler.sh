#!/usr/bin/env bash
# Installs the C compiler that Go's race detector needs, if it is missing. Without root or
# apt-get, prints what to install.
set -euo pipefail

compiler=$(go env CC)
! command -v "${compiler%% *}" >/dev/null || exit 0

if [[ $compiler != gcc || $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "The race detector needs a C compiler, but $compiler is not installed. Install it." >&2
	exit 1
fi
echo "Installing gcc, which the race detector needs; about 30 s ..."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null
