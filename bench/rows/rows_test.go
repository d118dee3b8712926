package rows

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"vitess.io/vitess/go/mysql"
	"vitess.io/vitess/go/sqltypes"
	binlogdatapb "vitess.io/vitess/go/vt/proto/binlogdata"
	querypb "vitess.io/vitess/go/vt/proto/query"

	plain "github.com/taredb/tare/bench/baseline/rows"
	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// messageBytes is the approximate number of bytes of rows per message.
const messageBytes = 250_000

// A way reads the rows of the response into messages.
type way struct {
	by string

	// open connects: over loopback, or in memory if addr is nil. read then sends one query and passes each
	// message to each; it reuses messages.
	open func(tb testing.TB, addr *net.TCPAddr) (read func(each func(message)) error)
}

// A message is a message for gRPC.
type message interface {
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
}

var ways = []way{
	{"vitess", vitess},
	{"tare", func(tb testing.TB, addr *net.TCPAddr) func(func(message)) error { return tare(tb, addr, nil) }},
	{"tare-filtered", func(tb testing.TB, addr *net.TCPAddr) func(func(message)) error {
		f, err := rowstream.NewFilter(&rowstream.Plan{
			Where:  []rowstream.Condition{{Shard: rowstream.Shard{Index: 1, Count: 1}}},
			Output: []rowstream.Output{{Column: 0}, {Column: 1}, {Column: 2}, {Column: 3}},
		}, columns)
		if err != nil {
			tb.Fatal(err)
		}
		return tare(tb, addr, f)
	}},
	{"plain", plainWay},
}

func vitess(tb testing.TB, addr *net.TCPAddr) func(func(message)) error {
	var c *mysql.Conn
	if addr == nil {
		c = mysql.NewConnForTest(newMemory(true))
		c.Capabilities = mysql.CapabilityClientDeprecateEOF
	} else {
		var err error
		if c, err = mysql.Connect(tb.Context(), &mysql.ConnParams{Host: addr.IP.String(), Port: addr.Port, Uname: "app"}); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(c.Close)
	}
	m := &binlogdatapb.VStreamRowsResponse{}
	values := make([]sqltypes.Value, 0, columns)
	var rows []*querypb.Row // reused, as in the row streamer
	return func(each func(message)) error {
		if err := c.ExecuteStreamFetch(statement); err != nil {
			return err
		}
		n, size := 0, 0
		for {
			row, err := c.FetchNext(values)
			if err != nil {
				return err
			}
			if row == nil {
				break
			}
			if n == len(rows) {
				rows = append(rows, &querypb.Row{})
			}
			size += sqltypes.RowToProto3Inplace(row, rows[n])
			if n++; size >= messageBytes {
				m.Rows = rows[:n]
				each(m)
				n, size = 0, 0
			}
		}
		m.Rows = rows[:n]
		each(m)
		return nil
	}
}

// client logs in with a connection of the main module.
func client(tb testing.TB, addr *net.TCPAddr) *mysqlconn.Client {
	tb.Helper()
	cfg := mysqlconn.Config{Addr: "memory", User: "app", TLSMode: mysqlconn.TLSDisabled, DialFunc: func(context.Context, string, string) (net.Conn, error) { return newMemory(false), nil }}
	if addr != nil {
		cfg.Addr, cfg.DialFunc = addr.String(), nil
	}
	c, err := mysqlconn.Dial(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func tare(tb testing.TB, addr *net.TCPAddr, f *rowstream.Filter) func(func(message)) error {
	c := client(tb, addr)
	ctx := tb.Context()
	var batch rowstream.Batch
	var view mysqlwire.TextRow
	m := &rowpb.Batch{}
	return func(each func(message)) error {
		hand := func() {
			m.Columns, m.Rows, m.Bytes = columns, int64(batch.Rows), batch.Bytes
			each(m)
			batch.Reset(columns)
		}
		rows, err := c.Stream(ctx, statement)
		if err != nil {
			return err
		}
		batch.Reset(columns)
		for {
			payload, err := rows.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if f == nil {
				batch.AppendPayload(payload)
			} else {
				if err := view.Decode(payload, columns); err != nil {
					return err
				}
				if out, ok := f.Apply(view); ok {
					batch.AppendRow(out)
				}
			}
			if len(batch.Bytes) >= messageBytes {
				hand()
			}
		}
		hand()
		return rows.Close()
	}
}

func plainWay(tb testing.TB, addr *net.TCPAddr) func(func(message)) error {
	c := client(tb, addr)
	r := bufio.NewReaderSize(c.NetConn(), 16<<10)
	return func(each func(message)) error {
		c.Seq = 0
		if err := c.WriteMessage(mysqlwire.AppendQuery(nil, []byte(statement), c.Capabilities)); err != nil {
			return err
		}
		packets := plain.NewConn(r, 1)
		for range 1 + columns {
			if _, err := packets.ReadPacket(); err != nil {
				return err
			}
		}
		m, size := &binlogdatapb.VStreamRowsResponse{}, 0
		for {
			data, err := packets.ReadPacket()
			if err != nil {
				return err
			}
			if data[0] == mysqlwire.MarkEOF {
				break
			}
			row, err := plain.ParseRow(data, columns)
			if err != nil {
				return err
			}
			one := plain.ToMessage(row)
			m.Rows = append(m.Rows, one)
			if size += len(one.Values); size >= messageBytes {
				each(m)
				m, size = &binlogdatapb.VStreamRowsResponse{}, 0
			}
		}
		each(m)
		return nil
	}
}

// A wire marshals messages into a reused buffer.
type wire struct {
	tb  testing.TB
	buf []byte
}

func (w *wire) add(m message) {
	size := m.SizeVT()
	if size > cap(w.buf) {
		w.buf = make([]byte, size)
	}
	if n, err := m.MarshalToSizedBufferVT(w.buf[:size]); err != nil || n != size {
		w.tb.Fatalf("%d of %d bytes: %v", n, size, err)
	}
}

func BenchmarkRows(b *testing.B) {
	for _, from := range []string{"memory", "loopback"} {
		for _, to := range []string{"messages", "wire"} {
			for _, way := range ways {
				b.Run(fmt.Sprintf("from=%s/to=%s/by=%s", from, to, way.by), func(b *testing.B) { benchmark(b, way, from, to) })
			}
		}
	}
}

func benchmark(b *testing.B, way way, from, to string) {
	var addr *net.TCPAddr
	if from == "loopback" {
		addr = listen(b)
	}
	w := &wire{tb: b}
	each := func(message) {}
	if to == "wire" {
		each = w.add
	}
	read := way.open(b, addr)
	once := func() {
		if err := read(each); err != nil {
			b.Fatal(err)
		}
	}
	once() // allocates the buffers
	b.SetBytes(int64(len(response)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		once()
	}
	runtime.ReadMemStats(&after)
	per := float64(b.N) * rowsOfResponse
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/per, "ns/row")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/per, "B/row")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/per, "allocs/row")
	b.ReportMetric(0, "ns/op") // that of 10,000 rows
}

// TestWays expects each subject to put every row into its messages, twice over the same connection, so that
// all do the same work.
func TestWays(t *testing.T) {
	for _, from := range []string{"memory", "loopback"} {
		for _, way := range ways {
			t.Run(from+"/"+way.by, func(t *testing.T) {
				var addr *net.TCPAddr
				if from == "loopback" {
					addr = listen(t)
				}
				read := way.open(t, addr)
				for range 2 {
					id := 0
					err := read(func(m message) {
						(&wire{tb: t}).add(m)
						for _, got := range rowsIn(t, m) {
							for i, want := range row(id) {
								if !bytes.Equal(got[i], want) {
									t.Fatalf("row %d, column %d: %q, want %q", id, i, got[i], want)
								}
							}
							id++
						}
					})
					if err != nil || id != rowsOfResponse {
						t.Fatalf("%d rows, %v; want %d", id, err, rowsOfResponse)
					}
				}
			})
		}
	}
}

// rowsIn returns the rows of a message.
func rowsIn(t *testing.T, m message) (rows []mysqlwire.TextRow) {
	t.Helper()
	switch m := m.(type) {
	case *binlogdatapb.VStreamRowsResponse:
		for _, r := range m.Rows {
			values, err := plain.FromMessage(r)
			if err != nil {
				t.Fatal(err)
			}
			var row mysqlwire.TextRow
			for _, v := range values {
				row = append(row, v)
			}
			rows = append(rows, row)
		}
	case *rowpb.Batch:
		batch := rowstream.Batch{Columns: int(m.Columns), Rows: int(m.Rows), Bytes: m.Bytes}
		if err := batch.Check(); err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(batch.Bytes); {
			var row mysqlwire.TextRow
			next, err := batch.Row(at, &row)
			if err != nil {
				t.Fatal(err)
			}
			rows, at = append(rows, row), next
		}
	}
	return rows
}
