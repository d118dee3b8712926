package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are those of clients of an address without a listener; another process could take one that was listened on.
func options() Options {
	return Options{Address: "127.0.0.1:1", Database: "shop", Shop: Shop{1, 1, 1}, Clients: 2, Every: time.Millisecond}
}

// TestUnreachableServerIsAnError checks that clients without a server keep trying, count the failures, and
// stop on request.
func TestUnreachableServerIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last Report
	err := Run(ctx, options(), func(r Report) error {
		if last = r; r.Errors > 0 {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if last.Errors == 0 || last.Statements != 0 || last.ExpectedErrors != 0 {
		t.Errorf("got %+v, want errors alone", last)
	}
	if !strings.Contains(last.LastError, "connect") {
		t.Errorf("the latest error is %q, want one of connecting", last.LastError)
	}
}

func TestReportThatCannotBeMadeEndsTheRun(t *testing.T) {
	gone := errors.New("nobody listens")
	if err := Run(t.Context(), options(), func(Report) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"address": func(o *Options) { o.Address = "" },
		"clients": func(o *Options) { o.Clients = 0 },
		"every":   func(o *Options) { o.Every = 0 },
		"shop":    func(o *Options) { o.Shop.Orders = 0 },
	} {
		o := options()
		if change(&o); Run(t.Context(), o, func(Report) error { return nil }) == nil {
			t.Errorf("options without a valid %s were accepted", name)
		}
	}
}

// TestPickerKeepsToTheWeights draws many shapes: the frequency of each corresponds to its weight, within
// statistical limits, and names are distinguished.
func TestPickerKeepsToTheWeights(t *testing.T) {
	p := newPicker()
	rng := rand.New(rand.NewPCG(1, 2))
	const draws = 200_000
	seen := map[string]int{}
	for range draws {
		seen[p.pick(rng).name]++
	}
	if len(seen) != len(p.shapes) {
		t.Errorf("%d names were drawn, want %d", len(seen), len(p.shapes))
	}
	for _, s := range p.shapes {
		want := draws * s.weight / p.total
		if got := seen[s.name]; got < want*7/10-10 || got > want*13/10+10 {
			t.Errorf("%q came %d times, want about %d", s.name, got, want)
		}
	}
}
