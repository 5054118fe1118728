#!/usr/bin/env bash
# Runs real coding agents against the real server, which PARLEY_BIN names, and writes what
# works into docs/clients.md. Arguments choose agents by the names of their programs.
# Installs npm where it is missing and this is root on Debian or Ubuntu.
set -eu

[ -x "${PARLEY_BIN:-}" ] && [ -x "${SCRIPTED_BIN:-}" ] || {
	echo "PARLEY_BIN and SCRIPTED_BIN must name the programs: run make agents" >&2
	exit 1
}
cd "$(dirname "$0")/agents"

command -v npm >/dev/null || {
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "the agents need npm 9 or newer: install it, for example with: apt-get install npm ca-certificates" >&2
		exit 1
	fi
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends npm ca-certificates
}

# Not npm ci: the agents name packages for platforms that not every registry has, and that
# are optional. Two of the agents are programs that their packages put in place by a script; no other
# package runs one.
npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
npm rebuild --no-audit --no-fund --loglevel=error @anthropic-ai/claude-code opencode-ai

for packaged in "$PWD"/node_modules/node-*/bin; do
	[ ! -x "$packaged/node" ] || PATH="$packaged:$PATH"
done
# Without names, keystrokes in an editor as well.
[ $# -gt 0 ] || node --test continue.test.mjs
exec node run.mjs --table ../../docs/clients.md "$@"
