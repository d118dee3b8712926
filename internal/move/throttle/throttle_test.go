package throttle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/taredb/tare/internal/testseed"
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

// TestThrottleFindsTheLimit runs the throttle against a server whose latency grows with the rate, and which exceeds the limit in a part of
// the seconds without the copy. The seconds within the limit are about 95 % of those without the copy or more, and the copy is not much slower
// than the server permits. In bursts of traffic the server bears less.
func TestThrottleFindsTheLimit(t *testing.T) {
	rnd := testseed.Rand(t)
	shares, means, runs := 0.0, 0.0, 0.0
	for _, bears := range []float64{0.05, 0.2, 0.5, 0.8, 2} {
		for _, noise := range []float64{0, 0.05, 0.25} {
			for _, burst := range []float64{1, 0.4} {
				th := newThrottle([]Limit{{Name: "p99", Bound: 20, Memory: 2 * time.Second}}, time.Minute)
				const from, seconds, inRow = 300, 4000, 0.5 // inRow: how much likelier such a second is after another one
				within, alone, sum, noisy := 0, 0, 0.0, false
				for s := range seconds {
					capacity := bears
					if s%30 < 10 {
						capacity *= burst
					}
					value := 10 * (1 + th.allowed()/capacity) // 20 at the server's capacity
					noisy = rnd.Float64() < noise*(1-inRow)+inRow && noisy || rnd.Float64() < noise*(1-inRow)
					if noisy {
						value = max(value, 25+40*rnd.Float64())
					}
					if err := th.update(time.Duration(s)*time.Second, []reading{{value: value}}); err != nil {
						t.Fatal(err)
					}
					if s < from {
						continue
					}
					sum += th.allowed()
					if value <= 20 {
						within++
					}
					if !noisy {
						alone++
					}
				}
				mean, share := sum/(seconds-from)/min(bears, 1), float64(within)/float64(alone)
				t.Logf("bears %v, noise %v, bursts %v: %.3f of the seconds, speed %.2f", bears, noise, burst, share, mean)
				shares, means, runs = shares+share, means+mean, runs+1
				if share < 0.9 {
					t.Errorf("a server that bears %v, %v in bursts, and exceeds the limit in %v: within the limit in %.3f of the seconds that are without the copy", bears, burst, noise, share)
				}
				if noise == 0 && mean < 0.6*burst {
					t.Errorf("a server that bears %v, %v in bursts: %.2f of the speed", bears, burst, mean)
				}
			}
		}
	}
	if shares/runs < 0.95 || means/runs < 0.45 {
		t.Errorf("of all servers: within the limit in %.3f of the seconds that are without the copy, speed %.2f", shares/runs, means/runs)
	}
}
