package int4

import "encoding/binary"

// WriteNibbles writes codes as blocks of GGUF's type Q4_0 have them behind the scale. Their zero is 8.
func WriteNibbles(dst []byte, codes *[Block]byte, _ int) {
	for i := range Block / 2 {
		dst[i] = codes[i] | codes[i+Block/2]<<4
	}
}

// WriteFives writes codes as those of type Q5_0, whose zero is 16. The bytes of dst must be zero.
func WriteFives(dst []byte, codes *[Block]byte, zero int) {
	high := uint32(0)
	for i, code := range codes {
		q := int(code) - zero + 16
		high |= uint32(q>>4) << i
		dst[4+i%16] |= byte(q&15) << (i / 16 * 4)
	}
	binary.LittleEndian.PutUint32(dst, high)
}

// WriteBytes writes codes as those of type Q8_0, whose zero is 0.
func WriteBytes(dst []byte, codes *[Block]byte, zero int) {
	for i, code := range codes {
		dst[i] = byte(int(code) - zero)
	}
}
