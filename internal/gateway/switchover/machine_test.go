package switchover

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestMachine runs pauses and switches through a Machine, event by event. Each file in testdata states what
// it shows.
func TestMachine(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var r Machine
		start := time.Unix(0, 0)
		now := start
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			for line := range strings.Lines(d.Input) {
				words := strings.Fields(line)
				if len(words) == 0 {
					continue
				}
				acts, err := event(t, &r, &now, words)
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
				fmt.Fprintf(&b, "%s  (%s, %s)\n", strings.Join(out, ", "), r.Stage, r.Active)
				if len(acts) > 0 && acts[len(acts)-1] == ActRelease {
					fmt.Fprintf(&b, "%-28s   because %v\n", "", r.Why)
				}
			}
			return b.String()
		})
	})
}

func event(t *testing.T, r *Machine, now *time.Time, words []string) ([]Act, error) {
	duration := func(i int) time.Duration {
		d, err := time.ParseDuration(words[i])
		if err != nil {
			t.Fatal(err)
		}
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
		return r.Tick(*now), nil
	case "hold": // hold TOKEN DURATION
		return r.Pause(*now, words[1], duration(2))
	case "look": // look N
		var n int
		if _, err := fmt.Sscan(words[1], &n); err != nil {
			t.Fatal(err)
		}
		return r.Observe(*now, n), nil
	case "switch": // switch TOKEN SIDE
		to, err := ParseSide(words[2])
		if err != nil {
			t.Fatal(err)
		}
		return r.Switch(*now, words[1], to)
	case "connected":
		return r.Connected(*now, failure(1)), nil
	case "saved":
		return r.Saved(failure(1)), nil
	case "release":
		return r.Release(words[1])
	case "abandon":
		return r.Abandon(failure(1)), nil
	}
	t.Fatalf("unknown event %q", words[0])
	return nil, nil
}
