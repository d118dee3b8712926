package rowstream_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

func TestBatch(t *testing.T) {
	rows := []mysqlwire.TextRow{testrows.Row("1", nil, ""), testrows.Row("2", "x", strings.Repeat("y", 70_000)), testrows.Row(nil, nil, nil)}
	b := testrows.BatchOf(rows...)
	b.AppendPayload(rows[1].AppendTo(nil))
	want := append(rows, rows[1])
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, testrows.RowsOf(t, b)); diff != "" {
		t.Error(diff)
	}
	for cut := range len(b.Bytes) {
		short := rowstream.Batch{Columns: b.Columns, Rows: b.Rows, Bytes: b.Bytes[:cut]}
		if err := short.Check(); !errors.Is(err, mysqlwire.ErrShortPacket) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	for _, bad := range []rowstream.Batch{
		{Columns: 3, Rows: 3, Bytes: b.Bytes},
		{Columns: 0, Rows: 1},
		{Columns: 1, Rows: -1},
		{Columns: -1, Rows: 0},
		{Columns: 1, Rows: 0, Bytes: []byte{0}},
	} {
		if err := bad.Check(); err == nil {
			t.Errorf("batch of %d rows, %d columns and %d bytes passed", bad.Rows, bad.Columns, len(bad.Bytes))
		}
	}
}

func TestShrink(t *testing.T) {
	b := testrows.BatchOf(testrows.Row(strings.Repeat("x", 1<<20)))
	b.Shrink(1 << 10)
	if b.Rows != 1 || len(b.Bytes) < 1<<20 {
		t.Fatal("a batch with rows shrank")
	}
	b.Reset(1)
	b.Shrink(1 << 10)
	if cap(b.Bytes) != 0 {
		t.Errorf("an empty batch keeps %d bytes", cap(b.Bytes))
	}
	b.AppendRow(testrows.Row("x"))
	b.Reset(1)
	b.Shrink(1 << 10)
	if cap(b.Bytes) == 0 {
		t.Error("room below the limit was given back")
	}
}

// unload parses LOAD DATA text: the inverse of AppendLoad, written in a simple way.
func unload(text []byte) []mysqlwire.TextRow {
	var rows []mysqlwire.TextRow
	r, value, null := mysqlwire.TextRow{}, []byte{}, false
	end := func() {
		if null {
			value = nil
		}
		r, value, null = append(r, value), []byte{}, false
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\t':
			end()
		case '\n':
			end()
			rows, r = append(rows, r), mysqlwire.TextRow{}
		case '\\':
			i++
			switch text[i] {
			case 'N':
				null = true
			case 't':
				value = append(value, '\t')
			case 'n':
				value = append(value, '\n')
			default:
				value = append(value, text[i])
			}
		default:
			value = append(value, c)
		}
	}
	return rows
}

func FuzzAppendLoad(f *testing.F) {
	f.Add([]byte("a\tb\nc\\d"), []byte(`\N`), []byte("12345678\n1234567\t"), false)
	f.Add([]byte{}, []byte{0, 0xFB, 0xFF}, bytes.Repeat([]byte{'\\'}, 300), true)
	f.Fuzz(func(t *testing.T, a, b, c []byte, null bool) {
		defer alloctest.Bounded(t, 32<<20)()
		r := mysqlwire.TextRow{bytes.Clone(a), append([]byte{}, b...), append([]byte{}, c...)}
		if r[0] == nil {
			r[0] = []byte{}
		}
		if null {
			r[1] = nil
		}
		batch := testrows.BatchOf(r, r)
		text, err := rowstream.AppendLoad(nil, batch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]mysqlwire.TextRow{r, r}, unload(text)); diff != "" {
			t.Error(diff)
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add(testrows.BatchOf(testrows.Row("1", nil), testrows.Row("", "x")).Bytes, 2, 2)
	f.Add([]byte{0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, 1, 1)
	f.Fuzz(func(t *testing.T, data []byte, columns, rows int) {
		defer alloctest.Bounded(t, 32<<20)()
		if columns > 100 || rows > 1000 {
			return
		}
		b := rowstream.Batch{Columns: columns, Rows: rows, Bytes: data}
		text, loadErr := rowstream.AppendLoad(nil, &b)
		if err := b.Check(); err != nil {
			return
		}
		if loadErr != nil {
			t.Fatalf("a batch that passes does not load: %v", loadErr)
		}
		got := testrows.RowsOf(t, &b)
		if len(got) != rows {
			t.Fatalf("%d rows, want %d", len(got), rows)
		}
		if diff := cmp.Diff(unload(text), got); rows > 0 && diff != "" {
			t.Error(diff)
		}
	})
}

func TestAppendInsert(t *testing.T) {
	b := testrows.BatchOf(testrows.Row("1", "it's"), testrows.Row("2", nil), testrows.Row("3", "x\\y\n\xff"))
	wraps := []rowstream.Wrap{{}, {Before: "f(", After: ")"}}
	stmt, at, rows, err := rowstream.AppendInsert(nil, "INSERT INTO t VALUES ", b, 0, 1<<20, wraps)
	const want = `INSERT INTO t VALUES (_binary'1',f(x'69742773')),(_binary'2',f(NULL)),(_binary'3',f(x'785c790aff'))`
	if err != nil || string(stmt) != want || rows != 3 || at != len(b.Bytes) {
		t.Errorf("%s (%d rows, to %d, %v), want %s", stmt, rows, at, err, want)
	}

	// With the smallest limit that fits a row, each statement has one.
	var got []string
	for at = 0; at < len(b.Bytes); {
		stmt, at, rows, err = rowstream.AppendInsert(nil, "VALUES ", b, at, len("VALUES (_binary'3',x'785c790aff')"), nil)
		if err != nil || rows != 1 {
			t.Fatalf("%s: %d rows, %v", stmt, rows, err)
		}
		got = append(got, string(stmt))
	}
	if diff := cmp.Diff([]string{"VALUES (_binary'1',x'69742773')", "VALUES (_binary'2',NULL)", "VALUES (_binary'3',x'785c790aff')"}, got); diff != "" {
		t.Error(diff)
	}
	if stmt, at, rows, err = rowstream.AppendInsert([]byte("kept"), "VALUES ", b, 0, 10, nil); string(stmt) != "kept" || at != 0 || rows != 0 || err != nil {
		t.Errorf("a row past the limit: %q, %d, %d rows, %v", stmt, at, rows, err)
	}
	short := &rowstream.Batch{Columns: 2, Rows: 1, Bytes: []byte{5, 'x'}}
	if _, _, _, err := rowstream.AppendInsert(nil, "", short, 0, 100, nil); !errors.Is(err, mysqlwire.ErrShortPacket) {
		t.Errorf("a short batch: %v", err)
	}
}
