package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
)

// A copyScreen shows people or programs what a copy does: JSON lines, bars on a terminal, or
// plain lines elsewhere.
type copyScreen struct {
	observe func(telemetry.Event)
	close   func()
}

func newCopyScreen(tables []tabledef.Spec, asJSON bool, stdout, stderr io.Writer) copyScreen {
	if asJSON {
		return jsonScreen(stdout)
	}
	if f, ok := stderr.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return barScreen(stderr, tables)
	}
	return lineScreen(stderr)
}

func jsonScreen(w io.Writer) copyScreen {
	var mu sync.Mutex
	encoder := json.NewEncoder(w)
	return copyScreen{close: func() {}, observe: func(e telemetry.Event) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(e) // a reader that has gone does not end the copy
	}}
}

// eventText is an event that people want to read as it happens, empty for others.
func eventText(e telemetry.Event) string {
	switch e.Kind {
	case telemetry.EventSnapshot:
		return "the source is read as of one moment: " + e.Text
	case telemetry.EventNotCopied:
		return "not copied: " + e.Text
	case telemetry.EventTable:
		if e.Chunks > 0 {
			return fmt.Sprintf("%s: resuming after %d chunks with %d rows", e.Table, e.Chunks, e.Rows)
		}
		return fmt.Sprintf("%s: about %d rows", e.Table, e.RowsEstimate)
	case telemetry.EventRetry:
		if e.Table == "" {
			return "changes are applied again: " + e.Text
		}
		return fmt.Sprintf("%s: chunk %d is repeated: %s", e.Table, e.Chunk, e.Text)
	case telemetry.EventIndexes:
		return fmt.Sprintf("%s: building %s", e.Table, e.Text)
	case telemetry.EventDone:
		return fmt.Sprintf("%s: done, %d rows", e.Table, e.Rows)
	case telemetry.EventFollow:
		return "the source's changes are applied from " + e.Text + " on"
	case telemetry.EventCaughtUp, telemetry.EventOutrun, telemetry.EventCutover, telemetry.EventControl, telemetry.EventWait, telemetry.EventWaited:
		return e.Text
	case telemetry.EventThrottle:
		return throttleText(e)
	case telemetry.EventDiffers:
		return fmt.Sprintf("%s: chunk %d is not equal: %s", e.Table, e.Chunk, e.Text)
	}
	return ""
}

// lagText is how far the target is behind.
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

// linePause is how often a plain line tells the progress.
const linePause = 10 * time.Second

// lineScreen writes a line an event, and one with the progress now and then.
func lineScreen(w io.Writer) copyScreen {
	var mu sync.Mutex
	var verified int64
	told := time.Now()
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
		if now := time.Now(); now.Sub(told) >= linePause {
			told = now
			if e.Kind == telemetry.EventLag {
				fmt.Fprintln(w, lagText(e.Lag))
				return
			}
			if verified > 0 {
				fmt.Fprintf(w, "%d rows are compared\n", verified)
				return
			}
			if e.Progress != nil {
				fmt.Fprintln(w, e.Progress.Text())
			}
		}
	}}
}

// barScreen draws a bar for each table.
func barScreen(w io.Writer, tables []tabledef.Spec) copyScreen {
	progress := mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(200*time.Millisecond))
	var mu sync.Mutex
	type table struct {
		bar     *mpb.Bar
		rows    int64
		bytes   int64
		started time.Time
		done    bool
	}
	bars := make(map[string]*table)
	for _, spec := range tables {
		t := &table{started: time.Now()}
		name := spec.Schema + "." + spec.Name
		speed := func(decor.Statistics) string {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprintf("%d rows  %.1f MB/s ", t.rows, float64(t.bytes)/1e6/time.Since(t.started).Seconds())
		}
		t.bar = progress.AddBar(0,
			mpb.PrependDecorators(decor.Name(name+" ", decor.WCSyncSpaceR), decor.Any(speed, decor.WCSyncSpace)),
			mpb.AppendDecorators(decor.OnComplete(decor.Percentage(), "done"), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8}), "")))
		bars[name] = t
	}
	var follow lagLine
	observe := func(e telemetry.Event) {
		mu.Lock()
		t := bars[e.Table]
		if t != nil && e.Kind == telemetry.EventChunk {
			t.rows, t.bytes = t.rows+e.Rows, t.bytes+e.Bytes
		}
		mu.Unlock()
		switch e.Kind {
		case telemetry.EventTable:
			t.bar.SetTotal(max(e.RowsEstimate, e.Rows+1), false)
			t.bar.SetCurrent(e.Rows)
		case telemetry.EventChunk:
			t.bar.IncrInt64(e.Rows)
		case telemetry.EventDone:
			mu.Lock()
			t.rows, t.done = e.Rows, true
			mu.Unlock()
			t.bar.SetTotal(-1, true)
		case telemetry.EventLag:
			follow.show(progress, lagText(e.Lag))
		case telemetry.EventRetry, telemetry.EventSnapshot, telemetry.EventNotCopied, telemetry.EventIndexes, telemetry.EventThrottle, telemetry.EventFollow, telemetry.EventCaughtUp, telemetry.EventOutrun, telemetry.EventCutover, telemetry.EventControl, telemetry.EventDiffers:
			fmt.Fprintln(progress, eventText(e))
		}
	}
	end := func() {
		for _, t := range bars {
			if !t.done {
				t.bar.Abort(false)
			}
		}
		follow.end()
		progress.Wait()
	}
	return copyScreen{observe: observe, close: end}
}

// A lagLine is the line below the bars that tells how far the target is behind.
type lagLine struct {
	bar *mpb.Bar // nil until there is something to tell; of the goroutine that tells, and afterwards of who ends it

	mu   sync.Mutex
	text string // under mu
}

func (l *lagLine) show(p *mpb.Progress, text string) {
	l.mu.Lock()
	l.text = text
	l.mu.Unlock() // the line is drawn with the lock held
	if l.bar == nil {
		l.bar = p.New(0, mpb.NopStyle(), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.text
		})))
	}
}

func (l *lagLine) end() {
	if l.bar != nil {
		l.bar.Abort(false)
	}
}
