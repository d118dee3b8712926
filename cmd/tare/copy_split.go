package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/move/copier"
)

// runSplit copies tables to several targets or from several sources, or prints the plans.
func runSplit(ctx context.Context, c *config.Copy, once copyFlags, log *slog.Logger, stdout, stderr io.Writer) error {
	parts, err := newCopyParts(c, once)
	if err != nil {
		return err
	}
	if once.dryRun {
		if err := checkHandover(ctx, c, parts.options); err != nil {
			return err
		}
		return parts.plan(ctx, once.json, stdout)
	}
	control, err := splitControl(c)
	if err != nil {
		return err
	}
	var screen copyScreen
	split, err := parts.start(control, func(e telemetry.Event) { screen.observe(e) })
	if err != nil {
		return err
	}
	if c.Cutover.On {
		if err := splitHandover(c, split); err != nil {
			return err
		}
	}
	gateway, err := copyGateway(c)
	if err != nil {
		return err
	}
	pages := copyPages{status: split.Status}
	if once.json {
		screen = jsonScreen(stdout)
	} else {
		screen = lineScreen(stderr) // bars have a line per table, and here each table is copied several times
	}
	screen = pages.recent.of(screen)
	metrics := make([]prometheus.Collector, len(parts.options))
	for i := range metrics {
		pages.metrics = append(pages.metrics, parts.options[i].Metrics)
		metrics[i] = prometheus.WrapCollectorWith(prometheus.Labels{parts.label(): parts.names[i]}, parts.options[i].Metrics)
	}
	s := newCopyServer("copy", c.HTTPAccess, metrics[0], log)
	s.Metrics.MustRegister(metrics[1:]...)
	end, err := pages.serve(ctx, s, gateway, c.Throttle.Limits.MaxP99)
	if err != nil {
		return err
	}
	defer end()
	reports, err := split.Run(ctx)
	screen.close()
	if err != nil {
		return copyError(ctx, err)
	}
	return parts.printReports(stdout, reports, once.json)
}

// copyParts are the parts of a copy to several targets or from several sources.
type copyParts struct {
	options []copier.Options
	names   []string // addresses of the targets or sources
	merges  bool     // from several sources
}

func newCopyParts(c *config.Copy, once copyFlags) (*copyParts, error) {
	p := &copyParts{merges: len(c.Sources) > 0}
	servers, part := c.Shards, c.Part
	if p.merges {
		servers, part = c.Sources, c.SourcePart
	}
	for i, u := range servers {
		o, err := copyOptions(part(i))
		if err != nil {
			return nil, err
		}
		o.Restart, o.Truncate = once.restart, once.truncate
		p.options, p.names = append(p.options, o), append(p.names, string(u.Addr))
	}
	return p, nil
}

// start returns the copy of all parts, which has not started.
func (p *copyParts) start(control string, observe func(telemetry.Event)) (*copier.Split, error) {
	if p.merges {
		return copier.NewMerge(p.options, p.names, control, observe)
	}
	return copier.NewSplit(p.options, control, observe)
}

// label returns the name of the label of metrics by which the parts differ.
func (p *copyParts) label() string {
	if p.merges {
		return "source"
	}
	return "target"
}

// heading returns the line above the output about a part.
func (p *copyParts) heading(i int) string {
	if p.merges {
		return "from " + p.names[i] + ":\n"
	}
	return "to " + p.names[i] + ":\n"
}

// plan prints the plan of each part.
func (p *copyParts) plan(ctx context.Context, asJSON bool, stdout io.Writer) error {
	var plans [][]copier.PlannedTable
	var err error
	if p.merges {
		plans, err = copier.PlanMerge(ctx, p.options, p.names)
	} else {
		plans, err = copier.PlanSplit(ctx, p.options)
	}
	if err != nil {
		return err
	}
	for i, planned := range plans {
		if !asJSON {
			fmt.Fprint(stdout, p.heading(i))
			for _, t := range planned {
				visible.Fprintf(stdout, "%s: %s\n", t.Target, t.Spec)
			}
		}
		if err := printPlan(stdout, planned, asJSON); err != nil {
			return err
		}
	}
	return nil
}

// printReports prints the report of each part and the verified rows of all. It returns an error if rows differ.
func (p *copyParts) printReports(w io.Writer, reports []*copier.Report, asJSON bool) error {
	var errs []error
	for i, r := range reports {
		if err := p.printReport(w, i, r, asJSON); err != nil {
			return err
		}
		if err := verifyError(r); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.names[i], err))
		}
	}
	if !asJSON {
		p.printTotals(w, reports)
	}
	if len(errs) > 0 {
		return &partialError{errors.Join(errs...)}
	}
	return nil
}

// printReport prints the report of one part, as a line of JSON or as text.
func (p *copyParts) printReport(w io.Writer, part int, r *copier.Report, asJSON bool) error {
	if !asJSON {
		fmt.Fprint(w, p.heading(part))
		return printCopyReport(w, r, false)
	}
	line := struct {
		Event string `json:"event"`
		From  string `json:"from,omitempty"`
		To    string `json:"to"`
		*copier.Report
	}{Event: "report", To: p.options[part].To.Addr, Report: r}
	if p.merges {
		line.From = p.names[part]
	}
	return json.NewEncoder(w).Encode(line)
}

// printTotals prints for each table that is verified in all parts its rows in total, and the next step after a handover.
func (p *copyParts) printTotals(w io.Writer, reports []*copier.Report) {
	for i, t := range reports[0].Tables {
		if rows, ok := verifiedRows(reports, i); ok {
			visible.Fprintf(w, "%s: verified in all %d %ss: %s in total\n", t.Source, len(reports), p.label(), quantity.Of(rows, "row"))
		}
	}
	if c := reports[0].Cutover; c != nil && c.Phase == cutover.PhaseHanded {
		fmt.Fprintln(w, "the source is read-only: start the clients with the targets")
	}
}

// verifiedRows returns the rows of a table in all parts, and false unless all of them were compared and are equal.
func verifiedRows(reports []*copier.Report, table int) (rows int64, ok bool) {
	for _, r := range reports {
		v := r.Tables[table].Verify
		if v == nil || v.Mismatches() > 0 || v.Incomplete() {
			return 0, false
		}
		rows += v.Rows
	}
	return rows, true
}

// splitHandover makes a split end with a handover.
func splitHandover(c *config.Copy, split *copier.Split) error {
	from, err := loadLeg(c.FromTLS, "--tls-ca", c.TLSCA, &c.FromKey)
	if err != nil {
		return err
	}
	source := from.server(c.From.MySQL)
	source.Patience = c.Copy.Patience
	return split.HandOver(cutover.HandoverOptions{Source: source, Lag: c.Cutover.Options.Lag, MaxPause: c.Cutover.Options.MaxPause, Tries: c.Cutover.Options.Tries})
}

// checkHandover returns an error if the source's account may not stop the writes at the end.
func checkHandover(ctx context.Context, c *config.Copy, parts []copier.Options) error {
	if !c.Cutover.On {
		return nil
	}
	split, err := copier.NewSplit(parts, "", nil)
	if err == nil {
		err = splitHandover(c, split)
	}
	if err != nil {
		return err
	}
	return split.CheckHandover(ctx)
}
