#!/usr/bin/env bash
# Runs every fuzz target of the repository for the given time each, one after the
# other, and fails at the end when any of them has found something. What it found is
# an input below testdata/fuzz, which from then on is a case of the ordinary tests.
set -euo pipefail

time=${1:?usage: hack/fuzz.sh TIME}
mapfile -t targets < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort)
[[ ${#targets[@]} -gt 0 ]] || { echo "There are no fuzz targets." >&2; exit 1; }

echo "Fuzzing ${#targets[@]} targets for $time each ..."
failed=()
for target in "${targets[@]}"; do
	package=$(dirname "${target%%:*}")
	name=${target##*func }
	echo "$package $name"
	# Minimizing each new input for its default minute would be most of the time.
	go test -run='^$' -fuzz="^$name\$" -fuzztime="$time" -fuzzminimizetime=20x "$package" || failed+=("$package $name")
done

[[ ${#failed[@]} -eq 0 ]] || { printf 'Failed: %s\n' "${failed[@]}" >&2; exit 1; }
echo "No target found anything."
