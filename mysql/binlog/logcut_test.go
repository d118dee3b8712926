package binlog_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// cutGroup returns the last group of a log file again, with the next GTID, or a part of it.
func cutGroup(t *testing.T, log []byte, part int) (last []byte) {
	t.Helper()
	// The format of a log file of MariaDB.
	const (
		logStart       = 4 // after the magic number
		eventHeaderLen = 19
		eventXID       = 16
		eventMariaGTID = 162
	)
	var group []byte
	for at := logStart; at+eventHeaderLen <= len(log); {
		size := int(binary.LittleEndian.Uint32(log[at+9:]))
		e := append([]byte(nil), log[at:at+size]...)
		at += size
		switch e[4] {
		case eventMariaGTID:
			binary.LittleEndian.PutUint64(e[eventHeaderLen:], binary.LittleEndian.Uint64(e[eventHeaderLen:])+1)
			binary.LittleEndian.PutUint32(e[size-4:], crc32.ChecksumIEEE(e[:size-4]))
			group = nil
		case eventXID:
			last = append(append([]byte(nil), group...), e[:part]...)
		}
		group = append(group, e...)
	}
	if last == nil {
		t.Fatal("the log has no transaction")
	}
	return last
}

// TestCutLog kills a source, appends a truncated transaction to its log, and restarts it: the transaction's
// rows are not returned, those before and after it are.
func TestCutLog(t *testing.T) {
	for name, part := range map[string]int{"between events": 0, "within an event": 11} {
		t.Run(name, func(t *testing.T) {
			s := testmysql.Start(t, testmysql.WithBinlog())
			if err := s.Exec("CREATE DATABASE cut", "CREATE TABLE cut.a (id INT PRIMARY KEY)"); err != nil {
				t.Fatal(err)
			}
			d := testrows.Direct(t, testrows.Root(s))
			table, err := d.Describe(t.Context(), "cut", "a")
			if err != nil {
				t.Fatal(err)
			}
			from := testrows.Now(t, d, true)
			var base string
			if err := d.Query(t.Context(), "SELECT @@log_bin_basename", func(row mysqlwire.TextRow) error {
				base = string(row[0])
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			insert := func(from int) {
				t.Helper()
				for i := range 3 {
					if err := s.Exec(fmt.Sprintf("INSERT INTO cut.a VALUES (%d)", from+i)); err != nil {
						t.Fatal(err)
					}
				}
			}
			insert(1)
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			file := base[:strings.LastIndexByte(base, '/')+1] + from.File
			log, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, append(log, cutGroup(t, log, part)...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			insert(11)
			d = testrows.Direct(t, testrows.Root(s))
			c := testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: []*rowstream.Table{table}})
			var b binlog.ChangeBatch
			var got []string
			for len(got) < 6 {
				if err := c.Next(t.Context(), &b); err != nil {
					t.Fatalf("after %q: %v", got, err)
				}
				for _, change := range b.Changes {
					v, _ := mysqlwire.TextValue(b.Tables[0].Bytes[change.After:])
					got = append(got, string(v))
				}
			}
			if want := "1 2 3 11 12 13"; strings.Join(got, " ") != want || b.Upto.File == from.File {
				t.Errorf("got %q at %s, want %q", got, b.Upto, want)
			}

			// The definitions across the cut: the truncated group has no rows.
			behind := from
			behind.GTID = ""
			cutAt := binlog.Position{File: from.File, Offset: uint64(len(log))}
			if err := s.Exec("DELETE FROM cut.a WHERE id = 11", "ALTER TABLE cut.a ADD COLUMN n INT"); err != nil {
				t.Fatal(err)
			}
			for name, from := range map[string]binlog.Position{"with a GTID": from, "without": behind, "where it is cut": cutAt} {
				found, err := d.SchemaChanges(t.Context(), []*rowstream.Table{table}, from, testrows.Now(t, d, true))
				if err != nil || len(found) != 1 || !found[0].Rows || found[0].Kind != binlog.ChangeColumns {
					t.Errorf("definitions, from a position %s: %+v, %v", name, found, err)
				}
			}
		})
	}
}
