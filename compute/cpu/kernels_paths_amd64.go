package cpu

import (
	x86 "golang.org/x/sys/cpu"

	"parley/compute"
)

var avx512Kernels = kernelSet{
	name: "avx512", q8Rows: 6, floatRows: 6,
	gemmQ8:  gemmQ8AVX512,
	gemmF32: gemmF32AVX512, gemmF16: gemmF16AVX512, gemmBF16: gemmBF16AVX512,
	quantize:   quantizeAVX512,
	sumSquares: sumSquaresAVX512, scaleNorm: scaleNormAVX512,
	addTo: addToAVX512, addScaled: addScaledAVX512,
	gateSiLU: gateSiLUAVX512, gateGELU: gateGELUAVX512,
	rotate: rotateAVX512,
	attend: [compute.KVTypes]attendKernels{
		compute.KVF32:  {scoresF32AVX512, absorbF32AVX512},
		compute.KVBF16: {scoresBF16AVX512, absorbBF16AVX512},
		compute.KVInt8: {scoresInt8AVX512, absorbInt8AVX512},
		compute.KVFP8:  {scoresFP8AVX512, absorbFP8AVX512},
	},
}

var avx2Kernels = kernelSet{
	name: "avx2", q8Rows: 2, floatRows: 3,
	gemmQ8:  gemmQ8AVX2,
	gemmF32: gemmF32AVX2, gemmF16: gemmF16AVX2, gemmBF16: gemmBF16AVX2,
	quantize:   quantizeAVX2,
	sumSquares: sumSquaresAVX2, scaleNorm: scaleNormAVX2,
	addTo: addToAVX2, addScaled: addScaledAVX2,
	gateSiLU: gateSiLUAVX2, gateGELU: gateGELUAVX2,
	rotate: rotateAVX2,
	attend: [compute.KVTypes]attendKernels{
		compute.KVF32:  {scoresF32AVX2, absorbF32AVX2},
		compute.KVBF16: {scoresBF16AVX2, absorbBF16AVX2},
		compute.KVInt8: {scoresInt8AVX2, absorbInt8AVX2},
		compute.KVFP8:  {scoresFP8AVX2, absorbFP8AVX2},
	},
}

// paths returns what there is for amd64, best first.
func paths() []path {
	f := &x86.X86
	wide := f.HasAVX512F && f.HasAVX512BW && f.HasAVX512DQ && f.HasAVX512VL && f.HasAVX512VNNI
	return []path{
		{&avx512Kernels, wide},
		{&avx2Kernels, f.HasAVX2 && f.HasFMA && f.HasF16C},
		{&plainKernels, true},
	}
}
