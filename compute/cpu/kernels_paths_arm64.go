package cpu

import (
	arm "golang.org/x/sys/cpu"

	"parley/compute"
)

// neonKernels are for processors that sum four products of bytes with one
// instruction (FEAT_DotProd, which all of Armv8.4 have, and many of Armv8.2).
//
// They compute what the other kernels do in the same order, and are tested
// under emulation. Their speed on a real processor has not been measured: the
// numbers of rows below follow from how many registers there are.
var neonKernels = kernelSet{
	name:       "neon",
	packedRows: 4,
	floatRows:  6,
	gemmPacked: [packKinds]gemmPackedFunc{
		packQ8: gemmQ8NEON, packQ4: gemmQ4NEON, packQ4K: gemmQ4KNEON, packQ6K: gemmQ6KNEON,
	},
	gemmF32:     gemmF32NEON,
	gemmF16:     gemmF16NEON,
	gemmBF16:    gemmBF16NEON,
	quantize:    quantizeNEON,
	sumSquares:  sumSquaresNEON,
	scaleNorm:   scaleNormNEON,
	addTo:       addToNEON,
	addScaled:   addScaledNEON,
	scaleTo:     scaleToNEON,
	blend:       blendNEON,
	gateSiLU:    gateSiLUNEON,
	gateGELU:    gateGELUNEON,
	rotate:      rotateNEON,
	rotatePairs: rotatePairsNEON,
	attend: [compute.KVTypes]attendKernels{
		compute.KVF32:  {scoresF32NEON, weighF32NEON, addValuesF32NEON, nil},
		compute.KVBF16: {scoresBF16NEON, weighBF16NEON, addValuesBF16NEON, nil},
		compute.KVInt8: {scoresInt8NEON, weighInt8NEON, addValuesInt8NEON, nil},
		compute.KVFP8:  {scoresFP8NEON, weighFP8NEON, addValuesFP8NEON, nil},
	},
}

// paths returns what there is for arm64, best first.
func paths() []path {
	return []path{
		{&neonKernels, arm.ARM64.HasASIMDDP},
		{&plainKernels, true},
	}
}
