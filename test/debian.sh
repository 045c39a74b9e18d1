#!/usr/bin/env bash
# debian.sh TIME PACKAGE... installs Debian packages for tests, as root, without starting their services, because these
# would use ports. TIME says how long it takes. If it can't install them, it prints which are missing.
set -euo pipefail
time=$1
shift
if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "Some tests require programs that are missing. Install these Debian packages or their equivalents: $*" >&2
	exit 1
fi
echo "Installing $* for the tests (takes about $time) ..."
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "$@" >/dev/null
