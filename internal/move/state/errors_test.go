package state

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestErrorKinds classifies errors of servers and connections, alone and wrapped, and has the advice that is added to them.
func TestErrorKinds(t *testing.T) {
	refused := func(n int) error {
		return &mysqlconn.ServerError{Number: mysqlwire.Errno(n), State: "HY000", Message: "text"}
	}
	for _, tt := range []struct {
		err                               error
		unreachable, transient, locks, is bool // is: a duplicate
		advice                            string
	}{
		{errors.New("other"), false, true, false, false, ""},
		{io.EOF, true, true, false, false, "start the server"},
		{io.ErrUnexpectedEOF, true, true, false, false, "start the server"},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true, true, false, false, "start the server"},
		{mysqlconn.ErrBroken, true, true, false, false, "start the server"},
		{refused(1040), true, true, false, false, "start the server"}, // too many connections
		{refused(1213), true, true, false, false, "start the server"}, // a deadlock
		{refused(1205), true, true, true, false, "start the server"},  // a lock wait
		{refused(1053), true, true, false, false, "start the server"}, // shutdown
		{refused(1317), true, true, false, false, "start the server"}, // interrupted
		{refused(1927), true, true, false, false, "start the server"}, // killed
		{refused(1062), false, false, false, true, ""},
		{refused(1146), false, false, false, false, ""},
		{refused(1142), false, false, false, false, "grant the target's account"},
		{refused(1044), false, false, false, false, "grant the target's account"},
		{refused(3), false, false, false, false, "free disk space"},
		{refused(1021), false, false, false, false, "free disk space"},
		{refused(1114), false, false, false, false, "free disk space"},
		{refused(1665), false, false, false, false, "binlog_format"},
		{refused(3185), false, false, false, false, "keyring"},
	} {
		for _, err := range []error{tt.err, fmt.Errorf("copy: %w", tt.err)} {
			if IsUnreachable(err) != tt.unreachable || IsTransient(err) != tt.transient || IsLockWait(err) != tt.locks || isDuplicate(err) != tt.is {
				t.Errorf("%v: unreachable %v, transient %v, lock wait %v, duplicate %v", err, IsUnreachable(err), IsTransient(err), IsLockWait(err), isDuplicate(err))
			}
			advised := WithAdvice(err)
			if !errors.Is(advised, tt.err) || tt.advice == "" && advised.Error() != err.Error() || !strings.Contains(advised.Error(), tt.advice) {
				t.Errorf("%v: %v, want %q", err, advised, tt.advice)
			}
		}
	}
}

// TestInsertMalformed has batches whose rows cannot be read: none is inserted, in whichever way rows are.
func TestInsertMalformed(t *testing.T) {
	f := newFaults(t)
	for _, tt := range []struct {
		name string
		do   func(*ChunkWriter, *rowstream.Batch) error
	}{
		{"insert", func(c *ChunkWriter, b *rowstream.Batch) error { return c.insert(t.Context(), b) }},
		{"insertWide", func(c *ChunkWriter, b *rowstream.Batch) error { return c.insertWide(t.Context(), b) }},
		{"writeCarefully", func(c *ChunkWriter, b *rowstream.Batch) error { return c.writeCarefully(t.Context(), b) }},
	} {
		w := f.writer(f.direct)
		defer w.Close()
		f.must(w.Connect(t.Context()))
		table := f.merged
		if tt.name != "writeCarefully" {
			table = f.a
		}
		c, err := w.Begin(t.Context(), &table.Target)
		f.must(err)
		c.head = "INSERT INTO " + table.Target.Spec.TargetSQL() + " VALUES "
		row := []any{"31", "32", "33"}
		b := testrows.BatchOf(testrows.Row(row[:len(table.Target.Columns)]...))
		b.Bytes = b.Bytes[:len(b.Bytes)-1]
		if err := tt.do(c, b); err == nil || !strings.Contains(err.Error(), "ends within the value") {
			t.Errorf("%s of a batch without its last byte: %v", tt.name, err)
		}
	}
}
