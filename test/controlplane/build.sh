#!/usr/bin/env bash
# build.sh [NAME...]
#
# Builds the control plane that the tests and the demo run: etcd, kube-apiserver and
# kube-controller-manager, from the Go modules that are pinned in the directories next to
# this file. NAME adds kubectl, the tools for snapshots of etcd (etcdctl and etcdutl), or
# what a cluster with a node needs: kubelet, kube-scheduler, kube-proxy and coredns.
#
# KUBERNETES is the minor version of Kubernetes, such as 1.34. It must be a directory of
# kubernetes/, and defaults to the newest.
#
# KUBEBUILDER_ASSETS is a directory with etcd, kube-apiserver and kubectl, such as one of
# setup-envtest. They are used instead of built ones. Everything else is built in their minor version.
# A relative path starts at the root of the repository.
#
# Each binary is built once, in a cache that all checkouts share. Each module has its own
# cache directory, whose name depends on the version and the build flags, so all versions of
# Kubernetes share one etcd. Progress goes to stderr. The only line on stdout is the directory
# that contains the binaries.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binaries=(etcd kube-apiserver kube-controller-manager "$@")

say() { printf '%s\n' "$*" >&2; }
die() { say "test/controlplane/build.sh: $*"; exit 1; }

# The result must not depend on a Go workspace or a C compiler.
export GOWORK=off CGO_ENABLED=0
toolchain=$(go env GOVERSION GOOS GOARCH) || die "go is not in PATH; install Go"
home=${XDG_CACHE_HOME:-$HOME/.cache}/realmkeeper

mapfile -t supported < <(cd "$here/kubernetes" && printf '%s\n' * | sort -V)
is_supported() { printf '%s\n' "${supported[@]}" | grep -qxF -- "$1"; }

minor=${KUBERNETES:-${supported[-1]}}
is_supported "$minor" || die "KUBERNETES is $minor, which is not supported; set it to one of: ${supported[*]}"

asset_version() { # asset_version NAME ARGUMENT...: print the version of a program in KUBEBUILDER_ASSETS
	local output
	output=$("$assets/$1" "${@:2}" 2>&1) && [[ $output =~ [0-9]+\.[0-9]+\.[0-9]+ ]] ||
		die "$assets/$1 does not print its version, but: $output; $instead"
	printf '%s\n' "${BASH_REMATCH[0]}"
}

assets=
if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
	instead="set KUBEBUILDER_ASSETS to the directory that \"setup-envtest use $minor\" prints, or unset it"
	assets=$(cd "$here/../.." && realpath -e -- "$KUBEBUILDER_ASSETS" 2>/dev/null) && [[ -d $assets ]] ||
		die "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, which is not a directory; $instead"
	for name in etcd kube-apiserver kubectl; do
		[[ -e $assets/$name ]] || die "KUBEBUILDER_ASSETS is $assets, which does not contain $name; $instead"
		[[ -f $assets/$name && -x $assets/$name ]] || die "$assets/$name is not an executable file; $instead"
	done
	etcd=$(asset_version etcd --version)
	server=$(asset_version kube-apiserver --version)
	kubectl=$(asset_version kubectl version --client)
	is_supported "${server%.*}" || die "$assets/kube-apiserver has version $server, but the supported ones are ${supported[*]}; $instead"
	[[ ${KUBERNETES:-${server%.*}} == "${server%.*}" ]] ||
		die "$assets/kube-apiserver has version $server, but KUBERNETES is $KUBERNETES; unset KUBERNETES, or $instead"
	minor=${server%.*}
	# All supported versions of Kubernetes come with etcd 3.6 or newer.
	printf '%s\n' 3.6.0 "$etcd" | sort -VC || die "$assets/etcd has version $etcd, which is older than 3.6.0; $instead"
	skew=$(($(cut -d. -f2 <<<"$kubectl") - ${minor#*.}))
	((skew * skew <= 1)) || die "$assets/kubectl has version $kubectl, which differs by more than one minor version from kube-apiserver $server; $instead"
	say "Using etcd $etcd, kube-apiserver $server, and kubectl $kubectl from KUBEBUILDER_ASSETS ($assets)."
	binaries+=(kubectl)
fi

find_source() { # find_source NAME: set dir, module, package, duration, version, ldflags and cache
	dir=kubernetes/$minor module=k8s.io/kubernetes package=k8s.io/kubernetes/cmd/$1 duration="30 s"
	case $1 in
	kube-apiserver) duration="4 min" ;;
	kubelet) duration="1 min" ;;
	kube-controller-manager | kube-scheduler | kube-proxy | kubectl) ;;
	etcd) dir=etcd module=go.etcd.io/etcd/server/v3 package=$module ;;
	etcdctl | etcdutl) dir=etcdtools module=go.etcd.io/etcd/$1/v3 package=$module ;;
	coredns) dir=coredns module=github.com/coredns/coredns package=$module duration="2 min" ;;
	*) die "unknown binary $1" ;;
	esac
	version=$(awk -v module="$module" '$1 == module && $2 ~ /^v/ { print $2; exit }' "$here/$dir/go.mod")
	[[ -n $version ]] || die "$dir/go.mod does not require $module"
	ldflags="-s -w"
	[[ $module != k8s.io/kubernetes ]] || ldflags+=" -X k8s.io/component-base/version.gitVersion=$version"
	cache=$home/${dir%%/*}-$version-$({
		printf '%s\n' "$toolchain" "$ldflags"
		cat "$here/$dir"/go.{mod,sum}
	} | sha256sum | cut -c1-12)
}

build() { # build NAME: build a binary of find_source into its cache, unless another run does so
	local name=$1 start lock
	mkdir -p "$cache/bin"
	exec {lock}>"$cache/lock"
	if ! flock --nonblock "$lock"; then
		say "Waiting for another run that builds $name $version ..."
		flock "$lock"
	fi
	if [[ ! -x $cache/bin/$name ]]; then
		say "Building $name $version from source. This happens once and takes about $duration on two cores ..."
		start=$SECONDS
		# No other build can be running because of the lock, so a killed run left these files.
		rm -f "$cache"/building.*
		# Build to a temporary file and rename it, so that bin only contains complete binaries.
		go build -C "$here/$dir" -trimpath -buildvcs=false -ldflags "$ldflags" -o "$cache/building.$name" "$package" >&2 ||
			die "failed to build $name $version; see the compiler output above"
		mv "$cache/building.$name" "$cache/bin/$name"
		say "Built $name in $((SECONDS - start)) s."
	fi
	exec {lock}>&-
}

targets=()
for name in "${binaries[@]}"; do
	if [[ -n $assets && $name =~ ^(etcd|kube-apiserver|kubectl)$ ]]; then
		targets+=("$assets/$name")
		continue
	fi
	find_source "$name"
	[[ -x $cache/bin/$name ]] || build "$name"
	targets+=("$cache/bin/$name")
done

# Link all binaries into one directory, which is the same for all NAMEs. Rename each link into
# place, so that a concurrent run never sees a missing name. Binaries of the cache get hard
# links, because a node has its own /var/lib and /run, in which the cache could be.
caches=$(for name in coredns etcd etcdctl kube-apiserver; do find_source "$name"; printf '%s\n' "$cache"; done)
find_source kube-apiserver
all=$home/control-plane-$version-$(printf '%s\n' "$caches" "$assets" | sha256sum | cut -c1-12)
mkdir -p "$all"
for target in "${targets[@]}"; do
	name=${target##*/}
	[[ ! $target -ef $all/$name ]] || continue
	link=$(mktemp -u "$all/.link.XXXXXX")
	ln -L "$target" "$link" 2>/dev/null || ln -s "$target" "$link"
	mv -T "$link" "$all/$name"
done
printf '%s\n' "$all"
