package ptx

import "math/bits"

// integerHash is the kernel integers, in Go.
func integerHash(x, y uint64) (h uint64) {
	s, t := int64(x), int64(y)
	p, q := int32(x), int32(y)
	g, k := int16(x), int16(y)
	add := func(v uint64) { h = h*31 + v }
	div := func(ok bool, v func() uint64) {
		if ok {
			add(v())
		} else {
			add(0)
		}
	}
	div(y != 0, func() uint64 { return x / y })
	div(y != 0, func() uint64 { return x % y })
	div(t != 0 && t != -1, func() uint64 { return uint64(s / t) })
	hi, _ := bits.Mul64(x, y)
	add(hi - x>>63*y - y>>63*x)
	add(hi)
	div(q != 0 && q != -1, func() uint64 { return uint64(int64(p % q)) })
	add(uint64(int64(p) * int64(q)))
	small := uint64(uint32(int32(g)*int32(k))) + uint64(uint16(g>>(uint16(k)&15))) + uint64(uint32(int8(x)))
	if g < k {
		small++
	}
	add(small)
	add(uint64(int64(bits.OnesCount64(x) + bits.LeadingZeros64(y|1) + bits.TrailingZeros32(uint32(p)|1<<20))))
	add(uint64(bits.Reverse32(uint32(p))) + uint64(bits.ReverseBytes32(uint32(q))) + uint64(
		bits.RotateLeft32(uint32(p), int(q&31))))
	add(x<<(y&63) + x>>(y&63) + uint64(s>>(y&63)))
	add(uint64(min(s, t) + int64(max(p, q)) + int64(p&q^(p|^q))))
	return h
}
