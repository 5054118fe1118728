#!/usr/bin/env bash
# Installs nginx where it is missing and this is root on Debian
# or Ubuntu. The benchmark starts one of its own, in a temporary directory and on a
# free port; no service is started.
set -euo pipefail
command -v nginx >/dev/null || {
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "the benchmark compares with nginx: install it, for example with: apt-get install nginx-light; or leave it out with: parley-bench gateway --nginx" >&2
		exit 1
	fi
	# Packages start their service when they are installed; this keeps them from it.
	policy=/usr/sbin/policy-rc.d
	[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && trap 'rm -f $policy' EXIT; }
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light >&2
}
