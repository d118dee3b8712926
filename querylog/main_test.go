package querylog_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(killedEnv); path != "" {
		logUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

// sample returns a record with most of its fields filled.
func sample() *querylog.Record {
	return &querylog.Record{
		Start:         time.Date(2026, 3, 4, 5, 6, 7, 8009, time.UTC),
		Total:         1234567,
		Plan:          800,
		Upstream:      1100000,
		FirstByte:     900000,
		ConnectionID:  42,
		Client:        netip.MustParseAddrPort("192.0.2.7:50123"),
		User:          "app",
		Schema:        "shop",
		Backend:       "db1:3306",
		Command:       mysqlwire.ComQuery,
		StatementType: "select",
		Digest:        [16]byte{0x12, 0x34, 15: 0xff},
		Normalized:    []byte("select `id`, `name` from `orders` where `user_id` = ? and `state` in (?)"),
		Text:          []byte("SELECT id, name FROM orders WHERE user_id = 77 AND state IN ('new', 'paid')"),
		RowsReturned:  3,
		BytesIn:       75,
		BytesOut:      312,
		PlanCached:    true,
	}
}

// prepared returns a sample with three bind variables.
func prepared() *querylog.Record {
	r := sample()
	r.Command = mysqlwire.ComStmtExecute
	r.StatementID = 7
	r.Binds = []mysqlwire.BinaryValue{
		bind(mysqlwire.TypeLongLong, "\x4d\x00\x00\x00\x00\x00\x00\x00"),
		bind(mysqlwire.TypeVarString, `new "and" paid`),
		bind(mysqlwire.TypeDatetime, "\xea\x07\x03\x04\x05\x06\x07"),
	}
	return r
}

func bind(t mysqlwire.ColumnType, data string) mysqlwire.BinaryValue {
	return mysqlwire.BinaryValue{Data: []byte(data), ValueType: mysqlwire.ValueType{Type: t}}
}

// failed returns a sample that ended in an error.
func failed() *querylog.Record {
	r := prepared()
	r.RowsReturned = 0
	r.ErrorNumber, r.SQLState = 1062, "23000"
	r.ErrorText = []byte("Duplicate entry 'O'Brien-77' for key 'orders.customer'")
	return r
}

// shaped returns a sample with an error whose template is only in its server's list.
func shaped() *querylog.Record {
	r := failed()
	r.Server, r.ErrorNumber, r.SQLState = sqldigest.ServerMySQL, 3140, "22032"
	r.ErrorText = []byte("Invalid JSON text: \"Invalid value.\" at position 12 in value for column 'orders.note'.")
	return r
}

// everything returns a sample with all fields filled.
func everything() *querylog.Record {
	r := failed()
	r.BindNames = [][]byte{nil, nil, []byte("trace")}
	r.Client = netip.MustParseAddrPort("[2001:db8::7%eth0]:50123")
	r.TextBytes, r.NormalizedCut = 900, true
	r.RowsReturned, r.RowsAffected, r.Warnings, r.Results = 3, 4, 5, 2
	r.TransactionID = 99
	r.StatementName, r.StatementID, r.PlanCached = []byte("by_user"), 7, true
	r.Rule, r.RuleAction = "no drops", "dry-run"
	r.Tags = []querylog.Tag{{[]byte("route"), []byte("/orders")}, {[]byte("app"), []byte("shop")}}
	r.PinnedReason = "temporary table"
	return r
}

// line returns r in a format.
func line(r *querylog.Record, f querylog.Format, red querylog.Redaction) []byte {
	l := querylog.Line{Format: f, Redaction: red, OriginalText: true, MaxBind: 256, MaxText: (1 << 20)}
	l.Begin(nil, r.Kind())
	r.AppendFields(&l)
	return l.End()
}

// mustNew returns a logger that is closed when the test ends.
func mustNew(t testing.TB, o querylog.Options) *querylog.Logger {
	t.Helper()
	l, err := querylog.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, l) })
	return l
}

func mustClose(t testing.TB, l *querylog.Logger) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// sinkStats returns the counters of the named sink.
func sinkStats(t testing.TB, l *querylog.Logger, name string) querylog.SinkStats {
	t.Helper()
	for _, s := range l.Stats().Sinks {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no sink %q", name)
	return querylog.SinkStats{}
}

// A tap is a writer whose state a test sets: open, stuck or full.
type tap struct {
	mu    sync.Mutex
	got   []byte
	room  int // bytes until it is full; negative: unlimited
	stuck chan struct{}
}

func newTap() *tap { return &tap{room: -1} }

var errFull = fmt.Errorf("no space left on tap")

func (w *tap) Write(p []byte) (int, error) {
	w.mu.Lock()
	stuck := w.stuck
	w.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if w.room >= 0 {
		n = min(n, w.room)
		w.room -= n
	}
	w.got = append(w.got, p[:n]...)
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// stick blocks writes; release unblocks them.
func (w *tap) stick() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := make(chan struct{})
	w.stuck = ch
	return func() {
		w.mu.Lock()
		w.stuck = nil
		w.mu.Unlock()
		close(ch)
	}
}

func (w *tap) setRoom(n int) {
	w.mu.Lock()
	w.room = n
	w.mu.Unlock()
}

func (w *tap) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]byte(nil), w.got...)
}
