#!/usr/bin/env bash
# Records hack/site/demo.cast, which the landing page plays: the first commands of README.md in a fresh
# clone, with a token and a suspension. It takes about 1 min, and 4 min if nothing is compiled yet. It
# needs asciinema and curl, which it installs on Debian.
#
# Tokens are shortened before the recorded terminal displays them. The credentials that the local issuer
# generates are in a temporary directory and are not displayed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# run types a command and executes it.
run() {
	printf '\e[32m$\e[0m '
	local i
	for ((i = 0; i < ${#1}; i++)); do
		printf '%s' "${1:i:1}"
		sleep "${2:-0.025}"
	done
	printf '\n'
	sleep 0.3
	eval "$1"
	printf '\n'
	sleep 2
}

# The recorded clone is of this checkout.
git() {
	printf "Cloning into 'realmkeeper'...\n"
	command git clone --quiet "$CHECKOUT" realmkeeper
}

make() { command make --no-print-directory "$@" | tee "$RECORDING/served"; }

curl() { command curl "$@" | sed -E 's/eyJ[A-Za-z0-9_-]{8}[A-Za-z0-9_.-]*/eyJhbGci.../'; }

# await waits until the local issuer has printed a pattern.
await() {
	for _ in {1..3000}; do
		! grep -q "$1" "$RECORDING/served" 2>/dev/null || return 0
		sleep 0.1
	done
	echo "The local issuer did not print $1." >&2
	return 1
}

play() {
	cd "$RECORDING"
	run 'git clone https://github.com/realmkeeper/realmkeeper && cd realmkeeper'
	set -m
	run 'make serve &' 0.05
	issuer=$!
	trap 'kill -TERM -- "-$issuer"' EXIT
	await 'Press Ctrl+C'
	sleep 3
	token=$(sed -n '/^ *curl /,/token$/{s/^    //;p}' "$RECORDING/served")
	run "$token" 0
	run "sed -i 's/^spec:/&\n  suspend: true/' config/samples/apiclient.yaml"
	await 'Suspended'
	sleep 2
	run "$token" 0
	touch "$RECORDING/complete"
}

if [[ ${1:-} == play ]]; then
	play
	exit
fi

hack/site/packages.sh asciinema curl
CHECKOUT=$PWD RECORDING=$(mktemp -d)
export CHECKOUT RECORDING
trap 'rm -rf "$RECORDING"' EXIT

# Pauses are shortened to two seconds.
TERM=xterm-256color asciinema rec --quiet --env TERM --idle-time-limit 2 --cols 104 --rows 24 \
	--command "$CHECKOUT/hack/site/record.sh play" "$RECORDING/demo.cast"
if [[ ! -e $RECORDING/complete ]]; then
	cat "$RECORDING/demo.cast"
	echo "The last command failed. Fix it and record again." >&2
	exit 1
fi
mv "$RECORDING/demo.cast" hack/site/demo.cast
