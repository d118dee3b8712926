#include "textflag.h"

// func divided(p *byte, rounds, rest uintptr, near, far uint64) uint32
//
// AX, CX and DX are the checksums of three consecutive parts, each of BX words, from SI, R9 and R10.
TEXT ·divided(SB), NOSPLIT, $0-44
	MOVQ p+0(FP), SI
	MOVQ rounds+8(FP), BX
	MOVQ rest+16(FP), R11
	MOVQ near+24(FP), X1
	MOVQ far+32(FP), X3
	MOVL $0xffffffff, AX
	XORL CX, CX
	XORL DX, DX
	LEAQ (SI)(BX*8), R9
	LEAQ (R9)(BX*8), R10
	XORL R8, R8
	DECQ BX
	JZ   last

loop:
	CRC32Q (SI)(R8*8), AX
	CRC32Q (R9)(R8*8), CX
	CRC32Q (R10)(R8*8), DX
	INCQ   R8
	CMPQ   R8, BX
	JNE    loop

last:
	// The last word of the third part is combined with the other parts' checksums, shifted to their places.
	CRC32Q    (SI)(R8*8), AX
	CRC32Q    (R9)(R8*8), CX
	MOVQ      AX, X2
	MOVQ      CX, X0
	PCLMULQDQ $0, X3, X2
	PCLMULQDQ $0, X1, X0
	PXOR      X2, X0
	MOVQ      X0, R12
	XORQ      (R10)(R8*8), R12
	CRC32Q    R12, DX
	LEAQ      8(R10)(R8*8), SI

	// The rest of fewer than 24 bytes.
words:
	CMPQ   R11, $8
	JB     bytes
	CRC32Q (SI), DX
	ADDQ   $8, SI
	SUBQ   $8, R11
	JMP    words

bytes:
	TESTQ  $4, R11
	JZ     two
	CRC32L (SI), DX
	ADDQ   $4, SI

two:
	TESTQ  $2, R11
	JZ     one
	CRC32W (SI), DX
	ADDQ   $2, SI

one:
	TESTQ  $1, R11
	JZ     done
	CRC32B (SI), DX

done:
	MOVL DX, ret+40(FP)
	RET
