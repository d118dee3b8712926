package activeseries

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testactive"
)

// BenchmarkDecode decodes one body of 10,000 items of 85 bytes on one CPU.
func BenchmarkDecode(b *testing.B) {
	compact := testactive.Body(7, 10_000)
	kinds := []struct {
		name string
		body []byte
	}{
		{"compact", compact},
		{"spaced", bytes.ReplaceAll(bytes.ReplaceAll(compact, []byte(":"), []byte(": ")), []byte(`,`), []byte(`, `))},
		{"escaped", bytes.ReplaceAll(compact, []byte("prometheus"), []byte(`\"prom\"\n`))},
		{"utf8", bytes.ReplaceAll(compact, []byte("prometheus"), []byte(`прометей`))},
		{"long", bytes.ReplaceAll(compact, []byte("instance"), []byte(strings.Repeat("instance", 20)))},
	}
	for _, k := range kinds {
		for _, by := range []Implementation{Strict, Stdlib} {
			b.Run(fmt.Sprintf("%s/%s", k.name, by), func(b *testing.B) { benchmarkDecoder(b, NewDecoder(by), k.body) })
		}
		b.Run(k.name+"/json.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(k.body)))
			b.ReportAllocs()
			for b.Loop() {
				if !json.Valid(k.body) {
					b.Fatal("not valid")
				}
			}
		})
	}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(int64(len(compact)))
		to := make([]byte, bufferSize)
		for b.Loop() {
			for from := compact; len(from) > 0; {
				from = from[copy(to, from):]
			}
		}
	})
}

func benchmarkDecoder(b *testing.B, d Decoder, body []byte) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var r bytes.Reader
	for b.Loop() {
		r.Reset(body)
		d.Reset(&r)
		for n := 0; ; {
			_, k, err := d.Next()
			if n += k; errors.Is(err, io.EOF) && n == 10_000 {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkMerge merges 128 bodies of 1,000 items with different options.
func BenchmarkMerge(b *testing.B) {
	bodies := testactive.Bodies(128, 1000)
	size := 0
	for _, body := range bodies {
		size += len(body)
	}
	for _, c := range []struct {
		name  string
		order Request
	}{
		{"pass", Request{}},
		{"unique", Request{Unique: true, UniqueBytes: 1 << 30}},
		{"count", Request{CountBy: "job", CountBytes: 1 << 20}},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := NewMerger(MergerOptions{Workers: 2})
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				body := m.Merge(jsonSources(bodies...), c.order)
				if _, err := body.WriteTo(io.Discard); err != nil {
					b.Fatal(err)
				}
				if err := body.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A mapTracker is the baseline of a Tracker: a map under a lock.
type mapTracker struct {
	mu   sync.RWMutex
	last map[Key]*Moment
}

func (m *mapTracker) update(k Key, at Moment) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.last[k]
	if p == nil {
		return false
	}
	*p = max(*p, at)
	return true
}

// BenchmarkTrackerUpdate records samples of a million known series in random order; sweeps remove none.
func BenchmarkTrackerUpdate(b *testing.B) {
	const n = 1_000_000
	keys := make([]Key, n)
	tr := newTracker(b, TrackerOptions{Idle: time.Hour, Step: time.Minute})
	m := &mapTracker{last: map[Key]*Moment{}}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		keys[i] = Key(rnd.Uint64())
		if err := tr.Add(keys[i], 1, nil); err != nil {
			b.Fatal(err)
		}
		m.last[keys[i]] = new(Moment)
	}
	rnd.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, c := range []struct {
		name   string
		update func(Key, Moment) bool
	}{{"tracker", tr.Update}, {"map", m.update}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if !c.update(keys[i%n], Moment(2+i/n)) {
					b.Fatal("not known")
				}
				i++
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			var worker atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.New(rand.NewPCG(1, uint64(worker.Add(1)))).IntN(n); pb.Next(); i++ {
					if !c.update(keys[i%n], Moment(2+i/n)) {
						b.Error("not known")
						return
					}
				}
			})
		})
	}
	b.Run("tracker/sweep", func(b *testing.B) {
		for b.Loop() {
			tr.Sweep(61)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/series")
	})
}
