#!/usr/bin/env bash
# Compiles the kernels of this folder to PTX with clang 19; no tool of NVIDIA's is needed.
# SUMS holds the checksum of the sources and of each result, for a test that has no compiler.
set -euo pipefail
cd "$(dirname "$0")"
export LC_ALL=C
../../../test/need-clang.sh
mkdir -p ../ptx
rm -f ../ptx/*.ptx ../ptx/SUMS
compile() { # source architecture result
	clang-19 -x cuda --cuda-device-only --cuda-gpu-arch="$2" -nocudainc -nocudalib -O3 -S -ffp-contract=off \
		-Xclang -target-feature -Xclang +ptx83 "$1" -o - | grep -v '^//\|^$' >"$3"
}
for source in *.cu; do
	architecture=sm_80
	[[ $source == *_90a.cu ]] && architecture=sm_90a
	compile "$source" "$architecture" "../ptx/${source%.cu}.ptx"
done
{
	echo "$(cat -- *.cu *.cuh generate.sh | sha256sum | cut -d' ' -f1)  sources"
	(cd ../ptx && sha256sum -- *.ptx)
} >../ptx/SUMS
