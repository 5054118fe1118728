package cpu

import (
	"parley/compute"

	x86 "golang.org/x/sys/cpu"
)

var avx512Kernels = kernelSet{
	name:       "avx512",
	packedRows: 6,
	floatRows:  6,
	gemmPacked: [packKinds]gemmPackedFunc{
		packQ8: gemmQ8AVX512, packQ4: gemmQ4AVX512, packQ4K: gemmQ4KAVX512, packQ6K: gemmQ6KAVX512,
	},
	gemmF32:     gemmF32AVX512,
	gemmF16:     gemmF16AVX512,
	gemmBF16:    gemmBF16AVX512,
	wideF32:     wideF32AVX512,
	wideF16:     wideF16AVX512,
	wideBF16:    wideBF16AVX512,
	quantize:    quantizeAVX512,
	pack:        [packKinds]func(dst, src []byte, rowBytes, blocks int){packQ8: packQ8AVX512, packQ4: packQ4AVX512},
	sumSquares:  sumSquaresAVX512,
	scaleNorm:   scaleNormAVX512,
	addTo:       addToAVX512,
	addScaled:   addScaledAVX512,
	scaleTo:     scaleToAVX512,
	blend:       blendAVX512,
	gateSiLU:    gateSiLUAVX512,
	gateGELU:    gateGELUAVX512,
	rotate:      rotateAVX512,
	rotatePairs: rotatePairsAVX512,
	attend: [compute.KVTypes]attendKernels{
		compute.KVF32:  {scoresF32AVX512, weighF32AVX512, addValuesF32AVX512, attendWholeF32AVX512},
		compute.KVBF16: {scoresBF16AVX512, weighBF16AVX512, addValuesBF16AVX512, attendWholeBF16AVX512},
		compute.KVInt8: {scoresInt8AVX512, weighInt8AVX512, addValuesInt8AVX512, attendWholeInt8AVX512},
		compute.KVFP8:  {scoresFP8AVX512, weighFP8AVX512, addValuesFP8AVX512, attendWholeFP8AVX512},
	},
}

var avx2Kernels = kernelSet{
	name:       "avx2",
	packedRows: 2,
	floatRows:  3,
	gemmPacked: [packKinds]gemmPackedFunc{
		packQ8: gemmQ8AVX2, packQ4: gemmQ4AVX2, packQ4K: gemmQ4KAVX2, packQ6K: gemmQ6KAVX2,
	},
	gemmF32:     gemmF32AVX2,
	gemmF16:     gemmF16AVX2,
	gemmBF16:    gemmBF16AVX2,
	quantize:    quantizeAVX2,
	sumSquares:  sumSquaresAVX2,
	scaleNorm:   scaleNormAVX2,
	addTo:       addToAVX2,
	addScaled:   addScaledAVX2,
	scaleTo:     scaleToAVX2,
	blend:       blendAVX2,
	gateSiLU:    gateSiLUAVX2,
	gateGELU:    gateGELUAVX2,
	rotate:      rotateAVX2,
	rotatePairs: rotatePairsAVX2,
	attend: [compute.KVTypes]attendKernels{
		compute.KVF32:  {scoresF32AVX2, weighF32AVX2, addValuesF32AVX2, attendWholeF32AVX2},
		compute.KVBF16: {scoresBF16AVX2, weighBF16AVX2, addValuesBF16AVX2, attendWholeBF16AVX2},
		compute.KVInt8: {scoresInt8AVX2, weighInt8AVX2, addValuesInt8AVX2, attendWholeInt8AVX2},
		compute.KVFP8:  {scoresFP8AVX2, weighFP8AVX2, addValuesFP8AVX2, attendWholeFP8AVX2},
	},
}

// amxKernels are those of AVX-512, and what the matrix unit does.
var amxKernels = func() kernelSet {
	k := avx512Kernels
	k.name = "amx"
	k.tiles = &tileKernels{
		unpack: [packKinds]func(dst, panel []byte, blocks int){
			packQ8: unpackQ8AVX512, packQ4: unpackQ4AVX512, packQ4K: unpackQ4KAVX512, packQ6K: unpackQ6KAVX512,
		},
		gemm: [packKinds]gemmTilesFunc{
			packQ8: tilesWholeAMX, packQ4: tilesWholeAMX, packQ4K: tilesMinsAMX, packQ6K: tilesHalvesAMX,
		},
	}
	if x86.X86.HasAMXBF16 {
		k.brain = &brainAMX
	}
	return k
}()

// brainAMX are the kernels for matrix units that take bfloat16.
var brainAMX = brainKernels{
	rows: [brainClasses]func(dst []byte, src []float32, steps int){brainRounded: roundRowsAVX512,
		brainSplit: splitRowsAVX512},
	floats: [brainClasses]func(dst, src []float32, steps int){brainRounded: roundFloatsAVX512,
		brainSplit: splitFloatsAVX512},
	roundF16: roundF16AVX512,
	roundPacked: [packKinds]func(dst, panel []byte, blocks int){
		packQ8: roundQ8AVX512, packQ4: roundQ4AVX512, packQ4K: roundQ4KAVX512, packQ6K: roundQ6KAVX512,
	},
	gemm: [brainClasses][2]gemmBrainFunc{
		brainRounded: {brainRoundedAMX, brainRoundedPairAMX},
		brainSplit:   {brainSplitAMX, brainSplitPairAMX},
	},
	fewBF16: [brainClasses]gemmFewFunc{brainRounded: fewBF16RoundedAVX512, brainSplit: fewBF16SplitAVX512},
	fewF16:  fewF16RoundedAVX512,
}

// paths returns what there is for amd64, best first.
func paths() []path {
	f := &x86.X86
	wide := f.HasAVX512F && f.HasAVX512BW && f.HasAVX512DQ && f.HasAVX512VL && f.HasAVX512VNNI
	return []path{
		{&amxKernels, wide && f.HasAMXTile && f.HasAMXInt8 && askForTiles()},
		{&avx512Kernels, wide},
		{&avx2Kernels, f.HasAVX2 && f.HasFMA && f.HasF16C},
		{&plainKernels, true},
	}
}
