package binlog

import (
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestCutGroup has a log file end within a group.
func TestCutGroup(t *testing.T) {
	list := func(sequence byte) []byte {
		return append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, sequence, 0, 0, 0, 0, 0, 0, 0)
	}
	for _, test := range []struct {
		name   string
		list   []byte // at the start of the next file; nil: none
		handed bool
		want   string
	}{
		{name: "rolled back", list: list(8)},
		{name: "committed", list: list(9), want: "counts it as committed"},
		{name: "unknown", want: "has no end there"},
		{name: "applied in part", list: list(8), handed: true, want: "a part of it was applied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := described(rowstream.Column{Name: "id", Type: "int", FullType: "int(11)"})
			r, b := newLogReader(f, "0-1-8")
			log := &logBuilder{checksum: true, offset: logStart}
			group := func(sequence byte) []byte {
				return log.event(eventMariaGTID, []byte{sequence, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
			}
			types := []mysqlwire.ColumnType{mysqlwire.TypeLong}
			table := log.event(eventTableMap, tableMapBody(5, "t", types, nil))
			row := log.event(eventWriteRows, rowsBody(5, Insert, 1, []byte{0, 7, 0, 0, 0}))
			feed(t, r, log.event(eventFormat, formatBody(true)), group(9), table, row)
			if test.handed {
				r.finishBatch()
				r.startBatch(b, []int{f.columns()}, 1<<20)
			}
			events := [][]byte{log.event(eventRotate, append(make([]byte, 8), "binlog.000002"...)), log.event(eventFormat, formatBody(true))}
			if test.list != nil {
				events = append(events, log.event(eventMariaGTIDList, test.list))
			}
			var err error
			for _, e := range append(events, group(9), table, row, log.event(eventXID, make([]byte, 8))) {
				if _, err = r.read(e); err != nil {
					break
				}
			}
			if stop := new(StopError); test.want != "" && (!errors.As(err, &stop) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if test.want == "" && (err != nil || len(b.Changes) != 1) {
				t.Errorf("%d changes, %v; want the one of the next file", len(b.Changes), err)
			}
		})
	}
}
