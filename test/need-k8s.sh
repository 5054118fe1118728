#!/usr/bin/env bash
# Builds kube-apiserver and etcd from the module test/k8s into the user's cache, outside the
# tree because they take long and outlive a clone, and prints the folder that holds them.
set -euo pipefail
cd "$(dirname "$0")/k8s"
kube=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod)
etcd=$(awk '$1 == "go.etcd.io/etcd/server/v3" && $2 { print $2 }' go.mod)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/parley/kube-$kube-etcd-$etcd
build() {
	[ -x "$dir/$1" ] && return
	echo "building $1 from source, once" >&2
	mkdir -p "$dir"
	# One package at a time: the large ones need a gigabyte each.
	CGO_ENABLED=0 nice go build -p 1 -trimpath -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$kube" \
		-o "$dir/$1.part" "$2" >&2
	mv "$dir/$1.part" "$dir/$1"
}
build etcd go.etcd.io/etcd/server/v3
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
echo "$dir"
