#!/usr/bin/env bash
# Makes sure that there is the C compiler that go's race detector needs: installs
# Debian's where that can be done, and says what to do where it can't.
set -euo pipefail

compiler=$(go env CC)
! command -v "${compiler%% *}" >/dev/null || exit 0

if [[ $compiler != gcc || $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "The race detector needs a C compiler, and there is no $compiler. Please install it." >&2
	exit 1
fi
echo "Installing gcc, which the race detector needs; about 30 s ..."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null
