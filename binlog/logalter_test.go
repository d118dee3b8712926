package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/mysqlwire"
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

// TestFollowTwoPhases follows a server that logs ALTER TABLE in two phases.
func TestFollowTwoPhases(t *testing.T) {
	_, d, c, tables := followServer(t, "--binlog-alter-two-phase=ON")
	from := now(t, d, true)
	exec(t, c, "INSERT INTO a VALUES (1, 5, 'one'), (2, 5, 'two')")
	if _, err := c.Exec(t.Context(), "ALTER TABLE a ADD UNIQUE (n)"); err == nil {
		t.Fatal("the ALTER was not rolled back")
	}
	exec(t, c, "INSERT INTO a VALUES (3, 5, 'three')", "SET STATEMENT lock_wait_timeout = 9 FOR ALTER TABLE a ADD x INT, ALGORITHM=COPY", "INSERT INTO a VALUES (4, 5, 'four', 1)")
	got, stop := untilStop(t, d, FollowOptions{From: from, Tables: tables, Layouts: [][]int{{0, 1, 2}}})
	want := []string{`0 insert -> ["1" "5" "one"]`, `0 insert -> ["2" "5" "two"].`, `0 insert -> ["3" "5" "three"].`}
	if diff := cmp.Diff(want, got); diff != "" || stop.Reason != StopSchema {
		t.Errorf("%v\n%s", stop, diff)
	}
	changes, err := d.SchemaChanges(t.Context(), tables, from, now(t, d, true))
	if err != nil || len(changes) != 1 || !changes[0].Rows || changes[0].At != stop.At {
		t.Errorf("%+v, %v; want one change at %s", changes, err, stop.At)
	}
}
