#include "textflag.h"

// func prefetch(pairs unsafe.Pointer, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ  pairs+0(FP), AX
	MOVQ  n+8(FP), CX
	TESTQ CX, CX
	JZ    done
next:
	MOVQ  (AX), DX
	PREFETCHT0 (DX)
	ADDQ  $16, AX
	DECQ  CX
	JNZ   next
done:
	RET
