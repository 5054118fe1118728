#!/usr/bin/env bash
# Builds Helm into .tools where it is not installed, and prints where it is, so that
# the chart is rendered by Helm itself and not by the test's own subset alone.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v helm && exit 0
version=v3.22.0
helm=$PWD/.tools/helm-$version/helm
[ -x "$helm" ] || GOBIN=$(dirname "$helm") CGO_ENABLED=0 GOFLAGS=-mod=mod go install "helm.sh/helm/v3/cmd/helm@$version" >&2
echo "$helm"
