#!/usr/bin/env bash
# Makes sure that clang 19 is there, which compiles the kernels of compute/cuda.
set -euo pipefail
command -v clang-19 >/dev/null && exit 0
sudo=$(command -v sudo || true)
$sudo apt-get -qq update
$sudo apt-get -qq install -y --no-install-recommends clang-19
