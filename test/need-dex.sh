#!/usr/bin/env bash
# Builds dex, an issuer of OpenID Connect, into .tools and prints where it is. It has a
# module of its own there: its go.mod replaces a module, which go install refuses.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v0.0.0-20260806151424-ab64ed778070
api=v2.4.1-0.20260806151424-ab64ed778070
dex=$PWD/.tools/dex-$version/dex
[ -x "$dex" ] || (
	mkdir -p "$(dirname "$dex")"
	cd "$(dirname "$dex")"
	printf 'module dexbuild\ngo 1.26\nrequire (\n%s\n%s\n)\n' "github.com/dexidp/dex $version" "github.com/dexidp/dex/api/v2 $api" >go.mod
	# It runs for a moment: what it imports is compiled without optimizations, the standard library as by `make test`.
	export CGO_ENABLED=0 GOFLAGS=-mod=mod GOGC=400
	go build -gcflags='all=-N -l -dwarf=false' -gcflags=std=-dwarf=false -ldflags=-w -o dex.part github.com/dexidp/dex/cmd/dex
	mv dex.part dex
) >&2
echo "$dex"
