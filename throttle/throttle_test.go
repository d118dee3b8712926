package throttle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestThrottle runs testdata/throttle: readings of the limits' sources second by second, and the resulting
// rates.
func TestThrottle(t *testing.T) {
	var th *throttle
	var now time.Duration
	datadriven.RunTest(t, "testdata/throttle", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		notify := func() {
			fmt.Fprintf(&out, "%4v share %-5s %s\n", now, fmt.Sprintf("%.3g", th.allowed()), th.reason())
		}
		switch d.Cmd {
		case "limits":
			var patience string
			d.ScanArgs(t, "patience", &patience)
			wait, err := time.ParseDuration(patience)
			if err != nil {
				t.Fatal(err)
			}
			var limits []Limit
			for line := range strings.Lines(d.Input) {
				var l Limit
				var memory string
				if _, err := fmt.Sscan(line, &l.Name, &l.Bound, &memory); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if l.Memory, err = time.ParseDuration(memory); err != nil {
					t.Fatal(err)
				}
				limits = append(limits, l)
			}
			th, now = newThrottle(limits, wait), 0
			notify()
		case "read": // one line per second: a value for each limit, or a word that is the error
			for line := range strings.Lines(d.Input) {
				now += time.Second
				var readings []reading
				for word := range strings.FieldsSeq(line) {
					var r reading
					if _, err := fmt.Sscan(word, &r.value); err != nil {
						r.err = errors.New(word)
					}
					readings = append(readings, r)
				}
				if err := th.update(now, readings); err != nil {
					fmt.Fprintf(&out, "%4v error: %v\n", now, err)
					continue
				}
				notify()
			}
		case "most":
			var share string
			d.ScanArgs(t, "share", &share)
			if _, err := fmt.Sscan(share, &th.maxRate); err != nil {
				t.Fatal(err)
			}
			notify()
		case "held":
			for i, l := range th.limits {
				fmt.Fprintf(&out, "%s %v\n", l.Name, th.held[i])
			}
		default:
			t.Fatalf("unknown command %s", d.Cmd)
		}
		return out.String()
	})
}

// TestThrottleFindsTheLimit runs the throttle against a server whose latency grows with the rate, as reported
// by a gateway: the worst of the last ten seconds. Whatever the capacity of the server, the copy ends near
// the limit and rarely exceeds it.
func TestThrottleFindsTheLimit(t *testing.T) {
	for _, bears := range []float64{0.05, 0.2, 0.5, 0.8, 2} {
		th := newThrottle([]Limit{{Name: "p99", Bound: 20, Memory: 10 * time.Second}}, time.Minute)
		var window [10]float64
		over, sum := 0, 0.0
		const from, seconds = 300, 1500
		for s := range seconds {
			window[s%len(window)] = 10 * (1 + th.allowed()/bears) // 20 at the server's capacity
			worst := 0.0
			for _, v := range window {
				worst = max(worst, v)
			}
			if err := th.update(time.Duration(s)*time.Second, []reading{{value: worst}}); err != nil {
				t.Fatal(err)
			}
			if s >= from {
				sum += th.allowed()
				if window[s%len(window)] > 20 {
					over++
				}
			}
		}
		want := min(bears, 1)
		if mean := sum / (seconds - from); mean < want/2 || mean > want || over > (seconds-from)/20 {
			t.Errorf("a server that bears %v: on average %.3f, above the limit in %d of %d seconds", bears, mean, over, seconds-from)
		}
	}
}
