package statements_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/statements"
)

// TestSpans has two gateways share a bucket, and expects what each description read in the attributes of a span: from
// samples, from the gateway's own rollups, and from those of both.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucketDir := t.TempDir()
		began := time.Now()
		one, two := newRigIn(t, bucketDir, "gw-1", 100), newRigIn(t, bucketDir, "gw-2", 100)
		one.start()
		two.start()
		for range 8 {
			one.call(1, time.Second, false)
			two.call(2, time.Second, false)
			time.Sleep(time.Hour)
		}
		time.Sleep(3 * time.Minute)
		now := time.Now()

		memory := tracetest.NewInMemoryExporter()
		tracer := sdk.NewTracerProvider(sdk.WithSyncer(memory)).Tracer("test")
		// read returns the span of a description and its integer attributes.
		read := func(name string, do func(context.Context) error) (tracetest.SpanStub, map[string]int64) {
			t.Helper()
			memory.Reset()
			ctx, request := tracer.Start(t.Context(), "request")
			if err := do(ctx); err != nil {
				t.Fatal(err)
			}
			request.End()
			spans := memory.GetSpans()
			if len(spans) != 2 || spans[0].Name != name || spans[0].Parent.SpanID() != request.SpanContext().SpanID() {
				t.Fatalf("spans: %v, want one %s below the request", spans, name)
			}
			numbers := make(map[string]int64)
			for _, a := range spans[0].Attributes {
				if a.Value.Type() == attribute.INT64 {
					numbers[string(a.Key)] = a.Value.AsInt64()
				}
				if strings.Contains(a.Value.String(), "SELECT") || strings.Contains(a.Value.String(), "shop") {
					t.Errorf("%s: %v", name, a)
				}
			}
			return spans[0], numbers
		}
		top := func(q statements.TopQuery) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := one.reader.Top(ctx, q)
				return err
			}
		}

		_, got := read("rank statements", top(statements.TopQuery{From: now.Add(-3 * time.Hour), To: now.Add(-time.Hour)}))
		if got["tare.samples"] == 0 || got["tare.series"] == 0 || got["tare.files"] != 0 || got["tare.matching"] != 1 {
			t.Errorf("of samples: %v", got)
		}
		_, got = read("read statement", func(ctx context.Context) error {
			_, err := one.reader.Statement(ctx, statements.StatementQuery{Digest: hexOf(1), From: now.Add(-3 * time.Hour), To: now, Points: 10})
			return err
		})
		if got["tare.samples"] == 0 || got["tare.series"] == 0 || got["tare.files"] != 0 {
			t.Errorf("of a statement's samples: %v", got)
		}

		files, rows := one.rollups(began)
		others, otherRows := two.rollups(began)
		span, got := read("rank statements", top(statements.TopQuery{From: began, To: now}))
		if files < 7 || got["tare.files"] != files || got["tare.rows"] != rows || got["tare.remote"] != 0 || len(span.Events) != int(files) {
			t.Errorf("of %d rollups with %d rows: %v, %d events", files, rows, got, len(span.Events))
		}
		if got["tare.bytes_fetched"] <= 60*files || got["tare.reads"] <= 3*files { // header, tail, footer, columns
			t.Errorf("of rollups: %v", got)
		}
		_, got = read("rank statements", top(statements.TopQuery{From: began, To: now, AllInstances: true}))
		if got["tare.files"] != files+others || got["tare.remote"] != others || got["tare.rows"] != rows+otherRows || got["tare.matching"] != 2 {
			t.Errorf("of %d rollups in the bucket too, with %d rows: %v", others, otherRows, got)
		}

		// A request that is not sampled is not counted.
		memory.Reset()
		none := trace.ContextWithSpan(t.Context(), trace.SpanFromContext(t.Context()))
		if err := top(statements.TopQuery{From: began, To: now})(none); err != nil || len(memory.GetSpans()) > 0 {
			t.Errorf("without a span: %v, %d spans", err, len(memory.GetSpans()))
		}
		one.stop()
		two.stop()
	})
}

// rollups returns the number of the rig's own rollups since a time, and of their rows.
func (r *rig) rollups(since time.Time) (files, rows int64) {
	r.t.Helper()
	store := r.archive.Instances()[0].Rollups
	for _, name := range store.List(func(n rollup.Name) bool { return !n.Begin().Before(since) }) {
		f, err := store.Open(name)
		r.must(err)
		files, rows = files+1, rows+int64(f.NumRows)
		r.must(f.Close())
	}
	return files, rows
}
