package exactmath

import (
	"math"
	"math/rand/v2"
)

// A ziggurat is layers of the same area under a density, by the method of Marsaglia and Tsang: inside is below which
// number a draw lies in the layer that is all below the density, width the size of a step, and height the density at
// the edge of a layer.
type ziggurat struct {
	inside        []uint32
	width, height []float32
}

// The tail begins at the edge of the widest layer.
const (
	normalLayers, normalTail, normalArea    = 128, 3.442619855899, 9.91256303526217e-3
	waitingLayers, waitingTail, waitingArea = 256, 7.69711747013104972, 3.949659822581572e-3
)

var (
	normal = newZiggurat(normalLayers, normalTail, normalArea, 1<<31,
		func(x float64) float64 { return Exp(float64(-0.5 * x * x)) },
		func(y float64) float64 { return math.Sqrt(-2 * Log(y)) })
	waiting = newZiggurat(waitingLayers, waitingTail, waitingArea, 1<<32,
		func(x float64) float64 { return Exp(-x) },
		func(y float64) float64 { return -Log(y) })
)

// newZiggurat divides a density, whose inverse is given, into layers of an area; the numbers drawn are below steps.
func newZiggurat(layers int, tail, area, steps float64, density, inverse func(float64) float64) *ziggurat {
	z := &ziggurat{make([]uint32, layers), make([]float32, layers), make([]float32, layers)}
	base := area / density(tail)
	z.inside[0], z.width[0], z.height[0] = uint32(float64(tail/base)*steps), float32(base/steps), 1
	z.width[layers-1], z.height[layers-1] = float32(tail/steps), float32(density(tail))
	edge := tail
	for i := layers - 2; i > 0; i-- {
		next := inverse(area/edge + density(edge))
		z.inside[i+1] = uint32(float64(next/edge) * steps)
		edge = next
		z.width[i], z.height[i] = float32(edge/steps), float32(density(edge))
	}
	return z
}

// below reports whether a point of a layer at x is below the density, where that is not known by the layer alone.
func (z *ziggurat) below(layer int, r *rand.Rand, density float64) bool {
	rise := float32(float32(r.Float64()) * (z.height[layer-1] - z.height[layer]))
	return z.height[layer]+rise < float32(density)
}

// Normal draws a variable with a normal distribution, a mean of 0 and a deviation of 1. It takes from the source what
// [rand.Rand.NormFloat64] takes.
func Normal(r *rand.Rand) float64 {
	for {
		u := r.Uint64()
		j, layer := int32(u), int(u>>32&(normalLayers-1))
		x := float64(float64(j) * float64(normal.width[layer]))
		if uint32(max(int64(j), -int64(j))) < normal.inside[layer] {
			return x
		}
		if layer == 0 {
			return math.Copysign(normalTail+beyond(r), float64(j))
		}
		if normal.below(layer, r, Exp(float64(-0.5*x*x))) {
			return x
		}
	}
}

// beyond draws how far in the tail a variable with a normal distribution is.
func beyond(r *rand.Rand) float64 {
	for {
		x := float64(-Log(r.Float64()) * (1.0 / normalTail))
		y := -Log(r.Float64())
		if y+y >= float64(x*x) {
			return x
		}
	}
}

// Exponential draws a variable with an exponential distribution and a mean of 1. It takes from the source what
// [rand.Rand.ExpFloat64] takes.
func Exponential(r *rand.Rand) float64 {
	for {
		u := r.Uint64()
		j, layer := uint32(u), int(u>>32&(waitingLayers-1))
		x := float64(float64(j) * float64(waiting.width[layer]))
		if j < waiting.inside[layer] {
			return x
		}
		if layer == 0 {
			return waitingTail - Log(r.Float64())
		}
		if waiting.below(layer, r, Exp(-x)) {
			return x
		}
	}
}
