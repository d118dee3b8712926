package top

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// plain returns a frame as text for output without a terminal.
func plain(o ModelOptions, f *Frame) string {
	m := NewModel(o)
	m.Resize(1<<20, len(f.Rows)+headLines+footLines)
	m.Show(f)
	var b strings.Builder
	for _, line := range m.head() {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString(strings.TrimRight(m.tableHead(), " ") + "\n")
	for i := range f.Rows {
		b.WriteString(strings.TrimRight("  "+m.row(&f.Rows[i]), " ") + "\n")
	}
	if f.Sessions != nil {
		b.WriteString(f.Sessions.plain())
	}
	return b.String()
}

// printedAge is the age from which sessions are printed below the table.
const printedAge = 1.0

// plain returns the statements that have run longer than printedAge, and transactions that have been open as long; "" if
// there is none.
func (s *Sessions) plain() string {
	var b strings.Builder
	seen := make(map[uint64]bool)
	for _, list := range [][]Session{s.Sessions, s.Transactions} {
		for i := range list {
			if l := &list[i]; !seen[l.Session] && max(l.Seconds, l.Transaction) >= printedAge {
				if seen[l.Session] = true; len(seen) == 1 {
					b.WriteString("\nRunning longer than a second\n  " + sessionHead(true) + "\n")
				}
				b.WriteString(strings.TrimRight("  "+l.line(true), " ") + "\n")
			}
		}
	}
	return b.String()
}

// frameJSON is a frame in the form of --json.
type frameJSON struct {
	At       time.Time   `json:"at"`
	Seconds  float64     `json:"seconds"`
	Source   string      `json:"source"`
	Since    time.Time   `json:"since"`
	Live     Live        `json:"live"`
	Matching int         `json:"matching"`
	Rows     []*lineJSON `json:"statements"`
	Sessions *Sessions   `json:"sessions,omitempty"` // as returned by /api/v1/sessions
}

// lineJSON is a statement. Without an earlier reading that covers it, it has no rates.
type lineJSON struct {
	Key
	Text   string   `json:"text"`
	Cut    bool     `json:"text_cut,omitempty"`
	Load   *float64 `json:"load,omitempty"`
	Calls  *float64 `json:"calls_per_second,omitempty"`
	Errors *float64 `json:"errors_per_second,omitempty"`
	Rows   *float64 `json:"rows_per_second,omitempty"`
	Mean   *float64 `json:"mean_us,omitempty"`
	P99    *float64 `json:"p99_us,omitempty"`
	Total  Counts   `json:"total"`
}

// writeJSON prints a frame as one line.
func writeJSON(w io.Writer, f *Frame) error {
	out := frameJSON{At: f.At, Seconds: f.Over.Seconds(), Source: f.Source, Since: f.Since, Live: f.Live, Matching: f.Matching, Sessions: f.Sessions, Rows: make([]*lineJSON, 0, len(f.Rows))}
	for i := range f.Rows {
		l := &f.Rows[i]
		j := &lineJSON{Key: l.Key, Text: l.Text, Cut: l.TextCut, Total: l.Total}
		if l.Known {
			mean, p99 := float64(l.Mean)/1e3, float64(l.P99)/1e3
			j.Load, j.Calls, j.Errors, j.Rows, j.Mean, j.P99 = &l.Load, &l.Calls, &l.Errors, &l.RowRate, &mean, &p99
		}
		out.Rows = append(out.Rows, j)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&out); err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	return nil
}
