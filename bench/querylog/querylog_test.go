// Package querylog compares implementations of logging the same record: 18 fields and 3 bind variables.
//
//	go test -bench . -count 10 ./querylog | benchstat -col /by -
package querylog

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"vitess.io/vitess/go/logstats"
	querypb "vitess.io/vitess/go/vt/proto/query"

	"github.com/taredb/tare/bench/baseline/querylog"
	"github.com/taredb/tare/mysql/mysqlwire"
	tare "github.com/taredb/tare/querylog"
)

// The record's values. The clock advances by a microsecond per record, as on a busy server.
const (
	method, user, caller = "Execute", "app", "app@reports"
	planType, sources    = "Select", "mysql"
	sql                  = "select id, name from orders where user_id = :v1 and state = :v2 and created > :v3"
	rewritten            = "select id, name from orders where user_id = 77 and state = 'new' and created > '2026-03-04 05:06:07' limit 10001"
	client               = "192.0.2.7:50123"
	mysqlTime, wait      = 900 * time.Microsecond, 12 * time.Microsecond
	rows, size           = 3, 312
	transaction          = 1700000000123
	stateValue           = `new "and" paid`
	createdValue         = "2026-03-04 05:06:07"
)

var (
	start = time.Date(2026, 3, 4, 5, 6, 7, 8009, time.UTC)
	total = 1234567 * time.Nanosecond
)

// A way logs one record that started at a time.
type way struct {
	format, by string
	log        func(start time.Time)
}

func ways(w io.Writer) []way {
	return []way{
		{"json", "tare", tareLine(w, tare.JSON)},
		{"json", "vitess", vitess(w, true)},
		{"json", "zerolog", zerologWay(w)},
		{"json", "zap", zapWay(w)},
		{"json", "slog", slogWay(w)},
		{"json", "plain", plain(w, true)},
		{"text", "tare", tareLine(w, tare.Text)},
		{"text", "vitess", vitess(w, false)},
		{"text", "plain", plain(w, false)},
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, way := range ways(io.Discard) {
		b.Run("format="+way.format+"/by="+way.by, func(b *testing.B) {
			at := start
			way.log(at)
			b.ReportAllocs()
			was := cpu(b)
			for b.Loop() {
				at = at.Add(time.Microsecond)
				way.log(at)
			}
			b.ReportMetric(float64(cpu(b)-was)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpu returns the process's CPU time so far. Unlike wall time it excludes other processes. It includes the
// garbage collector.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestWays expects each implementation to write one line with every value, so that all do the same work.
func TestWays(t *testing.T) {
	var got last
	for _, way := range ways(&got) {
		got = nil
		way.log(start)
		if way.format == "json" && !json.Valid(got) {
			t.Errorf("%s: not JSON: %s", way.by, got)
		}
		t.Logf("%s by %s: %s", way.format, way.by, got)
		for _, value := range []string{method, user, caller, planType, sources, client, "1700000000123", "312", "07", "77", "user_id", "limit 10001"} {
			if !contains(got, value) {
				t.Errorf("%s by %s: no %q in %s", way.format, way.by, value, got)
			}
		}
	}
}

type last []byte

func (l *last) Write(p []byte) (int, error) {
	*l = append((*l)[:0], p...)
	return len(p), nil
}

func contains(b []byte, s string) bool {
	for i := 0; i+len(s) <= len(b); i++ {
		if string(b[i:i+len(s)]) == s {
			return true
		}
	}
	return false
}

// tareLine reads the values of the bind variables from the binary protocol.
func tareLine(w io.Writer, f tare.Format) func(time.Time) {
	l := tare.Line{Format: f}
	var buf []byte
	addr := netip.MustParseAddrPort(client)
	binds := []mysqlwire.BinaryValue{
		{Data: []byte("\x4d\x00\x00\x00\x00\x00\x00\x00"), ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}},
		{Data: []byte(stateValue), ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}},
		{Data: []byte("\xea\x07\x03\x04\x05\x06\x07"), ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeDatetime}},
	}
	return func(start time.Time) {
		l.Begin(buf[:0], "statement")
		l.String("method", method)
		l.Addr("client", addr)
		l.String("user", user)
		l.String("caller", caller)
		l.Time("start", start)
		l.Time("end", start.Add(total))
		l.Duration("total_ns", total)
		l.String("plan_type", planType)
		l.String("sql", sql)
		l.Binds("binds", binds, nil)
		l.Int("queries", 1)
		l.String("rewritten", rewritten)
		l.String("sources", sources)
		l.Duration("mysql_ns", mysqlTime)
		l.Duration("wait_ns", wait)
		l.Uint("rows", rows)
		l.Int("transaction_id", transaction)
		l.Int("size", size)
		buf = l.End()
		_, _ = w.Write(buf)
	}
}

func vitess(w io.Writer, asJSON bool) func(time.Time) {
	binds := map[string]*querypb.BindVariable{
		"v1": {Type: querypb.Type_INT64, Value: []byte("77")},
		"v2": {Type: querypb.Type_VARCHAR, Value: []byte(stateValue)},
		"v3": {Type: querypb.Type_DATETIME, Value: []byte(createdValue)},
	}
	return func(start time.Time) {
		l := logstats.NewLogger()
		l.Init(asJSON)
		l.Key("Method")
		l.StringUnquoted(method)
		l.Key("RemoteAddr")
		l.StringUnquoted(client)
		l.Key("Username")
		l.StringUnquoted(user)
		l.Key("ImmediateCaller")
		l.StringSingleQuoted(caller)
		l.Key("Start")
		l.Time(start)
		l.Key("End")
		l.Time(start.Add(total))
		l.Key("TotalTime")
		l.Duration(total)
		l.Key("PlanType")
		l.StringUnquoted(planType)
		l.Key("OriginalSQL")
		l.String(sql)
		l.Key("BindVars")
		l.BindVariables(binds, true)
		l.Key("Queries")
		l.Int(1)
		l.Key("RewrittenSQL")
		l.String(rewritten)
		l.Key("QuerySources")
		l.StringUnquoted(sources)
		l.Key("MysqlTime")
		l.Duration(mysqlTime)
		l.Key("ConnWaitTime")
		l.Duration(wait)
		l.Key("RowsAffected")
		l.Uint(rows)
		l.Key("TransactionID")
		l.Int(transaction)
		l.Key("ResponseSize")
		l.Int(size)
		_ = l.Flush(w)
	}
}

func zerologWay(w io.Writer) func(time.Time) {
	l := zerolog.New(w)
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.DurationFieldInteger = true
	zerolog.DurationFieldUnit = time.Nanosecond
	bind := func(typ string) *zerolog.Event { return zerolog.Dict().Str("type", typ) }
	return func(start time.Time) {
		l.Log().
			Str("method", method).Str("client", client).Str("user", user).Str("caller", caller).
			Time("start", start).Time("end", start.Add(total)).Dur("total_ns", total).
			Str("plan_type", planType).Str("sql", sql).
			Dict("binds", zerolog.Dict().
				Dict("v1", bind("INT64").Int64("value", 77)).
				Dict("v2", bind("VARCHAR").Str("value", stateValue)).
				Dict("v3", bind("DATETIME").Str("value", createdValue))).
			Int("queries", 1).Str("rewritten", rewritten).Str("sources", sources).
			Dur("mysql_ns", mysqlTime).Dur("wait_ns", wait).
			Uint64("rows", rows).Int64("transaction_id", transaction).Int("size", size).
			Send()
	}
}

func zapWay(w io.Writer) func(time.Time) {
	cfg := zapcore.EncoderConfig{EncodeTime: zapcore.RFC3339NanoTimeEncoder, EncodeDuration: zapcore.NanosDurationEncoder}
	l := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(cfg), zapcore.AddSync(w), zapcore.InfoLevel))
	return func(start time.Time) {
		l.Info("",
			zap.String("method", method), zap.String("client", client), zap.String("user", user), zap.String("caller", caller),
			zap.Time("start", start), zap.Time("end", start.Add(total)), zap.Duration("total_ns", total),
			zap.String("plan_type", planType), zap.String("sql", sql),
			zap.Dict("binds",
				zap.Dict("v1", zap.String("type", "INT64"), zap.Int64("value", 77)),
				zap.Dict("v2", zap.String("type", "VARCHAR"), zap.String("value", stateValue)),
				zap.Dict("v3", zap.String("type", "DATETIME"), zap.String("value", createdValue))),
			zap.Int("queries", 1), zap.String("rewritten", rewritten), zap.String("sources", sources),
			zap.Duration("mysql_ns", mysqlTime), zap.Duration("wait_ns", wait),
			zap.Uint64("rows", rows), zap.Int64("transaction_id", transaction), zap.Int("size", size))
	}
}

func slogWay(w io.Writer) func(time.Time) {
	l := slog.New(slog.NewJSONHandler(w, nil))
	ctx := context.Background()
	return func(start time.Time) {
		l.LogAttrs(ctx, slog.LevelInfo, "",
			slog.String("method", method), slog.String("client", client), slog.String("user", user), slog.String("caller", caller),
			slog.Time("start", start), slog.Time("end", start.Add(total)), slog.Duration("total_ns", total),
			slog.String("plan_type", planType), slog.String("sql", sql),
			slog.Group("binds",
				slog.Group("v1", slog.String("type", "INT64"), slog.Int64("value", 77)),
				slog.Group("v2", slog.String("type", "VARCHAR"), slog.String("value", stateValue)),
				slog.Group("v3", slog.String("type", "DATETIME"), slog.String("value", createdValue))),
			slog.Int("queries", 1), slog.String("rewritten", rewritten), slog.String("sources", sources),
			slog.Duration("mysql_ns", mysqlTime), slog.Duration("wait_ns", wait),
			slog.Uint64("rows", rows), slog.Int64("transaction_id", transaction), slog.Int("size", size))
	}
}

// plain returns the old implementation: see bench/baseline/querylog.
func plain(w io.Writer, asJSON bool) func(time.Time) {
	binds := map[string]querylog.Bind{
		"v1": {Type: "INT64", Value: int64(77)},
		"v2": {Type: "VARCHAR", Value: stateValue},
		"v3": {Type: "DATETIME", Value: createdValue},
	}
	return func(start time.Time) {
		r := querylog.NewRecord(start, binds)
		r.Method, r.Client, r.User, r.Caller = method, client, user, caller
		r.End = start.Add(total)
		r.PlanType, r.SQL, r.Rewritten, r.Sources = planType, sql, rewritten, sources
		r.Queries, r.MySQL, r.Wait = 1, mysqlTime, wait
		r.Rows, r.Transaction, r.Size = rows, transaction, size
		if asJSON {
			_ = r.LogJSON(w)
			return
		}
		_ = r.LogText(w)
	}
}
