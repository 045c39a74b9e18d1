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
[[ ${#missing[@]} -gt 0 ]] || exit 0
if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "These Debian packages are missing: ${missing[*]}. Run this as root on Debian 12." >&2
	exit 1
fi
echo "Installing ${missing[*]} (takes about 2 min) ..."
# Keep them from starting, because they would use ports.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
