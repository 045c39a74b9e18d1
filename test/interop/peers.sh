#!/usr/bin/env bash
# Installs the programs that test/interop and tests with the build tag peers require if they are missing:
# Apache, curl, jq, nginx, Node.js, Python, socat, and a JDK from Debian, and the pinned npm packages. If it cannot
# install them, it prints what to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

packages=()
command -v curl >/dev/null || packages+=(curl ca-certificates)
command -v jq >/dev/null || packages+=(jq)
command -v nginx >/dev/null || [[ -x /usr/sbin/nginx ]] || packages+=(nginx)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)
command -v python3 >/dev/null || packages+=(python3)
[[ -e /usr/lib/apache2/modules/mod_auth_openidc.so ]] || packages+=(apache2 libapache2-mod-auth-openidc)
[[ -e /usr/lib/apache2/modules/mod_oauth2.so ]] || packages+=(libapache2-mod-oauth2)
/usr/bin/python3 -c 'import cryptography, jwt' 2>/dev/null || packages+=(python3-jwt python3-cryptography)
command -v socat >/dev/null || packages+=(socat)
command -v javac >/dev/null || packages+=(default-jdk-headless)

[[ ${#packages[@]} -eq 0 ]] || test/debian.sh "10 s, 1 min with a JDK, or 2 min with npm" "${packages[@]}"

cd test/interop/node
if ! cmp -s package-lock.json node_modules/.installed; then
	echo "Installing npm packages for the tests (takes a few seconds) ..."
	npm ci --silent --ignore-scripts --no-audit --no-fund
	cp package-lock.json node_modules/.installed
fi
