package rowstream_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestParseLoad parses texts of AppendLoad row by row, and refuses others.
func TestParseLoad(t *testing.T) {
	b := rowstream.Batch{Columns: 2}
	rows := []mysqlwire.TextRow{
		{[]byte("a\tb"), nil}, {[]byte(""), []byte(`\N`)}, {[]byte("\n\\\x00"), []byte("N")}, {bytes.Repeat([]byte("x\\"), 300), []byte{0xfb}},
	}
	for _, r := range rows {
		b.AppendRow(r)
	}
	text, err := rowstream.AppendLoad(nil, &b)
	if err != nil {
		t.Fatal(err)
	}
	got := rowstream.Batch{Columns: 2}
	used := 0
	for used < len(text) {
		n, err := rowstream.ParseLoad(&got, text[used:], len(got.Bytes)+1) // one row
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		used += n
	}
	if got.Rows != len(rows) || !bytes.Equal(got.Bytes, b.Bytes) {
		t.Errorf("got %d rows %q, want %d rows %q", got.Rows, got.Bytes, b.Rows, b.Bytes)
	}
	if n, err := rowstream.ParseLoad(&got, []byte("a\tb"), 1<<20); n != 0 || err != nil {
		t.Errorf("a row without its end: %d, %v", n, err)
	}
	for _, text := range []string{"a\n", "a\tb\tc\n", "\\x\tb\n", "a\\\tb\n", "a\tb\\N\n", "\n"} {
		before := len(got.Bytes)
		if n, err := rowstream.ParseLoad(&got, []byte(text), 1<<20); n != 0 || !errors.Is(err, rowstream.ErrLoadText) || len(got.Bytes) != before {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

// FuzzParseLoad checks that a text that is accepted is the one that AppendLoad has for its rows.
func FuzzParseLoad(f *testing.F) {
	for _, text := range []string{"", "a\n", "\\N\t\\\\N\n", "\\t\\n\\\\\tb\nc\td\n", "a\tb\tc\n", "\\\n"} {
		f.Add([]byte(text), uint8(2))
	}
	f.Fuzz(func(t *testing.T, text []byte, columns uint8) {
		defer alloctest.Bounded(t, 32<<20)()
		b := rowstream.Batch{Columns: int(columns%5) + 1}
		used, err := rowstream.ParseLoad(&b, text, 1<<30)
		if err == nil && bytes.IndexByte(text[used:], '\n') >= 0 {
			t.Errorf("%q: %d bytes parsed, and there are more rows", text, used)
		}
		if err := b.Check(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		again, err := rowstream.AppendLoad(nil, &b)
		if err != nil || !bytes.Equal(again, text[:used]) {
			t.Errorf("%q was parsed as %q (%v)", text[:used], again, err)
		}
	})
}
