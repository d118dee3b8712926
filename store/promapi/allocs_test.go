package promapi

import (
	"errors"
	"math"
	"net/http"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/taredb/tare/internal/alloctest"
)

// discard is a ResponseWriter that counts bytes.
type discard struct {
	header http.Header
	n      int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { d.n += len(b); return len(b), nil }

// newMatrix returns n series with the given number of points, one in four of them a constant gauge.
func newMatrix(n, points int) promql.Matrix {
	m := make(promql.Matrix, n)
	for i := range m {
		m[i].Metric = labels.FromStrings("__name__", "http_requests_total", "instance", "host:9090", "job", "api")
		for k := range points {
			f := float64(k * i)
			switch i % 4 {
			case 1:
				f = math.Sqrt(float64(k + i))
			case 2:
				f = 0.25
			case 3:
				f = -f / 7
			}
			m[i].Floats = append(m[i].Floats, promql.FPoint{T: int64(1_700_000_000_000 + k*15_000), F: f})
		}
	}
	return m
}

func TestAllocs(t *testing.T) {
	var e sampleEncoder
	var pools encoderPools
	w := &discard{header: http.Header{"Content-Type": nil}}
	buf := make([]byte, 0, bufferBytes)
	var out output
	encode := func(v parser.Value, steps, want int) func() error {
		return func() error {
			w.n = 0
			// In the middle of a response: the header was sent.
			out = output{w: w, sent: true, code: http.StatusOK, buf: buf[:0], pools: &pools}
			e.reset(1_700_000_000_000, 15_000, steps)
			e.encodeValue(&out, v)
			if err := out.finish(); err != nil {
				return err
			}
			if w.n < want {
				return errors.New("the answer is too short")
			}
			return nil
		}
	}
	hist := tsdbutil.GenerateTestFloatHistogram(3)
	text := `quoted "text" with <tags>, 日本 and ` + "\u2028"
	matrix := newMatrix(4, 100)
	g := &gate{maxRunning: 1}
	ctx := t.Context()
	alloctest.Run(t, []alloctest.Case{
		{Name: "400 samples of a range query", Op: encode(matrix, 100, 6000)},
		{Name: "a vector", Op: encode(promql.Vector{{Metric: matrix[0].Metric, T: 1, F: math.Pi}}, 0, 50)},
		{Name: "strings", Op: func() error {
			b := appendText(appendString(buf[:0], text), text)
			if len(b) < 2*len(text) {
				return errors.New("too short")
			}
			return nil
		}},
		// Prometheus' iterators over the buckets, regardless of their number.
		{Name: "a histogram", PerThousand: 3000, Op: func() error {
			if b := appendHistogram(buf[:0], hist); len(b) < 100 {
				return errors.New("too short")
			}
			return nil
		}},
		{Name: "a turn at the gate", Op: func() error {
			if err := g.acquire(ctx); err != nil {
				return err
			}
			g.release()
			return nil
		}},
	})
}

func BenchmarkEncodeMatrix(b *testing.B) {
	m := newMatrix(100, 1000)
	var e sampleEncoder
	var pools encoderPools
	w := &discard{header: http.Header{}}
	buf := make([]byte, 0, bufferBytes)
	b.ReportAllocs()
	for b.Loop() {
		w.n = 0
		out := output{w: w, sent: true, buf: buf[:0], pools: &pools}
		e.reset(1_700_000_000_000, 15_000, 1000)
		e.encodeValue(&out, m)
		if err := out.finish(); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(w.n))
}
