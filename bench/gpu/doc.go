// Package gpu measures models of random weights on one NVIDIA GPU: single passes
// (passes.go), the engine with many requests and without a server (engine.go), a
// served model (served.go), and copies of blocks between the device and host memory
// (copies.go).
//
// Weights are random, shapes and types are those of published models, so nothing is
// downloaded and the times are those of trained models: they do not depend on the
// values. Guessing tokens ahead is turned off, because a random model repeats itself.
package gpu
