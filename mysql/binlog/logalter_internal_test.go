package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestAlterPhases reads an ALTER TABLE that is logged in two phases: the definition changes at the commit, if
// there is one.
func TestAlterPhases(t *testing.T) {
	types := []mysqlwire.ColumnType{mysqlwire.TypeLong}
	for _, tt := range []struct {
		name string
		end  byte
		skip int // bytes before the flags
		want string
	}{
		{"committed", mariaAlterCommitted, 0, "1 rows, then ALTER TABLE t ADD x INT"},
		{"committed in a group commit", mariaAlterCommitted, 8, "1 rows, then ALTER TABLE t ADD x INT"},
		{"rolled back", mariaAlterRolledBack, 0, "2 rows, then nothing"},
		{"both", mariaAlterCommitted | mariaAlterRolledBack, 0, "1 rows, then an error"},
		{"unknown", 0x40, 0, "1 rows, then an error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, b := newLogReader(described(intColumn), "0-1-8")
			log := &logBuilder{offset: logStart}
			gtid := func(sequence, flags, extra byte, start uint64) []byte {
				body := []byte{sequence, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags}
				if flags&mariaGroupCommit != 0 {
					body = append(body, make([]byte, 8)...)
				}
				body = append(body, extra)
				if start != 0 {
					body = binary.LittleEndian.AppendUint64(body, start)
				}
				return log.event(eventMariaGTID, append(body, make([]byte, max(0, 19-len(body)))...))
			}
			row := func(sequence byte) [][]byte {
				return [][]byte{
					gtid(sequence, 8, 0, 0), log.event(eventTableMap, tableMapBody(5, "t", types, nil)),
					log.event(eventWriteRows, rowsBody(5, Insert, 1, []byte{0, sequence, 0, 0, 0})), log.event(eventXID, make([]byte, 8)),
				}
			}
			sql := func() []byte { return log.event(eventQuery, queryBody("f", "ALTER TABLE t ADD x INT")) }
			flags := byte(1)
			if tt.skip > 0 {
				flags |= mariaGroupCommit
			}
			feed(t, r, log.event(eventFormat, formatBody(false)), gtid(9, flags, mariaAlterStarts, 0), sql())
			feed(t, r, row(10)...)
			var err error
			for _, e := range append([][]byte{gtid(11, flags, tt.end, 9), sql()}, row(12)...) {
				if _, err = r.read(e); err != nil {
					break
				}
			}
			then := "nothing"
			if stop := new(StopError); errors.As(err, &stop) && stop.Reason == StopSchema {
				then = stop.SQL
			} else if err != nil {
				then = "an error"
			}
			if got := fmt.Sprintf("%d rows, then %s", len(b.Changes), then); got != tt.want {
				t.Errorf("%s (%v), want %s", got, err, tt.want)
			}
		})
	}
}
