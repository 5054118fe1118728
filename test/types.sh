#!/usr/bin/env bash
# Checks the types of all packages and tests for the other platforms we ship for, and
# the assembly of arm64 against its declarations. Nothing is compiled for them:
# `make release` does that. What is the same on darwin/arm64 or linux/amd64 is not
# checked for linux/arm64 again.
set -euo pipefail
cd "$(dirname "$0")/.."
go -C tools build -mod=mod -o ../bin/typecheck ./typecheck
GOOS=darwin GOARCH=arm64 bin/typecheck ./...
with_arm64=$( (git grep -lE '^//go:build.*arm64' -- '*.go'; git ls-files -- '*_arm64.*') | grep -v '^\(bench\|tools\)/' | xargs -n1 dirname | sort -u | sed 's,^,./,')
GOOS=linux GOARCH=arm64 bin/typecheck $with_arm64
