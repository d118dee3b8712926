package activeseries

import (
	"encoding/binary"
	"math/bits"
	"testing"
)

// TestSpecial tests each byte at each position of a word, after plain bytes and before any.
func TestSpecial(t *testing.T) {
	isSpecial := func(c byte) bool { return c == '"' || c == '\\' || c < ' ' || c >= 0x80 }
	for c := range 256 {
		for place := range 8 {
			for _, rest := range []byte{0, ' ', '!', '#', '"', '[', '\\', ']', 0x7f, 0x80, 0xff} {
				b := []byte("a#![]z !        ")
				b[place] = byte(c)
				for i := place + 1; i < 8; i++ {
					b[i] = rest
				}
				want := 8
				for i := range 8 {
					if isSpecial(b[i]) {
						want = i
						break
					}
				}
				if got := bits.TrailingZeros64(special(binary.LittleEndian.Uint64(b))) / 8; got != want {
					t.Fatalf("first special byte of %q is at %d, want %d", b[:8], got, want)
				}
			}
		}
	}
}
