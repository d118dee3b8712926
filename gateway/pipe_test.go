package gateway

import (
	"testing"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// TestStreamIsWhole has a backend end its connection right behind the binary log that was asked
// for, as servers do for clients that read up to its end: nothing of it is lost.
func TestStreamIsWhole(t *testing.T) {
	const packets, size = 64, 32 << 10
	payload := make([]byte, size)
	backend := startScript(t, func(_ int, c *mysqlconn.Conn) {
		if !scriptLogin(c) {
			return
		}
		scriptCommand(c)
		for range packets {
			c.AppendMessage(payload)
		}
		_ = c.Flush()
	})
	g := startGateway(t, backend, nil)
	for range 50 {
		c := mustConnect(t, g.addr)
		c.Seq = 0
		if err := c.WriteMessage(mysqlwire.BinlogDump{Offset: 4, File: []byte("log.1")}.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		for i := range packets {
			if p, err := c.ReadMessage(1 << 20); err != nil || len(p) != size {
				t.Fatalf("packet %d of %d: %d bytes, %v", i, packets, len(p), err)
			}
		}
	}
}
