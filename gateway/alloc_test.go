package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

var (
	textResult     = testscript.Packets(1, []byte{1}, testscript.Column, []byte("\x05hello"), []byte("\x05world"), testscript.End)
	binaryResult   = testscript.Packets(1, []byte{1}, testscript.Column, []byte("\x00\x00\x05hello"), testscript.End)
	prepareResult  = testscript.Packets(1, []byte{0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}, testscript.Column, testscript.Column)
	errorResult    = testscript.Packets(1, mysqlwire.NewErr(1146, []byte("Table 'shop.nope' doesn't exist")).AppendTo(nil))
	fetchResult    = testscript.Packets(1, []byte("\x00\x00\x05hello"), testscript.End)
	pointSelect    = testscript.Packets(0, append([]byte{byte(mysqlwire.ComQuery)}, "SELECT c FROM sbtest1 WHERE id=50123"...))
	errorStatement = testscript.Packets(0, append([]byte{byte(mysqlwire.ComQuery)}, "SELECT * FROM shop.nope WHERE id IN (1,2,3)"...))
	executeOne     = testscript.Packets(0, []byte{byte(mysqlwire.ComStmtExecute), 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 0, 42, 0, 0, 0})
	fetchOne       = testscript.Packets(0, []byte{byte(mysqlwire.ComStmtFetch), 1, 0, 0, 0, 10, 0, 0, 0})
	aPing          = testscript.Packets(0, []byte{byte(mysqlwire.ComPing)})
)

// cannedBackend selects its response by the command's first byte, without allocating.
func cannedBackend(_ int, c *mysqlconn.Conn) {
	if !testscript.Login(c) {
		return
	}
	for {
		if c.Need(5) != nil {
			return
		}
		h := mysqlwire.ParseHeader(c.Buffered())
		if c.Need(mysqlwire.HeaderLen+h.Len) != nil {
			return
		}
		b := c.Buffered()[:mysqlwire.HeaderLen+h.Len]
		reply := testscript.OKPacket
		switch mysqlwire.Command(b[4]) {
		case mysqlwire.ComQuery:
			if string(b[5:]) == testscript.ModesQuery {
				reply = testscript.ModesResult
			} else if reply = textResult; b[12] == '*' {
				reply = errorResult
			}
		case mysqlwire.ComStmtPrepare:
			reply = prepareResult
		case mysqlwire.ComStmtExecute:
			reply = binaryResult
		case mysqlwire.ComStmtFetch:
			reply = fetchResult
		case mysqlwire.ComQuit:
			return
		}
		c.Discard(len(b))
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// observed counts the records it observes.
type observed struct{ records atomic.Uint64 }

func (o *observed) Observe(*querylog.Record) { o.records.Add(1) }

// TestAllocs is the package's allocation table: the cost of a command in the gateway, from the client's bytes
// to the record in the log's file.
func TestAllocs(t *testing.T) {
	log, err := querylog.New(querylog.Options{
		Sinks: []querylog.SinkOptions{{Path: filepath.Join(t.TempDir(), "query.log")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, log.Close(context.Background())) }()
	var seen observed
	g := startGateway(t, testscript.Start(t, cannedBackend), func(o *gateway.Options) { o.Log, o.Observers = log, []gateway.Observer{&seen} })
	c := testscript.MustConnect(t, g.addr).Conn
	prepare := testscript.Packets(0, append([]byte{byte(mysqlwire.ComStmtPrepare)}, "SELECT c FROM sbtest1 WHERE id=?"...))
	if err := testscript.RoundTrip(c, prepare, prepareResult); err != nil {
		t.Fatal(err)
	}
	before := log.Stats().Seq
	var cases []alloctest.Case
	for _, k := range []struct {
		name          string
		command, want []byte
	}{
		{"text", pointSelect, textResult},
		{"prepared", executeOne, binaryResult},
		{"fetch", fetchOne, fetchResult},
		{"error", errorStatement, errorResult},
		{"ping", aPing, testscript.OKPacket},
	} {
		cases = append(cases, alloctest.Case{Name: k.name, Op: func() error { return testscript.RoundTrip(c, k.command, k.want) }})
	}
	alloctest.Run(t, cases)
	must(t, g.planner.SetRules([]sqlplan.Rule{
		{Name: "dry", Action: sqlplan.ActionBlock, Types: []sqlplan.Type{sqlplan.TypeSelect}, DryRun: true},
		{Name: "all", Action: sqlplan.ActionAllow, Types: []sqlplan.Type{sqlplan.TypeSelect}},
	}))
	alloctest.Run(t, []alloctest.Case{{Name: "text, a dry run's hit", Op: func() error { return testscript.RoundTrip(c, pointSelect, textResult) }}})
	if hits := g.planner.RuleHits(); hits[0].Count < 2000 || hits[1].Count != 0 {
		t.Errorf("rule hits are %v", hits)
	}
	// The record of a command follows its response.
	testwait.UntilState(t, "a record of each command of the table to be logged and observed", func() (string, bool) {
		logged, observed := log.Stats().Seq-before, seen.records.Load()
		return fmt.Sprintf("%d logged, %d observed", logged, observed), logged >= 5*2000 && observed >= 5*2000
	})
}

// TestAllocsTLS measures the same with TLS on both connections, where crypto/tls allocates at most one small
// object for each record it reads. The gateway, the client and the backend each read records here: three in a
// round trip, and one more for the gateway's second connection.
func TestAllocsTLS(t *testing.T) {
	cert, err := mysqlconn.SelfSignedCertificate()
	if err != nil {
		t.Fatal(err)
	}
	backend := testscript.Start(t, func(n int, c *mysqlconn.Conn) { cannedTLS(c, cert) })
	g := startGateway(t, backend, func(o *gateway.Options) { o.Observers = nil })
	nc, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := tlsClient(mysqlconn.New(nc))
	if err != nil {
		t.Fatal(err)
	}
	const recordsRead = 4 // client, gateway twice, backend
	alloctest.Run(t, []alloctest.Case{{
		Name: "text", PerThousand: recordsRead * 1000,
		Op: func() error { return testscript.RoundTrip(c, pointSelect, textResult) },
	}})
}

func cannedTLS(c *mysqlconn.Conn, cert tls.Certificate) {
	h := mysqlwire.Handshake{
		ProtocolVersion: 10, ServerVersion: []byte("8.4.0-script"), ConnectionID: 7,
		AuthData: []byte("12345678901234567890"), Capabilities: testscript.Capabilities | mysqlwire.CapSSL, Charset: 45,
		Status: mysqlwire.StatusAutocommit, AuthPlugin: []byte("mysql_native_password"),
	}
	if c.WriteMessage(h.AppendTo(nil)) != nil {
		return
	}
	if _, err := c.ReadExactly(1 << 16); err != nil {
		return
	}
	conn := tls.Server(c.NetConn(), &tls.Config{Certificates: []tls.Certificate{cert}})
	if conn.Handshake() != nil {
		return
	}
	c.Upgrade(conn)
	if _, err := c.ReadMessage(1 << 16); err != nil || c.WriteMessage(testscript.OK()) != nil {
		return
	}
	c.Seq = 0
	if _, err := c.ReadMessage(1 << 16); err != nil { // modesQuery
		return
	}
	if _, err := c.Write(testscript.ModesResult); err != nil {
		return
	}
	for c.Need(len(pointSelect)) == nil {
		c.Discard(len(c.Buffered()))
		if _, err := c.Write(textResult); err != nil {
			return
		}
	}
}

func tlsClient(c *mysqlconn.Conn) (*mysqlconn.Conn, error) {
	if _, err := c.ReadMessage(1 << 16); err != nil {
		return nil, err
	}
	caps := testscript.Capabilities&^mysqlwire.CapConnectWithDB | mysqlwire.CapSSL
	r := mysqlwire.SSLRequest{Capabilities: caps, MaxPacket: 1 << 24, Charset: 45}
	if err := c.WriteMessage(r.AppendTo(nil)); err != nil {
		return nil, err
	}
	conn := tls.Client(c.NetConn(), &tls.Config{InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	c.Upgrade(conn)
	a := mysqlwire.HandshakeResponse{Capabilities: caps, MaxPacket: 1 << 24, Charset: 45, User: []byte("app"), AuthPlugin: []byte("mysql_native_password")}
	if err := c.WriteMessage(a.AppendTo(nil)); err != nil {
		return nil, err
	}
	_, err := c.ReadMessage(1 << 16)
	return c, err
}
