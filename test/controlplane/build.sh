#!/usr/bin/env bash
# build.sh [NAME...]
#
# Builds the control plane that tests and the demo run: etcd, kube-apiserver,
# kube-controller-manager and kubectl, from the Go modules pinned beside this file;
# and those of kubelet, kube-scheduler, kube-proxy and coredns that are named, which
# only a cluster with a node needs.
#
# Each is built once, into a cache that all checkouts share; the versions and the
# way of building are part of the directory's name. Progress goes to stderr. The
# only line on stdout is the directory that holds the binaries.
#
# KUBEBUILDER_ASSETS, when set, comes first: what it has is taken from there, and
# only what it lacks is built.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binaries=(etcd kube-apiserver kube-controller-manager kubectl "$@")

say() { printf '%s\n' "$*" >&2; }
die() { say "test/controlplane/build.sh: $*"; exit 1; }

# A workspace, a module mode or a C compiler must not change what is built.
export GOWORK=off CGO_ENABLED=0
toolchain=$(go env GOVERSION GOOS GOARCH) || die "go is needed, and is not on the PATH"

version_of() { # version_of MODULE DIR: the version that DIR/go.mod requires
	local version
	version=$(awk -v module="$1" '$1 == module { print $2; exit }' "$here/$2/go.mod")
	[[ -n $version ]] || die "$2/go.mod does not require $1"
	printf '%s' "$version"
}
kubernetes=$(version_of k8s.io/kubernetes kubernetes)
etcd=$(version_of go.etcd.io/etcd/server/v3 etcd)
coredns=$(version_of github.com/coredns/coredns coredns)
ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes"

key=$({
	printf '%s\n' "$toolchain" "$ldflags"
	cat "$here"/{kubernetes,etcd,coredns}/go.{mod,sum}
} | sha256sum | cut -c1-12)
home=${XDG_CACHE_HOME:-$HOME/.cache}/realmkeeper
cache=$home/$kubernetes-$key
bin=$cache/bin

missing() { # missing NAME...: those that neither the user's directory nor the cache has
	local name
	for name in "$@"; do
		[[ -n ${KUBEBUILDER_ASSETS:-} && -x $KUBEBUILDER_ASSETS/$name ]] ||
			[[ -x $bin/$name ]] || printf '%s\n' "$name"
	done
}

build() { # build NAME VERSION MODULE-DIR PACKAGE DURATION
	local name=$1 version=$2 dir=$3 package=$4 duration=$5 start=$SECONDS
	say "Building $name $version from source: about $duration on two cores, once ..."
	# Built beside its place and renamed into it: a name in $bin is always a whole binary.
	go build -C "$here/$dir" -buildvcs=false -ldflags "$ldflags" -o "$building/$name" "$package" >&2 ||
		die "building $name $version failed; what the compiler said is above"
	mv "$building/$name" "$bin/$name"
	say "Built $name in $((SECONDS - start)) s."
}

build_missing() {
	mkdir -p "$bin"
	exec {lock}>"$cache/lock"
	if ! flock --nonblock "$lock"; then
		say "Another run is building the control plane; waiting for it ..."
		flock "$lock"
	fi
	# With the lock held nobody else builds: what lies here was left by a killed run.
	rm -rf "$cache"/building.*
	building=$(mktemp -d "$cache/building.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	local name
	for name in $(missing "${binaries[@]}"); do
		case $name in
		etcd) build etcd "$etcd" etcd go.etcd.io/etcd/server/v3 "30 s" ;;
		kube-apiserver) build "$name" "$kubernetes" kubernetes "k8s.io/kubernetes/cmd/$name" "3 min 30 s" ;;
		kubelet) build "$name" "$kubernetes" kubernetes "k8s.io/kubernetes/cmd/$name" "1 min" ;;
		kube-controller-manager | kube-scheduler | kube-proxy | kubectl)
			build "$name" "$kubernetes" kubernetes "k8s.io/kubernetes/cmd/$name" "30 s"
			;;
		coredns) build "$name" "$coredns" coredns github.com/coredns/coredns "2 min" ;;
		*) die "$name is none of the binaries that it knows" ;;
		esac
	done
	flock --unlock "$lock"
}

[[ -z ${KUBEBUILDER_ASSETS:-} || -d $KUBEBUILDER_ASSETS ]] ||
	die "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, which is no directory"

[[ -z $(missing "${binaries[@]}") ]] || build_missing

if [[ -z ${KUBEBUILDER_ASSETS:-} ]]; then
	printf '%s\n' "$bin"
	exit
fi

# Whoever runs the binaries wants them in one directory: links, each replaced by a
# rename, so that a run beside this one never sees a name without its binary.
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
