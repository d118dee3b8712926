package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// sampleChanges returns a batch of changes of two tables; a third one in between has none.
func sampleChanges() *binlog.ChangeBatch {
	b := &binlog.ChangeBatch{
		Upto: binlog.Position{File: "binlog.000007", Offset: 4711, GTID: "0-1-5"}, Skip: 3, Commit: time.Unix(1_700_000_000, 0),
		Tables: []rowstream.Batch{{Columns: 2}, {Columns: 1}, {Columns: 3}},
	}
	add := func(table int32, kind binlog.ChangeKind, last bool, rows ...[]any) {
		t := &b.Tables[table]
		c := binlog.Change{Table: table, Kind: kind, Before: -1, After: -1, LastOfTransaction: last}
		for i, r := range rows {
			at := len(t.Bytes)
			t.AppendRow(testrows.Row(r...))
			if kind == binlog.Delete || kind == binlog.Update && i == 0 {
				c.Before = at
			} else {
				c.After = at
			}
		}
		b.Changes = append(b.Changes, c)
	}
	add(0, binlog.Insert, false, []any{"1", nil})
	add(2, binlog.Update, false, []any{"1", "", "x"}, []any{"2", nil, strings.Repeat("y", 300)})
	add(0, binlog.Update, true, []any{"1", nil}, []any{"1", "é"})
	add(2, binlog.Delete, false, []any{"2", nil, "z"})
	add(0, binlog.Delete, false, []any{"1", "é"})
	return b
}

// columnsOf returns the numbers of columns of a batch's tables.
func columnsOf(b *binlog.ChangeBatch) (columns []int) {
	for i := range b.Tables {
		columns = append(columns, b.Tables[i].Columns)
	}
	return columns
}

// across packs a batch and opens it again, reusing memory.
func across(p *changePacker, from, to *binlog.ChangeBatch) error {
	m, err := p.pack(from)
	if err != nil {
		return err
	}
	room := roomOf(to)
	room.reset(p.keep)
	r := &room.message
	r.Upto, r.Skip, r.Boundary, r.Idle, r.Commit, r.Unpacked = m.Upto, m.Skip, m.Boundary, m.Idle, m.Commit, m.Unpacked
	r.Layout, r.Rows = append(r.Layout, m.Layout...), append(r.Rows, m.Rows...)
	p.shrink()
	return nil
}

// equalChanges returns the difference of two batches.
func equalChanges(got, want *binlog.ChangeBatch) error {
	switch {
	case len(got.Changes) != len(want.Changes), len(got.Tables) != len(want.Tables):
		return fmt.Errorf("%d changes of %d tables, want %d of %d", len(got.Changes), len(got.Tables), len(want.Changes), len(want.Tables))
	case got.Skip != want.Skip, got.Boundary != want.Boundary, got.Idle != want.Idle, !got.Commit.Equal(want.Commit):
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	for i := range want.Changes {
		if got.Changes[i] != want.Changes[i] {
			return fmt.Errorf("change %d: %+v, want %+v", i, got.Changes[i], want.Changes[i])
		}
	}
	for i := range want.Tables {
		g, w := &got.Tables[i], &want.Tables[i]
		if g.Columns != w.Columns || g.Rows != w.Rows || !bytes.Equal(g.Bytes, w.Bytes) {
			return fmt.Errorf("table %d: %+v, want %+v", i, g, w)
		}
	}
	return nil
}

// TestChangesForm checks the bytes of a layout, which other versions read and write.
func TestChangesForm(t *testing.T) {
	m := must(new(changePacker).pack(sampleChanges()))
	want := "10 00 bc 02" + // bytes of the three tables' rows: 16, 0, 316
		" 01" + // table 0: insert
		" 12" + // table 2: update
		" 06" + // table 0: update, the last of its transaction
		" 13" + // table 2: delete
		" 03" // table 0: delete
	if got := fmt.Sprintf("% x", m.Layout); got != want {
		t.Errorf("layout %s, want %s", got, want)
	}
	b := sampleChanges()
	if rows := append(b.Tables[0].Bytes, b.Tables[2].Bytes...); !bytes.Equal(m.Rows, rows) || m.Upto != "binlog.000007 4711 gtid=0-1-5" || m.Commit != 1_700_000_000 {
		t.Errorf("up to %q of %d: % x, want % x", m.Upto, m.Commit, m.Rows, rows)
	}
}

func TestChangesAcross(t *testing.T) {
	unpacker := must(newUnpacker(1 << 20))
	for _, p := range []*changePacker{{keep: 1 << 20}, {keep: 1 << 20, zstd: must(newPacker())}} {
		var got binlog.ChangeBatch
		one := sampleChanges()
		one.Tables[2].Reset(3)
		one.Changes = append(one.Changes[:1:1], one.Changes[2], one.Changes[4])
		empty := &binlog.ChangeBatch{Idle: true, Boundary: true, Tables: []rowstream.Batch{{Columns: 2}, {Columns: 1}, {Columns: 3}}}
		for i, want := range []*binlog.ChangeBatch{sampleChanges(), one, empty, sampleChanges()} {
			if err := across(p, want, &got); err != nil {
				t.Fatal(err)
			}
			if err := roomOf(&got).open(&got, columnsOf(want), unpacker, 1<<20); err != nil {
				t.Errorf("batch %d: %v", i, err)
			}
			if err := equalChanges(&got, want); err != nil {
				t.Errorf("batch %d: %v", i, err)
			}
		}
	}
	big := sampleChanges()
	p := &changePacker{keep: 100}
	for range 2 {
		if _, err := p.pack(big); err != nil {
			t.Fatal(err)
		}
		p.shrink()
		if cap(p.rows) > p.keep || p.message.Rows != nil {
			t.Errorf("%d bytes of room are kept", cap(p.rows))
		}
	}
}

// TestChangesWrong checks batches that cannot be packed, and invalid messages.
func TestChangesWrong(t *testing.T) {
	for name, change := range map[string]func(b *binlog.ChangeBatch){
		"no kind":      func(b *binlog.ChangeBatch) { b.Changes[0].Kind = 0 },
		"another kind": func(b *binlog.ChangeBatch) { b.Changes[0].Kind = 4 },
		"no table":     func(b *binlog.ChangeBatch) { b.Changes[0].Table = 3 },
		"turned": func(b *binlog.ChangeBatch) {
			b.Changes[2].Before, b.Changes[2].After = b.Changes[2].After, b.Changes[2].Before
		},
		"left out":   func(b *binlog.ChangeBatch) { b.Changes = b.Changes[1:] },
		"at the end": func(b *binlog.ChangeBatch) { b.Changes = b.Changes[:4] },
		"too many":   func(b *binlog.ChangeBatch) { b.Changes[0].Before = 0 },
		"not there":  func(b *binlog.ChangeBatch) { b.Changes[4].Before = -1 },
	} {
		b := sampleChanges()
		change(b)
		if _, err := new(changePacker).pack(b); !errors.Is(err, errImageOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := must((&changePacker{}).pack(sampleChanges()))
	for name, change := range map[string]func(m *rowpb.Changes){
		"no layout":           func(m *rowpb.Changes) { m.Layout = nil },
		"cut within a number": func(m *rowpb.Changes) { m.Layout = append(m.Layout, 0x80) },
		"a number too long":   func(m *rowpb.Changes) { m.Layout = append(m.Layout, bytes.Repeat([]byte{0xff}, 11)...) },
		"no table":            func(m *rowpb.Changes) { m.Layout = append(m.Layout, 3<<layoutTable|byte(binlog.Insert)) },
		"no kind":             func(m *rowpb.Changes) { m.Layout = append(m.Layout, 0) },
		"a change too many":   func(m *rowpb.Changes) { m.Layout = append(m.Layout, byte(binlog.Insert)) },
		"a change too few":    func(m *rowpb.Changes) { m.Layout = m.Layout[:len(m.Layout)-1] },
		"another kind":        func(m *rowpb.Changes) { m.Layout[len(m.Layout)-1] = byte(binlog.Update) },
		"rows too few":        func(m *rowpb.Changes) { m.Rows = m.Rows[:len(m.Rows)-1] },
		"rows too many":       func(m *rowpb.Changes) { m.Rows = append(m.Rows, 0) },
		"a value too long":    func(m *rowpb.Changes) { m.Rows[0] = 0xfa },
		"packed":              func(m *rowpb.Changes) { m.Unpacked = 9 },
		"too large":           func(m *rowpb.Changes) { m.Unpacked = 1 << 30 },
	} {
		b := new(binlog.ChangeBatch)
		r := &roomOf(b).message
		r.Layout, r.Rows = bytes.Clone(m.Layout), bytes.Clone(m.Rows)
		change(r)
		if err := roomOf(b).open(b, []int{2, 1, 3}, must(newUnpacker(1<<20)), 1<<20); err == nil {
			t.Errorf("%s: it was taken as %+v", name, b.Changes)
		}
	}
}

func TestChangeAllocs(t *testing.T) {
	columns, unpacker := []int{2, 1, 3}, must(newUnpacker(1<<20))
	few := sampleChanges()
	few.Upto = binlog.Position{} // its text is allocated for each batch
	many := &binlog.ChangeBatch{Tables: []rowstream.Batch{{Columns: 2}, {Columns: 1}, {Columns: 3}}}
	for range 20 {
		for _, c := range few.Changes {
			if c.Before >= 0 {
				c.Before += len(many.Tables[c.Table].Bytes)
			}
			if c.After >= 0 {
				c.After += len(many.Tables[c.Table].Bytes)
			}
			many.Changes = append(many.Changes, c)
		}
		for i := range many.Tables {
			many.Tables[i].Bytes = append(many.Tables[i].Bytes, few.Tables[i].Bytes...)
			many.Tables[i].Rows += few.Tables[i].Rows
		}
	}
	var cases []alloctest.Case
	for name, b := range map[string]*binlog.ChangeBatch{"five changes": few, "a hundred changes": many} {
		for packed, p := range map[string]*changePacker{"": {keep: 1 << 20}, ", packed": {keep: 1 << 20, zstd: must(newPacker())}} {
			var got binlog.ChangeBatch
			cases = append(cases, alloctest.Case{Name: name + packed, Op: func() error {
				if err := across(p, b, &got); err != nil {
					return err
				}
				if err := roomOf(&got).open(&got, columns, unpacker, 1<<20); err != nil {
					return err
				}
				return equalChanges(&got, b)
			}})
		}
	}
	alloctest.Run(t, cases)
}

// FuzzChanges decodes arbitrary messages. An accepted one can be packed again, and is the same.
func FuzzChanges(f *testing.F) {
	for _, p := range []*changePacker{{}, {zstd: must(newPacker())}} {
		m := must(p.pack(sampleChanges()))
		f.Add(m.Layout, m.Rows, m.Unpacked, uint8(2), uint8(3))
	}
	f.Add([]byte{2, 0, 0, 1}, []byte{0, 0}, uint32(0), uint8(2), uint8(1))
	unpacker := must(newUnpacker(1 << 20))
	f.Fuzz(func(t *testing.T, layout, rows []byte, unpacked uint32, first, last uint8) {
		defer alloctest.Bounded(t, 64<<20)()
		columns := []int{int(first), 1, int(last)}
		b := new(binlog.ChangeBatch)
		roomOf(b).message.Layout, roomOf(b).message.Rows, roomOf(b).message.Unpacked = layout, rows, unpacked
		if roomOf(b).open(b, columns, unpacker, 1<<20) != nil {
			return
		}
		if cap(roomOf(b).unpacked) > 1<<20+1<<16 {
			t.Errorf("%d bytes of room", cap(roomOf(b).unpacked))
		}
		testrows.ChangesOf(t, b) // every image is a complete row
		var p changePacker
		var again binlog.ChangeBatch
		if err := across(&p, b, &again); err != nil {
			t.Fatal(err)
		}
		if err := roomOf(&again).open(&again, columns, unpacker, 1<<20); err != nil {
			t.Fatal(err)
		}
		if err := equalChanges(&again, b); err != nil {
			t.Error(err)
		}
	})
}
