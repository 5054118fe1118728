#include "textflag.h"

// func prefetch(lines []unsafe.Pointer)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ lines_base+0(FP), AX
	MOVQ lines_len+8(FP), CX
next:
	TESTQ CX, CX
	JZ    done
	MOVQ  (AX), DX
	PREFETCHT0 (DX)
	ADDQ  $8, AX
	DECQ  CX
	JMP   next
done:
	RET
