#!/usr/bin/env bash
# Installs SoftHSM from Debian for the tests of key encryption, if it isn't installed yet.
set -euo pipefail

[[ ! -e /usr/lib/softhsm/libsofthsm2.so ]] || exit 0

if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "The tests of key encryption require /usr/lib/softhsm/libsofthsm2.so. Install SoftHSM 2." >&2
	exit 1
fi
echo "Installing SoftHSM for the tests of key encryption, which takes a few seconds ..."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends libsofthsm2 >/dev/null
