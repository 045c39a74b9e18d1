#!/usr/bin/env bash
# Makes sure that there is the browser that the tests of the portal need: installs Debian's
# where that can be done, and says what to do where it can't.
set -euo pipefail

! command -v chromium >/dev/null || exit 0

if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "The tests of the portal need a browser, and there is no chromium. Please install it." >&2
	exit 1
fi
echo "Installing chromium, which the tests of the portal need; about 30 s ..."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
