package sqldigest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
)

var errShort = errors.New("the result is not what it was")

func TestAllocs(t *testing.T) {
	short, orm, bulk := []byte(shortSelect), []byte(ormSelect), bulkInsert(4<<10)
	long := append([]byte("SELECT "), bytes.Repeat([]byte("a+b, "), 2<<10)...)
	digest := func(sql []byte) func() error {
		var d Digester
		want := d.Digest(sql, 0)
		return func() error {
			if d.Digest(sql, 0) != want || len(d.Text()) == 0 {
				return errShort
			}
			return nil
		}
	}
	var w, tags Digester
	wantBulk := w.Digest(bulk, 0)
	var l Lexer
	var out []byte
	alloctest.Run(t, []alloctest.Case{
		{Name: "Digest short", Op: digest(short)},
		{Name: "Digest 1 KB", Op: digest(orm)},
		{Name: "Digest INSERT", Op: digest(bulk)},
		{Name: "Digest 2 MB", Op: rarely(digest(bulkInsert(2<<20)), 200)},
		// Past 16 KiB of text the buffer is not kept: regrowing it takes up to five steps.
		{Name: "Digest with 20 KiB of text", Op: rarely(digest(long), 100), PerThousand: 50},
		{Name: "Write in pieces", Op: func() error {
			w.Reset(0)
			for p := bulk; len(p) > 0; {
				n, err := w.Write(p[:min(100, len(p))])
				if err != nil {
					return err
				}
				p = p[n:]
			}
			if w.Sum() != wantBulk {
				return errShort
			}
			return nil
		}},
		{Name: "Digest in a charset of two bytes", Op: func() error {
			if w.Digest(orm, SJIS); w.Divergent() || len(w.Text()) == 0 {
				return errShort
			}
			return nil
		}},
		{Name: "Tags", Op: func() error {
			tags.Digest(orm, 0)
			n := 0
			for k, v := range tags.Tags() {
				n += len(k) + len(v)
			}
			if n != len("applicationshopcontrollerusersactionindex") {
				return errShort
			}
			return nil
		}},
		{Name: "Lexer", Op: func() error {
			l.Reset(short, 0)
			n := 0
			for ; l.Next().Kind != KindEOF; n++ {
			}
			if n < 30 {
				return errShort
			}
			return nil
		}},
		{Name: "AppendRedacted", Op: func() error {
			if out = AppendRedacted(out[:0], orm, 0); len(out) == 0 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}},
		{Name: "Digest.AppendText", Op: func() error {
			var err error
			out, err = wantBulk.AppendText(out[:0])
			return err
		}},
		{Name: "LookupKeyword", Op: func() error {
			if LookupKeyword("straight_join") != kwStraightJoin {
				return errShort
			}
			return nil
		}},
	})
}

// rarely runs op once in n calls: for an operation of milliseconds, any allocation of which would still show
// in a thousand calls.
func rarely(op func() error, n int) func() error {
	calls := 0
	return func() error {
		if calls++; calls%n != 0 {
			return nil
		}
		return op()
	}
}
