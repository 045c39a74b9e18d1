#!/usr/bin/env bash
# Installs the programs that test/beside runs, from Debian, as root. They don't start as services.
set -euo pipefail

packages=(
	haproxy python3-jwt python3-cryptography
	apache2 libapache2-mod-auth-openidc libapache2-mod-oauth2
	rabbitmq-server python3-pika
	dovecot-core dovecot-imapd
	python3-authlib python3-requests python3-requests-oauthlib
	ruby ruby-jwt ruby-oauth2
	libcrypt-jwt-perl libwww-perl liblwp-protocol-https-perl
	erlang-base erlang-inets erlang-ssl erlang-jose erlang-jiffy
)
missing=()
for package in "${packages[@]}"; do
	[[ $(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] || "$(dirname "${BASH_SOURCE[0]}")/../debian.sh" "2 min" "${missing[@]}"
