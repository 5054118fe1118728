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
	name=${source%.cu}
	case $name in
	*_90a) compile "$source" sm_90a "../ptx/$name.ptx" ;;
	attend_* | basic | embed | rope) # with what Hopper has in common.cuh, too
		compile "$source" sm_80 "../ptx/$name.ptx"
		compile "$source" sm_90a "../ptx/${name}_90a.ptx" ;;
	*) compile "$source" sm_80 "../ptx/$name.ptx" ;;
	esac
done
{
	echo "$(cat -- *.cu *.cuh generate.sh | sha256sum | cut -d' ' -f1)  sources"
	(cd ../ptx && sha256sum -- *.ptx)
} >../ptx/SUMS
