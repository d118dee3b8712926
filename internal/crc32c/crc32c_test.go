package crc32c

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestChecksum compares the checksum of every length up to beyond the longest that is divided, at every alignment of
// short ones, with hash/crc32's. Bytes around the data differ each time.
func TestChecksum(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	memory := make([]byte, 2*(maxRounds+2)*part)
	for n := range (maxRounds + 2) * part {
		for align := range 8 {
			if n > 40*part && align != n%8 {
				continue
			}
			if align == 0 || n > 40*part {
				if _, err := random.Read(memory[:n+64]); err != nil {
					t.Fatal(err)
				}
			}
			b := memory[align : align+n]
			if got, want := Checksum(b), crc32.Checksum(b, table); got != want {
				t.Fatalf("%d bytes at alignment %d: %#08x, want %#08x", n, align, got, want)
			}
		}
	}
}

// TestChecksumOfZeros covers what random data rarely has: parts whose checksums are zero or whose words are.
func TestChecksumOfZeros(t *testing.T) {
	for n := range (maxRounds + 2) * part {
		for _, at := range []int{-1, 0, n / 3, 2 * n / 3, n - 1} {
			b := make([]byte, n)
			if at >= 0 && at < n {
				b[at] = 0x80
			}
			if got, want := Checksum(b), crc32.Checksum(b, table); got != want {
				t.Fatalf("%d bytes, all zero but %d: %#08x, want %#08x", n, at, got, want)
			}
		}
	}
}

func FuzzChecksum(f *testing.F) {
	for _, n := range []int{0, least - 1, least, least + 7, 900, maxRounds * part, (maxRounds + 1) * part} {
		f.Add(make([]byte, n))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := Checksum(b), crc32.Checksum(b, table); got != want {
			t.Fatalf("%d bytes: %#08x, want %#08x", len(b), got, want)
		}
	})
}

func TestChecksumAllocs(t *testing.T) {
	b := make([]byte, 900)
	if n := testing.AllocsPerRun(100, func() { Checksum(b) }); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}

// BenchmarkChecksum runs both implementations over as many bytes as a query reads, in pieces of one length.
func BenchmarkChecksum(b *testing.B) {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i)
	}
	for _, size := range []int{64, 96, 128, 256, 500, 884, 2000, 4096, 16 << 10} {
		for _, of := range []struct {
			name string
			sum  func([]byte) uint32
		}{{"crc32c", Checksum}, {"hash", func(b []byte) uint32 { return crc32.Checksum(b, table) }}} {
			b.Run(fmt.Sprintf("%d/%s", size, of.name), func(b *testing.B) {
				b.SetBytes(int64(size))
				at := 0
				for b.Loop() {
					if at+size > len(data) {
						at = 0
					}
					of.sum(data[at : at+size])
					at += size + 5
				}
			})
		}
	}
}
