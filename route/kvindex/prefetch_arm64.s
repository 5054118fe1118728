#include "textflag.h"

// func prefetch(lines []unsafe.Pointer)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVD lines_base+0(FP), R0
	MOVD lines_len+8(FP), R1
next:
	CBZ  R1, done
	MOVD (R0), R2
	PRFM (R2), PLDL1KEEP
	ADD  $8, R0
	SUB  $1, R1
	JMP  next
done:
	RET
