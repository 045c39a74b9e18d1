#!/usr/bin/env bash
# Records hack/site/demo.cast, which the landing page plays. It starts the real demo, runs the commands
# below in a recorded terminal, and stops the demo. It takes about 1 min, and 12 min if the control
# plane isn't built yet. It needs asciinema and curl, which it installs on Debian.
#
# The output of commands is redacted before the recorded terminal displays it. The file therefore never
# contains tokens, secrets, or paths of this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
checkout=$PWD

redact() {
	sed -u -E -e 's/eyJ[A-Za-z0-9_-]{8}[A-Za-z0-9_.-]*/eyJhbGci.../g' -e 's/rk_[A-Za-z0-9]+/rk_.../g' -e "s|$checkout/||g"
}

# run types a command and executes it.
run() {
	printf '\e[32m$\e[0m '
	local i
	for ((i = 0; i < ${#1}; i++)); do
		printf '%s' "${1:i:1}"
		sleep 0.025
	done
	printf '\n'
	sleep 0.3
	if [[ $1 == *'() {'* ]]; then
		eval "$1" # here and not in a subshell, so that later commands can use the function
	else
		eval "$1" 2>&1 | redact
	fi
	printf '\n'
	sleep "${2:-2}"
}

# make cuts the output of make demo after the last step, because a token and commands to try follow. It
# also removes the line about kubectl, which depends on the machine.
make() {
	command make --no-print-directory "$@" 2>&1 | sed -u -e '/ Using kubectl /d' -e '/ Done\.$/,${/ Done\.$/!d}'
}

play() {
	run 'make demo' 1
	# shellcheck source=/dev/null
	source .demo/env
	cd "$RECORDING"
	cp "$KUBECONFIG" kubeconfig
	export KUBECONFIG=$RECORDING/kubeconfig PATH=$RECORDING:$PATH
	kubectl config set-context --current --namespace acme-apps >/dev/null
	run 'cat reports.yaml' 3
	run 'kubectl apply -f reports.yaml && kubectl wait --for condition=Ready apiclient/reports'
	run 'value() { kubectl get secret reports -o jsonpath="{.data.$1}" | base64 --decode; }' 0
	run 'token() { curl --silent --cacert "$CA_FILE" --data grant_type=client_credentials \
    --user "$(value client_id):$(value client_secret)" "$(value token_url)"; }' 1
	run 'token' 3
	run 'kubectl realmkeeper rotate apiclient/reports' 3
	run 'kubectl realmkeeper suspend apiclient/reports --wait && token' 4
	touch complete
}

if [[ ${1:-} == play ]]; then
	play
	exit
fi

hack/site/packages.sh asciinema curl
if [[ -e .demo ]]; then
	echo "A demo is running. Stop it with make demo-down, because the recording starts and stops its own." >&2
	exit 1
fi
RECORDING=$(mktemp -d)
export RECORDING
trap 'command make --no-print-directory demo-down; rm -rf "$RECORDING"' EXIT
go build -o "$RECORDING/" ./cmd/kubectl-realmkeeper
cat >"$RECORDING/reports.yaml" <<'YAML'
apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata: {name: reports}
spec:
  realmRef: {name: acme}
  scopes: [orders.read]
  secret: {generated: {}}
YAML

# Pauses are shortened to two seconds.
TERM=xterm-256color asciinema rec --quiet --env TERM --idle-time-limit 2 --cols 96 --rows 24 \
	--command "hack/site/record.sh play" "$RECORDING/demo.cast"
if [[ ! -e $RECORDING/complete ]]; then
	asciinema cat "$RECORDING/demo.cast"
	echo "The last command failed. Fix it and record again." >&2
	exit 1
fi
mv "$RECORDING/demo.cast" hack/site/demo.cast
