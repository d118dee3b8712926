package querylog_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/querylog"
)

// cpu returns the process' CPU time so far, including the writers' goroutines.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLine formats a record as a line.
func BenchmarkLine(b *testing.B) {
	for _, c := range []struct {
		name string
		r    *querylog.Record
	}{{"query", sample()}, {"binds", prepared()}, {"error", failed()}} {
		for _, f := range []querylog.Format{querylog.JSON, querylog.Text} {
			b.Run(c.name+"/"+f.String(), func(b *testing.B) {
				l := querylog.Line{Format: f, MaxBind: 256, MaxText: (1 << 20)}
				var buf []byte
				b.ReportAllocs()
				for b.Loop() {
					l.Begin(buf[:0], c.r.Kind())
					c.r.AppendFields(&l)
					buf = l.End()
				}
				b.SetBytes(int64(len(buf)))
			})
		}
	}
}

// BenchmarkLog logs a record to a file, or to the ring only.
func BenchmarkLog(b *testing.B) {
	for _, c := range []struct {
		name string
		o    querylog.Options
	}{
		{"ring", querylog.Options{}},
		{"json", querylog.Options{Sinks: []querylog.SinkOptions{{Path: "/dev/null"}}, RingBytes: -1}},
		{"json+ring", querylog.Options{Sinks: []querylog.SinkOptions{{Path: "/dev/null"}}}},
		{"text", querylog.Options{Sinks: []querylog.SinkOptions{{Path: "/dev/null", Format: querylog.Text}}, RingBytes: -1}},
		{"sampled out", querylog.Options{Sampling: querylog.Sampling{SlowerThan: 1 << 40}}},
		{"limit per digest", querylog.Options{Sampling: querylog.Sampling{PerDigest: 10}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := mustNew(b, c.o)
			r := sample()
			b.ReportAllocs()
			was := cpu(b)
			for b.Loop() {
				l.Log(r)
			}
			l.Flush()
			b.ReportMetric(float64(cpu(b)-was)/float64(b.N), "cpu-ns/op")
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			l := mustNew(b, c.o)
			var id atomic.Uint64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				r := sample()
				r.ConnectionID = id.Add(1)
				for pb.Next() {
					l.Log(r)
				}
			})
		})
	}
}

// BenchmarkWriters logs the records of 256 connections from as many goroutines as there are CPUs, as event
// loops do: buffers chosen by connection are written by all CPUs in turn, those chosen by writer by one each.
func BenchmarkWriters(b *testing.B) {
	for _, by := range []string{"connection", "writer"} {
		b.Run("by="+by, func(b *testing.B) {
			l, err := querylog.New(querylog.Options{Sinks: []querylog.SinkOptions{{Path: filepath.Join(b.TempDir(), "query.log")}}})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close(context.Background()) }()
			var loops atomic.Uint64
			b.ReportAllocs()
			before := cpu(b)
			b.RunParallel(func(pb *testing.PB) {
				r := querylog.Record{
					Start: time.Now(), Total: time.Millisecond, User: "app", Schema: "shop", Backend: "127.0.0.1:3306",
					StatementType: "select", Digest: [16]byte{1}, Normalized: []byte("SELECT `c` FROM `sbtest1` WHERE `id` = ?"),
				}
				loop := loops.Add(1)
				if by == "writer" {
					r.Writer = loop
				}
				for i := uint64(0); pb.Next(); i++ {
					r.ConnectionID = i%256 + 1
					l.Log(&r)
				}
			})
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
