package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A trace is what a throttled copy and the traffic beside it did, second by second.
type trace struct {
	statement   float64 // the bound: ms of a statement, as the gateway tells it
	transaction float64 // twice what sysbench felt alone, ms
	seconds     []second
}

// A second is what was seen at its end.
type second struct {
	at          time.Duration
	transaction float64 // p99 of sysbench's transactions of this second, ms
	statement   float64 // p99 of the gateway's statements of the last ten, ms
	share       float64 // of full speed, that the copy may use
	bytes       int64   // copied so far
	reason      string  // why the share is not 1
}

func (t *trace) add(s second) { t.seconds = append(t.seconds, s) }

// over counts the seconds in which transactions were slower than they may be.
func (t *trace) over() (n int) {
	for _, s := range t.seconds {
		if s.transaction > t.transaction {
			n++
		}
	}
	return n
}

// speed is MB/s within the five seconds before second i: rows count when their chunk is written.
func (t *trace) speed(i int) float64 {
	from := max(0, i-5)
	took := (t.seconds[i].at - t.seconds[from].at).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(t.seconds[i].bytes-t.seconds[from].bytes) / 1e6 / took
}

func (t *trace) writeFile(path string, write func(io.Writer) error) (err error) {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

func (t *trace) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"seconds", "transaction_p99_ms", "statement_p99_ms", "bound_ms", "share", "mb_per_second", "reason"}) // Error tells
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	for i, s := range t.seconds {
		_ = c.Write([]string{
			number(s.at.Seconds()), number(s.transaction), number(s.statement), number(t.statement), number(s.share), number(t.speed(i)), s.reason,
		})
	}
	c.Flush()
	return c.Error()
}

// The drawing's measures, in SVG's user units.
const (
	drawWidth   = 720
	drawLeft    = 56
	drawRight   = 16
	panelHeight = 110
	panelStep   = panelHeight + 44
	drawTop     = 40
)

// A panel is one figure over time.
type panel struct {
	title  string
	bound  float64 // a line across; 0: none
	values []float64
}

// writeSVG draws the p99, the share and the speed, one below the other.
func (t *trace) writeSVG(w io.Writer) error {
	panels := []panel{
		{title: "p99 of a statement, ms (last 10 s), and its bound", bound: t.statement},
		{title: "p99 of a transaction, ms (each second), and twice that of the traffic alone", bound: t.transaction},
		{title: "share of full speed that the copy may use, %"},
		{title: "copied, MB/s"},
	}
	end := 1.0
	for i, s := range t.seconds {
		end = max(end, s.at.Seconds())
		for p, v := range []float64{s.statement, s.transaction, 100 * s.share, t.speed(i)} {
			panels[p].values = append(panels[p].values, v)
		}
	}
	height := drawTop + len(panels)*panelStep
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t d" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">
  <title id="t">A copy that keeps the p99 of live traffic below a bound</title>
  <desc id="d">Over time: the p99 of statements and of transactions with their bounds, the share of full speed that the copy may use, and how fast it copies.</desc>
  <rect width="%d" height="%d" rx="14" fill="#f8fafc"/>
`, drawWidth, height, drawWidth, height)
	for i := range panels {
		panels[i].draw(&b, t.seconds, float64(drawTop+i*panelStep), end)
	}
	fmt.Fprintf(&b, `  <text x="%d" y="%d" fill="#475569">0 s</text><text x="%d" y="%d" text-anchor="end" fill="#475569">%.0f s</text>`+"\n</svg>\n",
		drawLeft, height-18, drawWidth-drawRight, height-18, end)
	_, err := io.WriteString(w, b.String())
	return err
}

// draw draws a panel whose upper edge is at top.
func (p *panel) draw(b *strings.Builder, seconds []second, top, end float64) {
	most := p.bound
	for _, v := range p.values {
		most = max(most, v)
	}
	step := niceStep(most / 3)
	most = max(1, math.Ceil(most/step)) * step
	const width = drawWidth - drawLeft - drawRight
	y := func(v float64) float64 { return top + panelHeight*(1-v/most) }
	fmt.Fprintf(b, `  <text x="%d" y="%.0f" fill="#0f172a">%s</text>`+"\n", drawLeft, top-10, html.EscapeString(p.title))
	for i := 0; float64(i)*step <= most*(1+1e-9); i++ {
		v := float64(i) * step
		fmt.Fprintf(b, `  <path d="M%d %.1fh%d" stroke="#cbd5e1"/><text x="%d" y="%.1f" text-anchor="end" fill="#475569">%.4g</text>`+"\n",
			drawLeft, y(v), width, drawLeft-8, y(v)+4, v)
	}
	b.WriteString(`  <path fill="none" stroke="#0f766e" stroke-width="2" d="`)
	for i, v := range p.values {
		fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(i, 1)], drawLeft+width*seconds[i].at.Seconds()/end, y(v))
	}
	b.WriteString("\"/>\n")
	if p.bound > 0 {
		fmt.Fprintf(b, `  <path d="M%d %.1fh%d" stroke="#be123c" stroke-width="1.5" stroke-dasharray="6 4"/>`+"\n", drawLeft, y(p.bound), width)
	}
}

// niceStep is a step of 1, 2 or 5 times a power of ten, at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(v, 1e-3))))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}
