package gateway_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestIdleTimeoutEndsWhatWaits has clients fall silent in an open transaction and within commands: each
// receives the reason, and the transaction is rolled back.
func TestIdleTimeoutEndsWhatWaits(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.IdleTimeout = 5 * time.Second }) // the clients have to be faster than this
	long := mysqlwire.Header{Len: 4 << 20}.AppendTo(nil)
	t.Cleanup(func() { testwait.Equal(t, "all sessions to end", 0, g.Sessions) })
	for _, c := range []struct {
		name  string
		bytes []byte
		text  string
	}{
		{"in a transaction", testscript.Packets(0, append([]byte{byte(mysqlwire.ComQuery)}, "begin"...)), "no command within an open transaction"},
		{"within a header", []byte{9, 0}, "no command"},
		{"within a command", []byte{9, 0, 0, 0, byte(mysqlwire.ComQuery), 's'}, "the rest of a command did not arrive"},
		{"within a streamed command", append(append(long, byte(mysqlwire.ComQuery)), bytes.Repeat([]byte{'x'}, 1<<20)...), "the rest of a command did not arrive"},
		{"within a pipelined command", append(bytes.Clone(aPing), 9, 0, 0, 0, byte(mysqlwire.ComQuery), 's'), "the rest of a command did not arrive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := raw(t, g, s, 0)
			must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
			_, err := conn.Write(c.bytes)
			must(t, err)
			var got []byte
			for conn.Fill() == nil {
				got = append(got, conn.Buffered()...)
				conn.Discard(len(conn.Buffered()))
			}
			if !bytes.Contains(got, []byte(c.text)) || !bytes.Contains(got, []byte("option idle-timeout")) {
				t.Errorf("got %q, want the reason %q", got, c.text)
			}
		})
	}
}
