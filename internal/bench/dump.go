package bench

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
)

// A dump makes the INSERT statements of an SQL dump.
type dump struct {
	rng   *rand.Rand
	words []byte // text to cut values from
	buf   []byte
}

func newDump(seed uint64) *dump {
	d := &dump{rng: rand.New(rand.NewPCG(seed, 0x1a9)), words: make([]byte, 64<<10)}
	for i := range d.words {
		d.words[i] = "abcdefghijklmnopqrstuvwxyz      "[d.rng.IntN(32)]
	}
	return d
}

// importRowMost is more than any row of a dump takes.
const importRowMost = 512

// statement makes one of at most size bytes and answers how many rows it has.
func (d *dump) statement(size int64, nextID *atomic.Int64) (stmt string, rows int64) {
	b := append(d.buf[:0], "INSERT INTO "+importTable+" (id, name, amount, note) VALUES "...)
	for rows == 0 || int64(len(b))+importRowMost <= size {
		if rows > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '('), nextID.Add(1), 10)
		b = append(append(b, ",'"...), d.text(8+d.rng.IntN(40))...)
		b = strconv.AppendInt(append(b, "',"...), d.rng.Int64N(1_000_000), 10)
		b = append(append(b, ".25,'"...), d.text(40+d.rng.IntN(200))...)
		b = append(b, "')"...)
		rows++
	}
	d.buf = b
	return string(b), rows
}

// text is n bytes of words.
func (d *dump) text(n int) []byte {
	at := d.rng.IntN(len(d.words) - n)
	return d.words[at : at+n]
}
