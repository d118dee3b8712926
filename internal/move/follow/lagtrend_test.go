package follow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestLag runs testdata/lag: samples of the lag, and the resulting reports.
func TestLag(t *testing.T) {
	var c lagTrend
	datadriven.RunTest(t, "testdata/lag", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "new":
			c = lagTrend{}
			return ""
		case "looks": // a throttle has a reason, and changes waited half of the time
			var out strings.Builder
			var reason string
			var held time.Duration
			if d.HasArg("throttled") {
				reason = "the p99 is 30 ms, over 20 ms"
			}
			for line := range strings.Lines(d.Input) {
				var seconds, written, applied, changes int64 // MB
				if _, err := fmt.Sscanf(line, "%ds: written %d applied %d changes %d", &seconds, &written, &applied, &changes); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if reason != "" {
					held = time.Duration(seconds) * time.Second / 2
				}
				c.add(lagSample{at: time.Unix(1e9+seconds, 0), behind: (written - applied) * 1e6, applied: applied * 1e6, changes: changes, throttled: held})
				fmt.Fprintf(&out, "%ds: %.0f changes/s", seconds, c.perSecond())
				if eta := c.eta(); eta > 0 {
					fmt.Fprintf(&out, ", caught up in %v", eta)
				}
				if text := c.report(c.outrun(), reason); text != "" {
					fmt.Fprintf(&out, "\n     %s", text)
				}
				out.WriteByte('\n')
			}
			return out.String()
		}
		return "unknown command " + d.Cmd
	})
	c = lagTrend{}
	for i := range 10_000 {
		c.add(lagSample{at: time.Unix(int64(i), 0)})
	}
	if len(c.samples) > 100 {
		t.Errorf("%d looks are kept", len(c.samples))
	}
}
