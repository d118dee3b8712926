package rows

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	rowsOfResponse = 10_000
	columns        = 4
	statement      = "SELECT id, k, c, pad FROM sbtest1 ORDER BY id"
)

const caps = mysqlwire.CapLongPassword | mysqlwire.CapLongFlag | mysqlwire.CapProtocol41 | mysqlwire.CapTransactions |
	mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth | mysqlwire.CapPluginAuthLenenc | mysqlwire.CapDeprecateEOF

// Packets of the server, encoded once.
var (
	greeting = (&mysqlwire.Handshake{
		ProtocolVersion: 10, ServerVersion: []byte("8.0.36"), ConnectionID: 7, AuthData: []byte("01234567890123456789"),
		Capabilities: caps, AuthPlugin: []byte(mysqlconn.PluginNative),
	}).AppendTo(nil)
	loggedIn = (&mysqlwire.OK{Status: mysqlwire.StatusAutocommit}).AppendTo(nil, caps)
	response = makeResponse()
)

// row returns a row of sysbench's oltp tables.
func row(id int) mysqlwire.TextRow {
	c := bytes.Repeat(fmt.Appendf(nil, "%011d-", id*7919), 10)[:119]
	pad := bytes.Repeat(fmt.Appendf(nil, "%011d-", id*104729), 5)[:59]
	return mysqlwire.TextRow{fmt.Append(nil, id), fmt.Append(nil, id*7919%rowsOfResponse), c, pad}
}

// makeResponse returns the whole response to the statement, encoded.
func makeResponse() []byte {
	b, seq := mysqlwire.AppendPacket(nil, mysqlwire.ResultHeader{Columns: columns}.AppendTo(nil, caps), 1)
	for _, c := range []struct {
		name    string
		kind    mysqlwire.ColumnType
		length  uint32
		charset uint16
	}{
		{"id", mysqlwire.TypeLong, 11, 63},
		{"k", mysqlwire.TypeLong, 11, 63},
		{"c", mysqlwire.TypeString, 480, mysqlconn.DefaultCharset},
		{"pad", mysqlwire.TypeString, 240, mysqlconn.DefaultCharset},
	} {
		var definition []byte
		for _, name := range []string{"def", "sbtest", "sbtest1", "sbtest1", c.name, c.name} {
			definition = mysqlwire.AppendLenencString(definition, []byte(name))
		}
		definition = binary.LittleEndian.AppendUint16(append(definition, 12), c.charset)
		definition = binary.LittleEndian.AppendUint32(definition, c.length)
		b, seq = mysqlwire.AppendPacket(b, append(definition, byte(c.kind), 0, 0, 0, 0, 0), seq)
	}
	for id := range rowsOfResponse {
		b, seq = mysqlwire.AppendPacket(b, row(id).AppendTo(nil), seq)
	}
	end := (&mysqlwire.OK{Header: mysqlwire.MarkEOF, Status: mysqlwire.StatusAutocommit}).AppendTo(nil, caps)
	b, _ = mysqlwire.AppendPacket(b, end, seq)
	return b
}

// A memory is the client's end of a connection whose server responds to each packet immediately: to the login
// with an OK, to all others with the response.
type memory struct {
	rest []byte // bytes not read yet
	in   bool   // logged in
}

// newMemory returns a connection at the greeting, or after the login.
func newMemory(in bool) *memory {
	m := &memory{in: in}
	if !in {
		m.rest, _ = mysqlwire.AppendPacket(nil, greeting, 0)
	}
	return m
}

func (m *memory) Read(b []byte) (int, error) {
	if len(m.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

func (m *memory) Write(b []byte) (int, error) {
	m.rest = response
	if !m.in {
		m.rest, _ = mysqlwire.AppendPacket(nil, loggedIn, 2)
		m.in = true
	}
	return len(b), nil
}

func (*memory) Close() error                     { return nil }
func (*memory) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*memory) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*memory) SetDeadline(time.Time) error      { return nil }
func (*memory) SetReadDeadline(time.Time) error  { return nil }
func (*memory) SetWriteDeadline(time.Time) error { return nil }

// listen serves the same over loopback sockets until the end of the test.
func listen(tb testing.TB) *net.TCPAddr {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go serve(nc)
		}
	}()
	return l.Addr().(*net.TCPAddr)
}

// serve returns when the client disconnects.
func serve(nc net.Conn) {
	defer nc.Close()
	c := mysqlconn.New(nc)
	if c.WriteMessage(greeting) != nil {
		return
	}
	if _, err := c.ReadMessage(1 << 16); err != nil || c.WriteMessage(loggedIn) != nil {
		return
	}
	for {
		c.Seq = 0
		command, err := c.ReadMessage(1 << 16)
		if err != nil || len(command) == 0 || command[0] != byte(mysqlwire.ComQuery) {
			return
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}
