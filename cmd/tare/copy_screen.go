package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/web"
)

// A copyScreen shows the progress of a copy: JSON lines for programs, bars on a terminal, and plain lines elsewhere.
type copyScreen struct {
	observe func(telemetry.Event)
	close   func()
}

// A recentLines has the latest lines of a screen, for a page.
type recentLines struct {
	mu    sync.Mutex
	lines []web.ProgressLine
}

// shownLines bounds the lines of a page.
const shownLines = 100

// of returns a screen whose lines are recorded too.
func (r *recentLines) of(s copyScreen) copyScreen {
	return copyScreen{close: s.close, observe: func(e telemetry.Event) {
		s.observe(e)
		if text := eventText(e); text != "" {
			r.add(text)
		}
	}}
}

func (r *recentLines) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == shownLines {
		r.lines = slices.Delete(r.lines, 0, 1)
	}
	r.lines = append(r.lines, web.ProgressLine{Time: time.Now(), Text: text})
}

// heapBytes returns the heap bytes of the lines.
func (r *recentLines) heapBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := heapsize.Slice(r.lines)
	for i := range r.lines {
		n += heapsize.String(r.lines[i].Text)
	}
	return int64(n)
}

// A copyPages has the state that the HTTP server of a copy or an alteration shows.
type copyPages struct {
	status func() telemetry.Status
	live   *throttle.Live // nil: no gateway is known
	recent recentLines

	metrics []*copier.Metrics // of its copies
}

// heapOwners returns the parts of a copy or an alteration whose heap is counted.
func (p *copyPages) heapOwners() []memory.Owner {
	sum := func(of func(*copier.HeapBytes) int64) func() int64 {
		return func() (n int64) {
			for _, m := range p.metrics {
				n += of(&m.Heap)
			}
			return n
		}
	}
	return []memory.Owner{
		{Name: "connections", Bytes: sum(func(h *copier.HeapBytes) int64 { return h.Connections.Load() })},
		{Name: "changes", Bytes: sum(func(h *copier.HeapBytes) int64 { return h.Changes.Load() })},
		{Name: "definitions", Bytes: sum(func(h *copier.HeapBytes) int64 { return h.Definitions.Load() })},
		{Name: "progress", Bytes: p.recent.heapBytes},
	}
}

// progress returns the state for the page.
func (p *copyPages) progress() web.Progress {
	all := web.Progress{Status: p.status()}
	if p.live != nil {
		live := p.live.Status(&all.Throttle)
		all.Live = &live
	}
	p.recent.mu.Lock()
	defer p.recent.mu.Unlock()
	all.Lines = append([]web.ProgressLine{}, p.recent.lines...)
	return all
}

// serve serves the pages of s, unless its HTTP is off, and records the p99 of a gateway, if there is one, until end is called.
func (p *copyPages) serve(ctx context.Context, s *server.Server, g gatewayclient.Gateway, limit time.Duration) (end func(), err error) {
	_ = json.NewEncoder(io.Discard).Encode(telemetry.Event{}) // its tables of types belong to the base of the heap
	if g.URL != "" && s.HTTP != "" {
		p.live = throttle.NewLive(g, limit)
	}
	stop, err := s.ServePages(web.Options{Progress: p.progress}, p.heapOwners()...)
	if err != nil || p.live == nil {
		return stop, err
	}
	polled := p.live.Start(ctx)
	return func() {
		stop()
		polled()
	}, nil
}

func newCopyScreen(tables []tabledef.Spec, asJSON bool, stdout, stderr io.Writer) copyScreen {
	if asJSON {
		return jsonScreen(stdout)
	}
	if f := terminal(stderr); f != nil {
		return barScreen(f, tables)
	}
	return lineScreen(stderr)
}

func jsonScreen(w io.Writer) copyScreen {
	var mu sync.Mutex
	encoder := json.NewEncoder(w)
	return copyScreen{close: func() {}, observe: func(e telemetry.Event) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(e) // a closed reader does not end the copy
	}}
}

// eventText formats an event that people should see immediately, with its target or source if there are several; it is empty for others.
func eventText(e telemetry.Event) string {
	text := targetEventText(e)
	if part := cmp.Or(e.From, e.To); text != "" && part != "" {
		text = part + ": " + text
	}
	return visible.Line(text)
}

func targetEventText(e telemetry.Event) string {
	switch e.Kind {
	case telemetry.EventSnapshot:
		return "the source is read as of one moment: " + e.Text
	case telemetry.EventNotCopied:
		return "not copied: " + e.Text
	case telemetry.EventObject:
		return "created: " + e.Text
	case telemetry.EventTable:
		if e.Chunks > 0 {
			return fmt.Sprintf("%s: resuming after %s with %s", e.Table, quantity.Of(e.Chunks, "chunk"), quantity.Of(e.Rows, "row"))
		}
		return fmt.Sprintf("%s: about %s", e.Table, quantity.Of(e.RowsEstimate, "row"))
	case telemetry.EventRetry:
		if e.Table == "" {
			return e.Text
		}
		return fmt.Sprintf("%s: chunk %d is repeated: %s", e.Table, e.Chunk, e.Text)
	case telemetry.EventIndexes:
		return fmt.Sprintf("%s: building %s", e.Table, e.Text)
	case telemetry.EventDone:
		return fmt.Sprintf("%s: done, %s", e.Table, quantity.Of(e.Rows, "row"))
	case telemetry.EventFollow:
		return "the source's changes are applied from " + e.Text + " on"
	case telemetry.EventCaughtUp, telemetry.EventOutrun, telemetry.EventCutover, telemetry.EventAlter, telemetry.EventControl, telemetry.EventWait, telemetry.EventWaited:
		return e.Text
	case telemetry.EventThrottle:
		return throttleText(e)
	case telemetry.EventDiffers:
		return fmt.Sprintf("%s: chunk %d is not equal: %s", e.Table, e.Chunk, e.Text)
	}
	return ""
}

// lagText formats the target's lag.
func lagText(l *telemetry.Lag) string {
	text := fmt.Sprintf("%d changes, %.0f/s; ", l.Changes, l.PerSecond)
	text += l.Text()
	if l.Bytes != nil && *l.Bytes > 0 {
		text += fmt.Sprintf(", %s of log to apply", megabytes(*l.Bytes))
	}
	if l.ETASeconds > 0 && !l.CaughtUp {
		text += fmt.Sprintf(", caught up in about %v", time.Duration(l.ETASeconds*float64(time.Second)).Round(time.Second))
	}
	if l.Outrun != nil {
		text += "; it will not catch up: " + l.Outrun.String()
	}
	return text
}

// linePause is the interval between plain progress lines.
const linePause = 10 * time.Second

// lineScreen writes one line per event, and a progress line at intervals.
func lineScreen(w io.Writer) copyScreen {
	var mu sync.Mutex
	var verified int64
	notified := time.Now()
	return copyScreen{close: func() {}, observe: func(e telemetry.Event) {
		mu.Lock()
		defer mu.Unlock()
		if text := eventText(e); text != "" {
			fmt.Fprintln(w, text)
			return
		}
		if e.Kind == telemetry.EventVerified {
			verified += e.Rows
		}
		if now := time.Now(); now.Sub(notified) >= linePause {
			notified = now
			if e.Kind == telemetry.EventLag {
				if part := cmp.Or(e.From, e.To); part != "" {
					fmt.Fprint(w, part+": ")
				}
				fmt.Fprintln(w, lagText(e.Lag))
				return
			}
			if verified > 0 {
				visible.Fprintf(w, "compared: %s\n", quantity.Of(verified, "row"))
				return
			}
			if e.Progress != nil {
				fmt.Fprintln(w, e.Progress.Text())
			}
		}
	}}
}

// barPause is the interval between redraws of the bars.
const barPause = 200 * time.Millisecond

// barWidth is the width of a table's bar in characters.
const barWidth = 30

// A tableBar is the progress of a table.
type tableBar struct {
	name           string
	rows, estimate int64
	copied, bytes  int64 // rows and bytes of this run
	started        time.Time
	done           bool
}

// bars is a terminal with a bar per table below the events.
type bars struct {
	out   io.Writer
	width func() int
	now   func() time.Time

	mu     sync.Mutex
	tables []*tableBar
	lag    string // the line below the bars
	drawn  int    // lines of the last drawing
}

// barScreen draws a bar for each table.
func barScreen(w *os.File, specs []tabledef.Spec) copyScreen {
	b := newBars(w, specs, func() int {
		if size, err := unix.IoctlGetWinsize(int(w.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
		return 80
	}, time.Now)
	stop := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		every := time.NewTicker(barPause)
		defer every.Stop()
		for {
			select {
			case <-stop:
				b.draw("")
				return
			case <-every.C:
				b.draw("")
			}
		}
	})
	return copyScreen{observe: b.observe, close: func() {
		close(stop)
		drawing.Wait()
	}}
}

func newBars(w io.Writer, specs []tabledef.Spec, width func() int, now func() time.Time) *bars {
	b := &bars{out: w, width: width, now: now}
	for _, spec := range specs {
		b.tables = append(b.tables, &tableBar{name: visible.Line(spec.Schema + "." + spec.Name), started: now()})
	}
	return b
}

// observe updates the bars, and prints events for people above them.
func (b *bars) observe(e telemetry.Event) {
	b.mu.Lock()
	if i := slices.IndexFunc(b.tables, func(t *tableBar) bool { return t.name == visible.Line(e.Table) }); i >= 0 {
		t := b.tables[i]
		switch e.Kind {
		case telemetry.EventTable:
			t.rows, t.estimate = e.Rows, max(e.RowsEstimate, e.Rows+1)
		case telemetry.EventChunk:
			t.rows, t.copied, t.bytes = t.rows+e.Rows, t.copied+e.Rows, t.bytes+e.Bytes
		case telemetry.EventDone:
			t.rows, t.done = e.Rows, true
		}
	}
	if e.Kind == telemetry.EventLag {
		b.lag = lagText(e.Lag)
	}
	b.mu.Unlock()
	switch e.Kind {
	case telemetry.EventRetry, telemetry.EventSnapshot, telemetry.EventNotCopied, telemetry.EventObject, telemetry.EventIndexes, telemetry.EventThrottle, telemetry.EventFollow, telemetry.EventCaughtUp, telemetry.EventOutrun, telemetry.EventCutover, telemetry.EventAlter, telemetry.EventControl, telemetry.EventDiffers:
		b.draw(eventText(e) + "\n")
	}
}

// draw replaces the bars by a text and the bars below it. No line is wider than the terminal, because the
// cursor moves up by the number of lines drawn.
func (b *bars) draw(above string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text strings.Builder
	if b.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", b.drawn)
	}
	text.WriteString("\r\x1b[J" + above)
	name := 0
	for _, t := range b.tables {
		name = max(name, len(t.name))
	}
	width := b.width() - 1
	line := func(s string) {
		if r := []rune(s); len(r) > width {
			s = string(r[:width])
		}
		text.WriteString(s + "\n")
	}
	for _, t := range b.tables {
		line(t.line(name, b.now()))
	}
	b.drawn = len(b.tables)
	if b.lag != "" {
		line(b.lag)
		b.drawn++
	}
	_, _ = io.WriteString(b.out, text.String()) // a closed terminal does not end the copy
}

// line returns the bar of a table whose name is padded to a width.
func (t *tableBar) line(name int, now time.Time) string {
	seconds := max(now.Sub(t.started).Seconds(), 1e-3)
	part := 0.0
	if t.estimate > 0 {
		part = min(float64(t.rows)/float64(t.estimate), 1)
	}
	rest := fmt.Sprintf("%3.0f %%", 100*part)
	if t.done {
		part, rest = 1, "done"
	} else if left := t.estimate - t.rows; t.copied > 0 && left > 0 {
		rest += " " + (time.Duration(seconds*float64(left)/float64(t.copied)) * time.Second).Round(time.Second).String()
	}
	full := int(part * barWidth)
	return fmt.Sprintf("%-*s %12d rows %7.1f MB/s [%s%s] %s", name, t.name, t.rows, float64(t.bytes)/1e6/seconds,
		strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), rest)
}
