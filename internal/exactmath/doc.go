// Package exactmath has the functions of package math, and the random variables of package math/rand/v2, whose results
// there depend on the machine: by assembly for some architectures, or because a compiler rounds a product and a sum at
// once. Here each operation is rounded by itself, so that all machines have the same bits. Results are within two units
// in the last place of the true ones where nothing else is said.
//
// Functions of package math that every machine computes alike, such as [math.Sqrt], [math.Floor] and [math.Ldexp], are
// used as they are.
package exactmath
