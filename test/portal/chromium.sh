#!/usr/bin/env bash
# Installs Chromium from Debian for the portal tests, if it isn't installed yet.
set -euo pipefail

! command -v chromium >/dev/null || exit 0

if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "The portal tests require Chromium. Install it and make sure that chromium is on the PATH." >&2
	exit 1
fi
echo "Installing Chromium for the portal tests, which takes about 30 s ..."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
