#!/usr/bin/env bash
# Runs real client libraries against the real server, which PARLEY_BIN names. With PARLEY_CLIENTS=all, that of OpenAI for
# Go, too.
# Installs npm where it is missing and this is root on Debian or Ubuntu.
set -eu

[ -x "${PARLEY_BIN:-}" ] || {
	echo "PARLEY_BIN must name the parley program: run make clients" >&2
	exit 1
}
PARLEY_BIN=$(cd "$(dirname "$PARLEY_BIN")" && pwd)/$(basename "$PARLEY_BIN")
export PARLEY_BIN
export PARLEY_THREADS=1 # threads that wait for each other take processor time
cd "$(dirname "$0")"

command -v npm >/dev/null || {
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "the client tests need npm 9 or newer: install it, for example with: apt-get install npm ca-certificates" >&2
		exit 1
	fi
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends npm ca-certificates
}

# npm warns that the machine's own node is too old for the libraries. They run
# on the one that is installed with them, so only errors are of interest. That
# node is found by its package: npm 9 drops the link to it.
# They stay until the versions that are wanted change.
cmp -s npm/package-lock.json npm/node_modules/.wanted || {
	npm ci --prefix npm --ignore-scripts --no-audit --no-fund --loglevel=error
	cp npm/package-lock.json npm/node_modules/.wanted
}

for packaged in "$PWD"/npm/node_modules/node-*/bin; do
	[ ! -x "$packaged/node" ] || PATH="$packaged:$PATH"
done
version=$(node --version)
major=${version#v}
[ "${major%%.*}" -ge 22 ] || {
	echo "the client libraries need node 22 or newer, but npm has none for this platform and the machine's is $version: install node 22" >&2
	exit 1
}

failed=""
echo "== npm clients on node $version"
(cd npm && node --test --test-concurrency=1 --test-reporter=spec ./*.test.mjs) || failed="npm"
echo "== libzmq"
PARLEY_ZEROMQ="$PWD/npm" go test -vet=off -ldflags=-s -count=1 -v -run TestLibzmq ../worker/zmq || failed="$failed libzmq"
# The client for Go is a large library, which takes longer to compile than all clients here to run. It runs for a moment,
# so it is compiled without optimizations: in half the time. What it imports is compiled as by `make test`.
if [ "${PARLEY_CLIENTS:-}" = all ]; then
	echo "== openai-go"
	(cd openaigo && GOGC=400 go test -vet=off -gcflags=all=-dwarf=false \
		-gcflags='github.com/openai/openai-go/...=-N -l -dwarf=false' -ldflags=-s \
		-exec 'env -u GOGC' -count=1 -v ./...) || failed="$failed openaigo"
fi

[ -z "$failed" ] || {
	echo "client tests failed: $failed" >&2
	exit 1
}
