#!/usr/bin/env bash
# Installs what the documentation site requires if it is missing: Node.js with npm and the given
# programs from Debian, and the pinned npm packages. If it cannot install a program, it prints what
# to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

packages=()
for program in node npm "$@"; do
	command -v "$program" >/dev/null || packages+=("${program/#node/nodejs}")
done
if [[ ${#packages[@]} -gt 0 ]]; then
	if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
		echo "The documentation site requires programs that are missing. Install these Debian packages or their equivalents: ${packages[*]}" >&2
		exit 1
	fi
	echo "Installing ${packages[*]}, which takes about 10 s, or 2 min with npm ..."
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

if ! cmp -s package-lock.json node_modules/.installed; then
	echo "Installing npm packages for the documentation site, which takes about 20 s ..."
	npm ci --silent --ignore-scripts --no-audit --no-fund
	cp package-lock.json node_modules/.installed
fi
