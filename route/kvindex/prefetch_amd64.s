#include "textflag.h"

// func prefetch(pairs unsafe.Pointer, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ pairs+0(FP), AX
	MOVQ n+8(FP), CX
	SUBQ $4, CX
	JL   rest
four:
	MOVQ (AX), DX
	MOVQ 16(AX), BX
	PREFETCHT0 (DX)
	PREFETCHT0 (BX)
	MOVQ 32(AX), DX
	MOVQ 48(AX), BX
	PREFETCHT0 (DX)
	PREFETCHT0 (BX)
	ADDQ $64, AX
	SUBQ $4, CX
	JGE  four
rest:
	ADDQ $4, CX
	JZ   done
one:
	MOVQ (AX), DX
	PREFETCHT0 (DX)
	ADDQ $16, AX
	DECQ CX
	JNZ  one
done:
	RET
