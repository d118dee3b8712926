package tsblock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
)

// A countedSource fails one read, or each from it on.
type countedSource struct {
	*memorySource
	reads  int
	failAt int // 0: never
	always bool
	how    string
}

func (s *countedSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	s.reads++
	if s.failAt == 0 || s.reads < s.failAt || s.reads > s.failAt && !s.always {
		return s.memorySource.ReadRange(ctx, name, off, dst)
	}
	switch s.how {
	case "fails before it runs":
		return 0, errInjected
	case "fails in the middle":
		n, err := s.memorySource.ReadRange(ctx, name, off, dst[:len(dst)/2])
		return n, errors.Join(err, errInjected)
	case "ends early":
		n, err := s.memorySource.ReadRange(ctx, name, off, dst[:len(dst)/2])
		return n, errors.Join(err, io.ErrUnexpectedEOF)
	default: // damages
		n, err := s.memorySource.ReadRange(ctx, name, off, dst)
		for i := range dst[:n] {
			dst[i] ^= 0x55
		}
		return n, err
	}
}

// TestReadFaults has each read of each kind of query fail in each way, once and from then on: the query fails with an error
// that names the block, or its result is the same as without; the next query's is.
func TestReadFaults(t *testing.T) {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(5, 6)), 1500))
	objects := readSource(t, dir, name)
	some := labels.MustNewMatcher(labels.MatchRegexp, "some", ".*1.*")
	all := labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")
	rows := func(shard Shard, ms ...*labels.Matcher) func(*Reader) (any, error) {
		return func(r *Reader) (any, error) {
			p, err := r.Postings(t.Context(), ms...)
			if err != nil {
				return nil, err
			}
			return readRows(t.Context(), r.Series(p, Select{MinTime: 0, MaxTime: math.MaxInt64, Shard: shard}))
		}
	}
	cells := 0
	for what, query := range map[string]func(*Reader) (any, error){
		"postings": func(r *Reader) (any, error) {
			p, err := r.Postings(t.Context(), some)
			if err != nil {
				return nil, err
			}
			return drain(p), nil
		},
		"series":                     rows(Shard{}, some),
		"a shard":                    rows(Shard{1, 3}, all),
		"names":                      func(r *Reader) (any, error) { return r.LabelNames(t.Context(), 0) },
		"names of series":            func(r *Reader) (any, error) { return r.LabelNames(t.Context(), 0, some) },
		"values":                     func(r *Reader) (any, error) { return r.LabelValues(t.Context(), "some", 0) },
		"values of series":           func(r *Reader) (any, error) { return r.LabelValues(t.Context(), "unique", 0, some) },
		"values of a matcher's name": func(r *Reader) (any, error) { return r.LabelValues(t.Context(), "some", 0, some) },
	} {
		t.Run(what, func(t *testing.T) {
			run := func(t *testing.T, at int, how string, always bool) (got any, source *countedSource, err error) {
				t.Helper()
				e := newEnv(t)
				source = &countedSource{memorySource: objects, how: how, always: always}
				b, err := openBlock(t.Context(), source, name, e.options)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				source.reads, source.failAt = 0, at
				once := func() (any, error) {
					r, done := e.reader(t, b)
					defer done()
					return query(r)
				}
				got, err = once()
				if err == nil || at == 0 {
					return got, source, err
				}
				if !strings.Contains(err.Error(), name) || strings.HasPrefix(how, "fails") && !errors.Is(err, errInjected) {
					t.Errorf("%v, want an error that names the block", err)
				}
				source.failAt = 0
				got, again := once()
				if again != nil {
					t.Errorf("afterwards: %v", again)
				}
				return got, source, err
			}
			want, source, err := run(t, 0, "", false)
			if err != nil || source.reads < 2 {
				t.Fatalf("%d reads, %v", source.reads, err)
			}
			for _, how := range []string{"fails before it runs", "fails in the middle", "ends early", "is damaged"} {
				for _, always := range []bool{false, true} {
					if always && how != "fails before it runs" {
						continue
					}
					step := max(1, source.reads-1) // the first and the last read
					if how == "fails before it runs" && !always {
						step = 1
					}
					for at := 1; at <= source.reads; at += step {
						cells++
						t.Run(fmt.Sprintf("%d %s, always=%t", at, how, always), func(t *testing.T) {
							got, _, err := run(t, at, how, always)
							if d := cmp.Diff(want, got); d != "" {
								t.Errorf("after %v: -want +got\n%s", err, d[:min(len(d), 1000)])
							}
							if err == nil && always {
								t.Error("no error")
							}
						})
					}
				}
			}
		})
	}
	t.Logf("%d cells", cells)
}
