#!/usr/bin/env bash
# build.sh [NAME...]
#
# Builds the control plane that the tests and the demo run: etcd, kube-apiserver and
# kube-controller-manager, from the Go modules that are pinned in the directories next to
# this file. NAME adds kubectl, the tools for snapshots of etcd (etcdctl and etcdutl), or
# what a cluster with a node needs: kubelet, kube-scheduler, kube-proxy and coredns.
#
# Each binary is built once, in a cache that all checkouts share. The name of the cache
# directory depends on the versions and the build flags. Progress goes to stderr. The only
# line on stdout is the directory that contains the binaries.
#
# Binaries in KUBEBUILDER_ASSETS, if it is set, take precedence. Only missing ones are built.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binaries=(etcd kube-apiserver kube-controller-manager "$@")

say() { printf '%s\n' "$*" >&2; }
die() { say "test/controlplane/build.sh: $*"; exit 1; }

# The result must not depend on a Go workspace or a C compiler.
export GOWORK=off CGO_ENABLED=0
toolchain=$(go env GOVERSION GOOS GOARCH) || die "go is not in PATH; install Go"

version_of() { # version_of MODULE DIR: print the version of MODULE in DIR/go.mod
	local version
	version=$(awk -v module="$1" '$1 == module { print $2; exit }' "$here/$2/go.mod")
	[[ -n $version ]] || die "$2/go.mod does not require $1"
	printf '%s' "$version"
}
kubernetes=$(version_of k8s.io/kubernetes kubernetes/1.36)
etcd=$(version_of go.etcd.io/etcd/server/v3 etcd)
coredns=$(version_of github.com/coredns/coredns coredns)
ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes"

key=$({
	printf '%s\n' "$toolchain" "$ldflags"
	cat "$here"/{kubernetes/1.36,etcd,coredns}/go.{mod,sum}
} | sha256sum | cut -c1-12)
home=${XDG_CACHE_HOME:-$HOME/.cache}/realmkeeper
cache=$home/$kubernetes-$key
bin=$cache/bin

missing() { # missing NAME...: print the names that are in neither KUBEBUILDER_ASSETS nor the cache
	local name
	for name in "$@"; do
		[[ -n ${KUBEBUILDER_ASSETS:-} && -x $KUBEBUILDER_ASSETS/$name ]] ||
			[[ -x $bin/$name ]] || printf '%s\n' "$name"
	done
}

build() { # build NAME VERSION MODULE-DIR PACKAGE DURATION
	local name=$1 version=$2 dir=$3 package=$4 duration=$5 start=$SECONDS
	say "Building $name $version from source. This happens once and takes about $duration on two cores ..."
	# Build to a temporary file and rename it, so that $bin only contains complete binaries.
	go build -C "$here/$dir" -buildvcs=false -ldflags "$ldflags" -o "$building/$name" "$package" >&2 ||
		die "failed to build $name $version; see the compiler output above"
	mv "$building/$name" "$bin/$name"
	say "Built $name in $((SECONDS - start)) s."
}

build_missing() {
	mkdir -p "$bin"
	exec {lock}>"$cache/lock"
	if ! flock --nonblock "$lock"; then
		say "Waiting for another run that builds the control plane ..."
		flock "$lock"
	fi
	# No other build can be running because of the lock, so a killed run left these directories.
	rm -rf "$cache"/building.*
	building=$(mktemp -d "$cache/building.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	local name
	for name in $(missing "${binaries[@]}"); do
		case $name in
		etcd) build etcd "$etcd" etcd go.etcd.io/etcd/server/v3 "30 s" ;;
		etcdctl | etcdutl) build "$name" "$etcd" etcdtools "go.etcd.io/etcd/$name/v3" "30 s" ;;
		kube-apiserver) build "$name" "$kubernetes" kubernetes/1.36 "k8s.io/kubernetes/cmd/$name" "3 min 30 s" ;;
		kubelet) build "$name" "$kubernetes" kubernetes/1.36 "k8s.io/kubernetes/cmd/$name" "1 min" ;;
		kube-controller-manager | kube-scheduler | kube-proxy | kubectl)
			build "$name" "$kubernetes" kubernetes/1.36 "k8s.io/kubernetes/cmd/$name" "30 s"
			;;
		coredns) build "$name" "$coredns" coredns github.com/coredns/coredns "2 min" ;;
		*) die "unknown binary $name" ;;
		esac
	done
	flock --unlock "$lock"
}

[[ -z ${KUBEBUILDER_ASSETS:-} || -d $KUBEBUILDER_ASSETS ]] ||
	die "KUBEBUILDER_ASSETS must be a directory, not $KUBEBUILDER_ASSETS"

[[ -z $(missing "${binaries[@]}") ]] || build_missing

if [[ -z ${KUBEBUILDER_ASSETS:-} ]]; then
	printf '%s\n' "$bin"
	exit
fi

# Link all binaries into one directory. Rename each link into place, so that a concurrent
# run never sees a missing name.
assets=$(cd "$KUBEBUILDER_ASSETS" && pwd)
mixed=$home/assets-$(printf '%s' "$assets" "$key" | sha256sum | cut -c1-12)
mkdir -p "$mixed"
for name in "${binaries[@]}"; do
	target=$bin/$name
	[[ ! -x $assets/$name ]] || target=$assets/$name
	link=$(mktemp -u "$mixed/.link.XXXXXX")
	ln -s "$target" "$link"
	mv -T "$link" "$mixed/$name"
done
printf '%s\n' "$mixed"
