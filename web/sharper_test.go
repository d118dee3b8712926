package web

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/testseed"
)

// A stepped statement has a load of 0.1 until at, and of 1 since, with noise, as in a history with samples every 10 s.
type stepped struct {
	at      time.Time
	random  *rand.Rand
	failing bool
	asked   int
}

func (s *stepped) Top(context.Context, statements.TopQuery) (*statements.Top, error) {
	return nil, errors.New("not used")
}

func (s *stepped) Statement(_ context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	if s.asked++; s.failing && s.asked > 1 {
		return nil, errors.New("unreachable")
	}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	step := max(q.To.Sub(q.From)/time.Duration(q.Points), 10*time.Second)
	st := &statements.Statement{Digest: [16]byte{2}, From: q.From, To: q.To, Series: statements.Series{Step: step, End: q.To}}
	for at := q.From; at.Before(q.To); at = at.Add(step) {
		part := min(max(float64(at.Add(step).Sub(s.at))/float64(step), 0), 1)
		st.Series.Times, st.Series.Load = append(st.Series.Times, at), append(st.Series.Load, (0.1+0.9*part)*math.Exp(0.4*s.random.NormFloat64()/math.Sqrt(step.Seconds()/10)))
	}
	return st, nil
}

// TestSharperOnset draws onsets in ranges of a day, whose points are 12 minutes long, and expects the onset with the
// precision of the samples: nearer on average, and within the first bounds. If the samples cannot be read, the first onset
// remains.
func TestSharperOnset(t *testing.T) {
	rng := testseed.Rand(t)
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	v := &view{now: now, span: spanOf(now.Add(-24*time.Hour), now), Attention: Attention{LeastLoad: 0.05, Interval: 10 * time.Second}}
	const rounds = 200
	var coarse, sharp float64 // seconds off the true onset, in all
	within := 0
	for range rounds {
		for _, failing := range []bool{false, true} {
			source := &stepped{random: rng, at: v.span.From.Add(time.Duration(6+rng.IntN(15))*time.Hour + time.Duration(rng.IntN(3600e3))*time.Millisecond), failing: failing}
			causes := &causeFinder{statements: &statementReader{all: source, log: slog.New(slog.DiscardHandler)}}
			st, err := source.Statement(t.Context(), statements.StatementQuery{Digest: someDigest, From: v.span.From, To: v.span.To, Points: chartPoints})
			if err != nil {
				t.Fatal(err)
			}
			r, ok := findRise(&st.Series, st.Series.Load, nil, time.Time{}, v.Interval, v.LeastLoad, nil, st.Digest)
			if !ok {
				t.Fatalf("no rise at %v", source.at)
			}
			got := causes.sharper(t.Context(), v, st, r)
			if failing {
				if got != r.Onset {
					t.Errorf("unreadable samples change the onset to %+v", got)
				}
				continue
			}
			if got.At.Before(r.Earliest) || got.At.After(r.Latest) {
				t.Errorf("the onset %v is outside of %v to %v", got.At, r.Earliest, r.Latest)
			}
			coarse, sharp = coarse+math.Abs(r.At.Sub(source.at).Seconds()), sharp+math.Abs(got.At.Sub(source.at).Seconds())
			if !source.at.Before(got.Earliest) && !source.at.After(got.Latest) {
				within++
			}
		}
	}
	t.Logf("%v s off on average, before %v s; %d of %d within the bounds", sharp/rounds, coarse/rounds, within, rounds)
	if sharp > 0.8*coarse || within < rounds*7/10 {
		t.Error("want at most four fifths of that, and 7 of 10 within the bounds")
	}
}
