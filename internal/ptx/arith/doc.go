// Package arith has PTX's types and computes with values of them: what an instruction
// makes of one value ([BinaryInt], [Conversion], [FloatMode]), and of the 32 lanes of a
// warp at once where that is frequent ([HotInt32], [HotFloat32]). Results are those of
// the hardware, bit by bit; float64 arithmetic that is rounded once gives them.
package arith
