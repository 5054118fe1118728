package arith

// ShuffleSource returns the lane to read from, and whether it is in range; out
// of range a lane reads itself.
func ShuffleSource(mode string, lane, b, c uint32) (uint32, bool) {
	b &= 31
	segment, clamp := c>>8&31, c&31
	top := lane&segment | clamp&^segment
	bottom := lane & segment
	from, ok := lane, false
	switch mode {
	case "up":
		from = lane - b
		ok = int32(from) >= int32(top)
	case "down":
		from = lane + b
		ok = from <= top
	case "bfly":
		from = lane ^ b
		ok = from <= top
	case "idx":
		from = bottom | b&^segment
		ok = from <= top
	}
	if !ok {
		from = lane
	}
	return from, ok
}

// Combine applies and, or, xor or nothing.
func Combine(logic string, v, with uint32) uint32 {
	switch logic {
	case "and":
		return v & with
	case "or":
		return v | with
	case "xor":
		return v ^ with
	}
	return v
}
