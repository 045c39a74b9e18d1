#!/usr/bin/env bash
# Installs the programs that test/beside runs: from Debian, as root, so that they don't start as services, and the
# pinned npm packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

packages=(
	haproxy python3-jwt python3-cryptography
	apache2 libapache2-mod-auth-openidc libapache2-mod-oauth2
	rabbitmq-server python3-pika
	dovecot-core dovecot-imapd
	python3-authlib python3-requests python3-requests-oauthlib
	ruby ruby-jwt ruby-oauth2
	libcrypt-jwt-perl libwww-perl liblwp-protocol-https-perl
	erlang-base erlang-inets erlang-ssl erlang-jose erlang-jiffy
	gcc libc6-dev libcjose-dev libjansson-dev libcurl4-openssl-dev libjwt-dev
	jose jq curl
	firefox-esr
)
missing=()
command -v npm >/dev/null || missing+=(nodejs npm)
for package in "${packages[@]}"; do
	[[ $(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] || ../debian.sh "2 min" "${missing[@]}"

cd node
if ! cmp -s package-lock.json node_modules/.installed; then
	echo "Installing npm packages for the tests (takes a few seconds) ..."
	npm ci --silent --ignore-scripts --no-audit --no-fund
	cp package-lock.json node_modules/.installed
fi
