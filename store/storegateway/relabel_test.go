package storegateway

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/store/tsblock"
)

// TestFollows tests the argument of relabeling: among sorted series, none of which has one of the external
// labels, only a series whose labels are a prefix of another's can move behind it, and those with that prefix
// follow it directly.
func TestFollows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	moved := 0
	for range 2000 {
		// Names a, c, e, … belong to series; b, d, f, … to the block.
		var external []string
		for _, name := range []string{"b", "d", "f", "h"} {
			if r.IntN(2) == 0 {
				external = append(external, name, "x")
			}
		}
		relabel := newRelabeling(labels.FromStrings(external...), nil)
		if relabel == nil {
			continue
		}
		var series [][]tsblock.Label
		for range 12 {
			var s []tsblock.Label
			for _, name := range []string{"a", "c", "e", "g"} {
				if r.IntN(2) == 0 {
					s = append(s, tsblock.Label{Name: name, Value: fmt.Sprint(r.IntN(2))})
				}
			}
			series = append(series, s)
		}
		slices.SortFunc(series, CompareLabels)
		series = slices.CompactFunc(series, func(a, b []tsblock.Label) bool { return CompareLabels(a, b) == 0 })
		for i, a := range series {
			inRow := true
			for _, b := range series[i+1:] {
				behind := CompareLabels(relabel.appendTo(nil, a), relabel.appendTo(nil, b)) > 0
				if got := relabel.overtakes(a, b); got != behind {
					t.Fatalf("external %v: %v and %v: got %v, want %v", external, a, b, got, behind)
				}
				if behind && !inRow {
					t.Fatalf("external %v: %v is overtaken by %v, but not by one between them", external, a, b)
				}
				inRow = inRow && behind
				if behind {
					moved++
				}
			}
		}
	}
	if moved < 100 {
		t.Errorf("order changed %d times: too few to tell", moved)
	}
}

func TestTournament(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 20; n++ {
		values := make([]int, n)
		for i := range values {
			values[i] = r.IntN(5)
		}
		var tour tournament
		tour.reset(n, func(a, b int) bool { return values[a] < values[b] })
		for range 100 {
			want := 0
			for i, v := range values {
				if v < values[want] {
					want = i
				}
			}
			if got := tour.winner(); got != want {
				t.Fatalf("of %v number %d wins, want %d", values, got, want)
			}
			i := r.IntN(n)
			values[i] = r.IntN(5)
			tour.update(i)
		}
	}
}

func TestOrderChunks(t *testing.T) {
	chunk := func(mint, maxt int64, data string) ChunkView {
		return ChunkView{MinTime: mint, MaxTime: maxt, Encoding: 1, Data: []byte(data)}
	}
	got := orderChunks([]ChunkView{chunk(1, 5, "a"), chunk(6, 9, "b"), chunk(1, 5, "a"), chunk(1, 5, "c"), chunk(3, 7, "d")})
	want := "1-5 a, 1-5 c, 3-7 d, 6-9 b, "
	var text strings.Builder
	for _, c := range got {
		fmt.Fprintf(&text, "%d-%d %s, ", c.MinTime, c.MaxTime, c.Data)
	}
	if text.String() != want {
		t.Errorf("got %s, want %s", text.String(), want)
	}
}

// TestRelabelAllocs adds external labels to those of a series.
func TestRelabelAllocs(t *testing.T) {
	one := []tsblock.Label{{Name: "a", Value: "1"}, {Name: "c", Value: "2"}}
	relabel := &relabeling{external: []tsblock.Label{{Name: "b", Value: "x"}}, last: "b"}
	buffer := make([]tsblock.Label, 0, 8)
	alloctest.Run(t, []alloctest.Case{
		{Name: "labels of a series with external ones", Op: func() error {
			if buffer = relabel.appendTo(buffer[:0], one); len(buffer) != 3 {
				return fmt.Errorf("%v", buffer)
			}
			return nil
		}},
	})
}
