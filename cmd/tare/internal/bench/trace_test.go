package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// recordTrace writes records with the real query log, like a gateway with --log-original and --log-redact
// none, and returns the file.
func recordTrace(t *testing.T, records ...*querylog.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "query.log")
	l, err := querylog.New(querylog.Options{
		Sinks:        []querylog.SinkOptions{{Path: path}},
		OriginalText: true, MaxText: 4096, MaxBind: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		l.Log(r)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

func bind(typ mysqlwire.ColumnType, unsigned bool, data []byte) mysqlwire.BinaryValue {
	return mysqlwire.BinaryValue{Data: data, ValueType: mysqlwire.ValueType{Type: typ, Unsigned: unsigned}}
}

// start is the start time of the trace in these tests.
func start() time.Time { return time.Date(2025, 5, 6, 7, 8, 9, 0, time.UTC) }

func query(after time.Duration, conn uint64, text string) *querylog.Record {
	return &querylog.Record{
		Start: start().Add(after), Total: time.Millisecond, ConnectionID: conn, Command: mysqlwire.ComQuery,
		Digest: [16]byte{1}, Normalized: []byte("n"), Text: []byte(text),
	}
}

// sampleTrace returns records of two connections: one with text, one with a prepared statement, and records
// that cannot be replayed.
func sampleTrace() []*querylog.Record {
	prepare := query(20*time.Millisecond, 2, "SELECT ?, ?, ?, ?, ?, ?")
	prepare.Command, prepare.Digest = mysqlwire.ComStmtPrepare, [16]byte{7}
	execute := query(30*time.Millisecond, 2, "")
	execute.Command, execute.Digest, execute.StatementID, execute.Schema = mysqlwire.ComStmtExecute, [16]byte{7}, 1, ""
	execute.Binds = []mysqlwire.BinaryValue{
		bind(mysqlwire.TypeLongLong, false, binary.LittleEndian.AppendUint64(nil, 1<<64-5)),
		bind(mysqlwire.TypeLongLong, true, binary.LittleEndian.AppendUint64(nil, 1<<64-5)),
		bind(mysqlwire.TypeDouble, false, binary.LittleEndian.AppendUint64(nil, 0x3ff8000000000000)),
		bind(mysqlwire.TypeVarString, false, []byte("größe")),
		bind(mysqlwire.TypeBlob, false, []byte{0xff, 0x00, 0xfe}),
		bind(mysqlwire.TypeNull, false, nil),
	}
	cut := query(40*time.Millisecond, 1, "SELECT '"+strings.Repeat("x", 5000)+"'")
	noText := query(50*time.Millisecond, 1, "")
	refused := query(60*time.Millisecond, 1, "SELECT nonsense")
	refused.ErrorNumber = 1054
	ping := query(70*time.Millisecond, 1, "")
	ping.Command = mysqlwire.ComPing
	return []*querylog.Record{
		query(10*time.Millisecond, 1, "SELECT 2"), query(0, 1, "SELECT 1"), // not in order
		prepare, execute, cut, noText, refused, ping,
	}
}

func TestTraceIsReadAsRecorded(t *testing.T) {
	tr, err := readTraceFile(recordTrace(t, sampleTrace()...))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, c := range tr.conns {
		for _, st := range c.statements {
			fmt.Fprintf(&got, "%d %v %q prepared=%t errno=%d", c.id, st.after, st.text, st.prepared, st.errorNumber)
			for _, v := range st.values {
				fmt.Fprintf(&got, " %T(%v)", v, v)
			}
			got.WriteByte('\n')
		}
	}
	want := `1 0s "SELECT 1" prepared=false errno=0
1 10ms "SELECT 2" prepared=false errno=0
1 60ms "SELECT nonsense" prepared=false errno=1054
2 30ms "SELECT ?, ?, ?, ?, ?, ?" prepared=true errno=0 int64(-5) uint64(18446744073709551611) float64(1.5) string(größe) []uint8([255 0 254]) <nil>(<nil>)
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("the trace differs (-want +got):\n%s", diff)
	}
	if want := (skips{notStatements: 2, noText: 1, cut: 1}); tr.skipped != want || tr.total != 4 || tr.length != 60*time.Millisecond {
		t.Errorf("skipped %+v of %d over %v; want %+v of 4 over 60ms", tr.skipped, tr.total, tr.length, want)
	}
}

func TestTraceIsReplayed(t *testing.T) {
	o := shortOLTP(t, "")
	o.Trace, o.Count = recordTrace(t, sampleTrace()...), 2
	for _, speed := range []float64{1, 3, 0} {
		o.Speed = speed
		r, err := OLTP(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.fullName() != "OLTP/trace-2" || len(r.Runs) != 2 {
			t.Errorf("got %s with %d runs, want OLTP/trace-2 with 2", r.fullName(), len(r.Runs))
		}
		for _, run := range r.Runs {
			if run.Operations != 4 {
				t.Errorf("%d statements were replayed, want 4", run.Operations)
			}
			for unit, want := range map[string]float64{"errors": 1, "differing-errors": 0, "skipped": 2} {
				if got, ok := run.value(unit); !ok || got != want {
					t.Errorf("%s is %v, want %v", unit, got, want)
				}
			}
			if least := 0.06 / speed; speed > 0 && run.Seconds < least {
				t.Errorf("at speed %v the replay took %v s, want at least %v", speed, run.Seconds, least)
			}
		}
	}
}

// TestReplayFollowsTheSchema checks that each connection uses the schema in which a statement was recorded.
func TestReplayFollowsTheSchema(t *testing.T) {
	o := shortOLTP(t, "")
	s := connectTest(t, o.DSN)
	if err := s.run(t.Context(), "CREATE DATABASE IF NOT EXISTS `odd``name`"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.run(context.WithoutCancel(t.Context()), "DROP DATABASE `odd``name`"); err != nil {
			t.Error(err)
		}
	})
	if err := s.run(t.Context(), "CREATE TABLE `odd``name`.there (a INT)"); err != nil {
		t.Fatal(err)
	}
	first, second := query(0, 1, "SELECT 1"), query(time.Millisecond, 1, "SELECT * FROM there")
	second.Schema = "odd`name"
	o.Trace = recordTrace(t, first, second)
	r, err := OLTP(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := r.Runs[0].value("errors"); n != 0 {
		t.Errorf("%v statements failed: the connection is in another schema", n)
	}
}

func TestTracesThatCannotBeReplayed(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "q.log")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, path := range map[string]string{
		"no such file":                 filepath.Join(t.TempDir(), "none"),
		"record 1":                     write("kind:statement\ttotal_ns:7\n"),
		"nothing to replay":            write(""),
		"1 are without original text":  write(`{"kind":"statement","command":"Query","normalized":"SELECT ?"}` + "\n"),
		"cannot unmarshal string into": write(`{"kind":"statement","connection_id":"x"}` + "\n"),
	} {
		o := shortOLTP(t, "")
		o.Trace = path
		if _, err := OLTP(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	t.Run("a connection that breaks", func(t *testing.T) {
		o := shortOLTP(t, "")
		o.Trace = recordTrace(t, query(0, 1, "KILL CONNECTION_ID()"), query(0, 1, "SELECT 1"))
		if _, err := OLTP(t.Context(), o); err == nil || !strings.Contains(err.Error(), "replay connection 1") {
			t.Errorf("got %v, want an error that names the connection", err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		o := shortOLTP(t, "")
		o.Trace = recordTrace(t, query(0, 1, "SELECT 1"), query(time.Hour, 1, "SELECT 1"))
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = progressWatch(t, "run 1 of 1", cancel)
		if _, err := OLTP(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

// FuzzReadTrace checks that any file is read or refused.
func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"kind":"statement","start":"2025-05-06T07:08:09Z","connection_id":1,"command":"Query","text":"SELECT 1"}`))
	f.Add([]byte(`{"kind":"statement","start":"2025-05-06T07:08:09Z","command":"Execute","text":"SELECT ?","binds":[{"type":"LONGLONG","value":42},{"name":"a","type":"VAR_STRING","value":"x"}]}`))
	f.Add([]byte(`{"kind":"dropped","records":3}` + "\n" + `{"kind":"statement","command":"Query","text_base64":"/w=="}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := readTrace(bytes.NewReader(b))
		if err != nil {
			return
		}
		n := 0
		for _, c := range tr.conns {
			n += len(c.statements)
			for i, st := range c.statements {
				if st.text == "" || st.after < 0 || i > 0 && st.after < c.statements[i-1].after {
					t.Errorf("statement %d of connection %d: %+v", i, c.id, st)
				}
			}
		}
		if n != tr.total || n == 0 {
			t.Errorf("%d statements in connections, %d in total", n, tr.total)
		}
	})
}
