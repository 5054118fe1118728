#!/usr/bin/env bash
# Installs Redis where neither it nor Valkey is there and this is root on Debian
# or Ubuntu. Tests start one of their own, in a temporary directory and reached by
# a Unix socket in it; no service is started.
set -euo pipefail
command -v redis-server >/dev/null || command -v valkey-server >/dev/null || {
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "the tests of shared limits need redis-server or valkey-server: install one, for example with: apt-get install redis-server" >&2
		exit 1
	fi
	# Packages start their service when they are installed; this keeps them from it.
	policy=/usr/sbin/policy-rc.d
	[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && trap 'rm -f $policy' EXIT; }
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server >&2
}
