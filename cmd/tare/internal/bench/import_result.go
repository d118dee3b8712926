package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/taredb/tare/internal/chart"
)

// An ImportSample is a sample of the target.
type ImportSample struct {
	Seconds   float64  `json:"seconds"`  // since the start of the import
	Imported  int64    `json:"imported"` // bytes of acknowledged statements
	RSS       *float64 `json:"rss_bytes,omitempty"`
	Heap      *float64 `json:"heap_bytes,omitempty"`       // in use
	PlanCache *float64 `json:"plan_cache_bytes,omitempty"` // from the target's metric
}

// An ImportResult is the effect of an import on the target's memory.
type ImportResult struct {
	Bytes          int64   `json:"bytes"`
	Rows           int64   `json:"rows"`
	Statements     int64   `json:"statements"`
	LargestBytes   int64   `json:"largest_statement_bytes"`
	Connections    int     `json:"connections"`
	Seconds        float64 `json:"seconds"`
	MiBPerSecond   float64 `json:"mib_per_second"`
	CPUNanosPerMiB float64 `json:"cpu_ns_per_mib,omitempty"` // of the target

	// Samples before the import and after it, each after a collection if the target's pages support that, and
	// the maxima of all samples.
	Idle  ImportSample `json:"idle"`
	Peak  ImportSample `json:"peak"`
	After ImportSample `json:"after"`

	Samples []ImportSample `json:"samples"`
}

// memory formats a sample's memory for a line of progress.
func (s *ImportSample) memory() string {
	var text strings.Builder
	for _, m := range []struct {
		name string
		v    *float64
	}{{"resident", s.RSS}, {"heap", s.Heap}, {"plan cache", s.PlanCache}} {
		if m.v != nil {
			fmt.Fprintf(&text, ", %s %.1f MiB", m.name, *m.v/(1<<20))
		}
	}
	return text.String()
}

// peak returns the maximum of each metric over all samples.
func peak(samples []ImportSample) ImportSample {
	var p ImportSample
	most := func(to **float64, v *float64) {
		if v != nil && (*to == nil || *v > **to) {
			*to = v
		}
	}
	for i := range samples {
		most(&p.RSS, samples[i].RSS)
		most(&p.Heap, samples[i].Heap)
		most(&p.PlanCache, samples[i].PlanCache)
		p.Seconds, p.Imported = samples[i].Seconds, samples[i].Imported
	}
	return p
}

// Write writes the series to import.json and the drawing to import.svg in a directory.
func (r *ImportResult) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("write the series: %w", err)
	}
	var series bytes.Buffer
	if err := r.WriteJSON(&series); err != nil {
		return fmt.Errorf("write the series: %w", err)
	}
	for name, b := range map[string][]byte{"import.json": series.Bytes(), "import.svg": r.chart().AppendSVG(nil)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			return fmt.Errorf("write the series: %w", err)
		}
	}
	return nil
}

// chart draws memory over time.
func (r *ImportResult) chart() *chart.Chart {
	p := chart.Panel{Title: "MiB"}
	for _, l := range []struct {
		name, color string
		of          func(*ImportSample) *float64
	}{
		{"resident", "#c0392b", func(s *ImportSample) *float64 { return s.RSS }},
		{"heap in use", "#2471a3", func(s *ImportSample) *float64 { return s.Heap }},
		{"plan cache", "#1e8449", func(s *ImportSample) *float64 { return s.PlanCache }},
	} {
		line := chart.Line{Name: l.name, Color: l.color}
		for i := range r.Samples {
			if v := l.of(&r.Samples[i]); v != nil {
				line.X = append(line.X, r.Samples[i].Seconds)
				line.Y = append(line.Y, *v/(1<<20))
			}
		}
		if len(line.X) > 0 {
			p.Lines = append(p.Lines, line)
		}
	}
	return &chart.Chart{
		Title: fmt.Sprintf("%d MiB in %d INSERTs of up to %.1f MiB over %d connections: memory of the process that relays them",
			r.Bytes>>20, r.Statements, float64(r.LargestBytes)/(1<<20), r.Connections),
		XLabel: "seconds", Panels: []chart.Panel{p},
	}
}

// WriteJSON prints the result with all samples.
func (r *ImportResult) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}

// WriteText prints the result for people.
func (r *ImportResult) WriteText(w io.Writer) error {
	b := fmt.Appendf(nil, "%s MiB in %s statements of up to %.1f MiB, %s rows, over %d connections: %.1f s, %.1f MiB/s",
		grouped(float64(r.Bytes>>20)), grouped(float64(r.Statements)), float64(r.LargestBytes)/(1<<20), grouped(float64(r.Rows)), r.Connections, r.Seconds, r.MiBPerSecond)
	if r.CPUNanosPerMiB > 0 {
		b = fmt.Appendf(b, ", %.2f ms of CPU a MiB", r.CPUNanosPerMiB/1e6)
	}
	for _, s := range []struct {
		name string
		at   *ImportSample
	}{{"idle", &r.Idle}, {"peak", &r.Peak}, {"after", &r.After}} {
		b = fmt.Appendf(b, "\n%s%s", s.name, s.at.memory())
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}
