package bench

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
)

// A dump generates the INSERT statements of an SQL dump.
type dump struct {
	rng   *rand.Rand
	words []byte // text of which values are substrings
	buf   []byte
}

func newDump(seed uint64) *dump {
	d := &dump{rng: rand.New(rand.NewPCG(seed, 0x1a9)), words: make([]byte, 64<<10)}
	for i := range d.words {
		d.words[i] = "abcdefghijklmnopqrstuvwxyz      "[d.rng.IntN(32)]
	}
	return d
}

// importRowMost is an upper bound of a dump row's size.
const importRowMost = 512

// statement returns a statement of at most size bytes and the number of its rows.
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

// text returns n bytes of words.
func (d *dump) text(n int) []byte {
	at := d.rng.IntN(len(d.words) - n)
	return d.words[at : at+n]
}
