#!/usr/bin/env bash
# Runs all fuzz targets of the repository one after the other, each for the given time, and
# fails at the end if any target failed. go test writes the failing input to testdata/fuzz.
# From then on, the ordinary tests also run it.
set -euo pipefail

time=${1:?usage: hack/fuzz.sh TIME}
mapfile -t targets < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort)
[[ ${#targets[@]} -gt 0 ]] || { echo "No fuzz targets found." >&2; exit 1; }

echo "Fuzzing ${#targets[@]} targets for $time each ..."
failed=()
for target in "${targets[@]}"; do
	package=$(dirname "${target%%:*}")
	name=${target##*func }
	echo "$package $name"
	# Some packages are in modules of their own. By default, minimizing each new input takes up to a
	# minute.
	go test -C "$package" -run='^$' -fuzz="^$name\$" -fuzztime="$time" -fuzzminimizetime=20x . || failed+=("$package $name")
done

[[ ${#failed[@]} -eq 0 ]] || { printf 'Failed: %s\n' "${failed[@]}" >&2; exit 1; }
echo "No target failed."
