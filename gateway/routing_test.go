package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestRouting runs holds and switches through the routing, event by event: see the files in
// testdata/routing, which say what each shows.
func TestRouting(t *testing.T) {
	datadriven.Walk(t, "testdata/routing", func(t *testing.T, path string) {
		var r routing
		start := time.Unix(0, 0)
		now := start
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			for line := range strings.Lines(d.Input) {
				words := strings.Fields(line)
				if len(words) == 0 {
					continue
				}
				acts, err := routingEvent(t, &r, &now, words)
				fmt.Fprintf(&b, "%-28s → ", strings.Join(words, " "))
				var out []string
				for _, a := range acts {
					out = append(out, a.String())
				}
				if err != nil {
					out = append(out, "refused: "+err.Error())
				}
				if len(out) == 0 {
					out = []string{"nothing"}
				}
				fmt.Fprintf(&b, "%s  (%s, %s)\n", strings.Join(out, ", "), r.stage, r.active)
				if len(acts) > 0 && acts[len(acts)-1] == actRelease {
					fmt.Fprintf(&b, "%-28s   because %v\n", "", r.why)
				}
			}
			return b.String()
		})
	})
}

func routingEvent(t *testing.T, r *routing, now *time.Time, words []string) ([]act, error) {
	duration := func(i int) time.Duration {
		d, err := time.ParseDuration(words[i])
		must(t, err)
		return d
	}
	failure := func(i int) error {
		if len(words) > i {
			return errors.New(strings.Join(words[i:], " "))
		}
		return nil
	}
	switch words[0] {
	case "wait":
		*now = now.Add(duration(1))
		return r.tick(*now), nil
	case "hold": // hold TOKEN DURATION
		return r.hold(*now, words[1], duration(2))
	case "look": // look N
		var n int
		if _, err := fmt.Sscan(words[1], &n); err != nil {
			t.Fatal(err)
		}
		return r.look(*now, n), nil
	case "switch": // switch TOKEN SIDE
		to, err := ParseSide(words[2])
		must(t, err)
		return r.change(*now, words[1], to)
	case "connected":
		return r.connected(*now, failure(1)), nil
	case "saved":
		return r.saved(failure(1)), nil
	case "release":
		return r.release(words[1])
	case "abandon":
		return r.abandon(failure(1)), nil
	}
	t.Fatalf("unknown event %q", words[0])
	return nil, nil
}
