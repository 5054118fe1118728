#!/usr/bin/env bash
# Builds versitygw, an S3 server over a folder, into .tools and prints where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v1.8.0
server=$PWD/.tools/versitygw-$version/versitygw
[ -x "$server" ] || CGO_ENABLED=0 GOBIN=$(dirname "$server") go install "github.com/versity/versitygw/cmd/versitygw@$version" >&2
echo "$server"
