#!/usr/bin/env bash
# Makes sure that there is what test/interop tests with: curl, nginx and Node.js, of
# Debian where they can be installed, and the packages of npm that are pinned there. Says what
# to do where they can't.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

packages=()
command -v curl >/dev/null || packages+=(curl ca-certificates)
command -v nginx >/dev/null || [[ -x /usr/sbin/nginx ]] || packages+=(nginx)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)

if [[ ${#packages[@]} -gt 0 ]]; then
	if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
		echo "Some tests are made with programs that are missing. Please install, by their names in Debian: ${packages[*]}" >&2
		exit 1
	fi
	echo "Installing ${packages[*]}, which some tests are made with; about 10 s, 2 min with npm ..."
	# nginx would start, and take a port.
	policy=/usr/sbin/policy-rc.d
	if [[ ! -e $policy ]]; then
		trap 'rm -f "$policy"' EXIT
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

cd test/interop/node
if ! cmp -s package-lock.json node_modules/.installed; then
	echo "Installing the packages of npm that some tests are made with; some seconds ..."
	npm ci --silent --ignore-scripts --no-audit --no-fund
	cp package-lock.json node_modules/.installed
fi
