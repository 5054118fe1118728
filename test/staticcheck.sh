#!/usr/bin/env bash
# Runs the checks of staticcheck that do not examine dependencies, on all modules.
set -euo pipefail
cd "$(dirname "$0")/.."
go -C tools build -mod=mod -o ../bin/localcheck ./localcheck
for module in . bench tools; do
	(cd "$module" && "$OLDPWD/bin/localcheck" ./...)
done
