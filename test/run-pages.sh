#!/usr/bin/env bash
# Drives the pages with a real browser against the real server, which PARLEY_BIN
# names. Installs npm and a chromium without a window where they are missing and this is root on
# Debian or Ubuntu. With PARLEY_SHOTS, pictures of the pages are left there. With
# the name of a script, runs that in place of the tests.
set -eu

[ -x "${PARLEY_BIN:-}" ] || {
	echo "PARLEY_BIN must name the parley program: run make pages" >&2
	exit 1
}
PARLEY_BIN=$(cd "$(dirname "$PARLEY_BIN")" && pwd)/$(basename "$PARLEY_BIN")
export PARLEY_BIN
if [ -n "${PARLEY_SHOTS:-}" ]; then
	mkdir -p "$PARLEY_SHOTS"
	PARLEY_SHOTS=$(cd "$PARLEY_SHOTS" && pwd)
	export PARLEY_SHOTS
fi
cd "$(dirname "$0")/web"

# The shell without a window takes half of the processor time of the whole browser.
browser() {
	command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome || true
}

if [ -z "$(browser)" ] || ! command -v npm >/dev/null; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "the page tests need npm 9 or newer and chromium: install them, for example with: apt-get install npm chromium" >&2
		exit 1
	fi
	apt-get update -qq
	install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; }
	command -v npm >/dev/null || install npm ca-certificates
	[ -n "$(browser)" ] || install chromium-headless-shell || install chromium
fi
CHROMIUM=$(browser)
export CHROMIUM

# Building dex takes minutes: people sign in at it where each test runs in all looks, elsewhere at an issuer of the tests.
if [ $# -eq 0 ] && [ "${PARLEY_LOOKS:-}" = all ]; then
	PARLEY_DEX=$(../need-dex.sh)
	export PARLEY_DEX
fi

cmp -s package-lock.json node_modules/.wanted || {
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	cp package-lock.json node_modules/.wanted
}
[ $# -eq 0 ] || exec node "$@"
../postgres.sh node --test --test-concurrency=1 --test-reporter=spec ./*.test.mjs
