package cutover

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestCutMachine runs testdata/cutover: the results of steps, and the steps that follow.
func TestCutMachine(t *testing.T) {
	var m *machine
	routes := map[string]route{"source": routeSource, "target": routeTarget, "unknown": routeUnknown}
	datadriven.RunTest(t, "testdata/cutover", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		emit := func(what string) {
			fmt.Fprintf(&out, "%-12s -> %s", what, m.step)
			if m.step == stepPause {
				fmt.Fprintf(&out, " %v", m.pause())
			}
			if !m.followable() {
				fmt.Fprintf(&out, " [%s]", m.phase)
			}
			if m.err != nil {
				text, _, _ := strings.Cut(m.err.Error(), "; see docs")
				fmt.Fprintf(&out, ": %s", text)
			}
			out.WriteByte('\n')
		}
		if d.Cmd == "begin" {
			var noted string
			reverse := !d.HasArg("no-window")
			if d.HasArg("noted") {
				d.ScanArgs(t, "noted", &noted)
			}
			m = newMachine(phase(noted), 3, reverse)
			emit("begin")
		}
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			switch at, ok := routes[line]; {
			case ok:
				m.route(at)
			case line == "ok":
				m.ok()
			default:
				m.failed(errors.New(line))
			}
			emit(line)
		}
		return out.String()
	})
}
