package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/quantity"
)

// runSplit copies tables to several targets, or prints the plans.
func runSplit(ctx context.Context, c *config.Copy, once copyFlags, log *slog.Logger, stdout, stderr io.Writer) error {
	parts := make([]copier.Options, len(c.Shards))
	for i := range parts {
		o, err := copyOptions(c.Part(i))
		if err != nil {
			return err
		}
		o.Restart, o.Truncate, o.Metrics = once.restart, once.truncate, &copier.Metrics{}
		parts[i] = o
	}
	if once.dryRun {
		return planSplit(ctx, parts, once.json, stdout)
	}
	control, err := splitControl(c)
	if err != nil {
		return err
	}
	var screen copyScreen
	split, err := copier.NewSplit(parts, control, func(e telemetry.Event) { screen.observe(e) })
	if err != nil {
		return err
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
	metrics := make([]prometheus.Collector, len(parts))
	for i := range parts {
		metrics[i] = prometheus.WrapCollectorWith(prometheus.Labels{"target": parts[i].To.Addr}, parts[i].Metrics)
	}
	s := newCopyServer("copy", c.HTTPAccess, metrics[0], log)
	s.Metrics.MustRegister(metrics[1:]...)
	end, err := pages.serve(ctx, s, gateway, c.Throttle.MaxP99)
	if err != nil {
		return err
	}
	defer end()
	reports, err := split.Run(ctx)
	screen.close()
	if err != nil {
		return copyError(ctx, err)
	}
	return printSplitReports(stdout, parts, reports, once.json)
}

// planSplit prints the plan of each part.
func planSplit(ctx context.Context, parts []copier.Options, asJSON bool, stdout io.Writer) error {
	for i := range parts {
		planned, err := copier.Plan(ctx, parts[i])
		if err != nil {
			return fmt.Errorf("copy to %s: %w", parts[i].To.Addr, err)
		}
		if !asJSON {
			fmt.Fprintf(stdout, "to %s:\n", parts[i].To.Addr)
			for _, p := range planned {
				fmt.Fprintf(stdout, "%s: %s\n", p.Target, p.Spec)
			}
		}
		if err := printPlan(stdout, planned, asJSON); err != nil {
			return err
		}
	}
	return nil
}

// splitControl returns the path of the control socket of all parts, empty if it is disabled.
func splitControl(c *config.Copy) (string, error) {
	if c.Control != config.ControlAuto {
		return copyControl(c)
	}
	dir, err := copier.ControlDir()
	if err != nil {
		return "", err
	}
	addrs := make([]string, len(c.Shards))
	for i, u := range c.Shards {
		addrs[i] = string(u.Addr)
	}
	return filepath.Join(dir, copier.ControlName(strings.Join(addrs, ","), c.Tables)), nil
}

// printSplitReports prints the report of each part and the verified rows of all. It returns an error if rows differ.
func printSplitReports(w io.Writer, parts []copier.Options, reports []*copier.Report, asJSON bool) error {
	var errs []error
	for i, r := range reports {
		to := parts[i].To.Addr
		if asJSON {
			if err := json.NewEncoder(w).Encode(struct {
				Event string `json:"event"`
				To    string `json:"to"`
				*copier.Report
			}{"report", to, r}); err != nil {
				return err
			}
		} else {
			fmt.Fprintf(w, "to %s:\n", to)
			if err := printCopyReport(w, r, false); err != nil {
				return err
			}
		}
		if err := verifyError(r); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", to, err))
		}
	}
	if !asJSON {
		for i := range reports[0].Tables {
			var rows int64
			verified := true
			for _, r := range reports {
				v := r.Tables[i].Verify
				if verified = verified && v != nil && v.Mismatches() == 0 && !v.Incomplete(); verified {
					rows += v.Rows
				}
			}
			if verified {
				fmt.Fprintf(w, "%s: verified in all %d targets: %s in total\n", reports[0].Tables[i].Source, len(reports), quantity.Of(rows, "row"))
			}
		}
	}
	if len(errs) > 0 {
		return &partialError{errors.Join(errs...)}
	}
	return nil
}
