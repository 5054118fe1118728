#!/usr/bin/env bash
# Checks the types of all packages and tests for the other platforms we ship for, and
# the assembly of arm64 against its declarations. Nothing is compiled for them but
# what the assembly's package imports: `make release` does that.
set -euo pipefail
cd "$(dirname "$0")/.."
go -C tools build -mod=mod -o ../bin/typecheck ./typecheck
for platform in linux/arm64 darwin/arm64; do
	GOOS=${platform%/*} GOARCH=${platform#*/} bin/typecheck ./...
done
GOOS=linux GOARCH=arm64 go vet ./compute/cpu
