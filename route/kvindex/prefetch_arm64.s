#include "textflag.h"

// func prefetch(pairs unsafe.Pointer, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD pairs+0(FP), R0
	MOVD n+8(FP), R1
	CBZ  R1, done
next:
	MOVD (R0), R2
	PRFM (R2), PLDL1KEEP
	ADD  $16, R0
	SUB  $1, R1
	CBNZ R1, next
done:
	RET
