package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/alter"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/internal/config"
)

// arguments requires the clauses as one argument, and none with a queue.
func (f *alterFlags) arguments(cmd *cobra.Command, args []string) error {
	switch {
	case f.queue == "":
		return oneClauses(cmd, args)
	case len(args) > 0:
		return &usageError{err: errors.New("--queue takes no clauses as argument: they are in its file"), try: cmd.CommandPath() + " --help"}
	case f.restart:
		return &usageError{err: errors.New("--restart and --queue exclude each other: discard an unfinished copy by its own command"), try: cmd.CommandPath() + " --help"}
	}
	return nil
}

// readQueue reads the file of a queue.
func readQueue(path string) ([]alter.QueueEntry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--queue: %w", err)
	}
	entries, err := alter.ParseQueue(string(text))
	if err != nil {
		return nil, fmt.Errorf("--queue %s: %w", path, err)
	}
	return entries, nil
}

// runQueue alters the tables of a queue, or checks them.
func (f *alterFlags) runQueue(cmd *cobra.Command, c *config.Alter, given map[string]string) error {
	entries, err := readQueue(f.queue)
	if err != nil {
		return &usageError{err: err, try: cmd.CommandPath() + " --help"}
	}
	c.Queue = true
	o, err := f.connection(cmd, c, given)
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.checkQueue(cmd, o, entries)
	}
	tables := make([]tabledef.Spec, len(entries))
	for i, e := range entries {
		tables[i] = tabledef.Spec{Schema: e.Schema, Name: e.Table}
	}
	if o.Control, err = alterControl(c, tables); err != nil {
		return err
	}
	stop, err := f.serve(cmd.Context(), c, &o)
	if err != nil {
		return err
	}
	defer stop()
	stdout, screen := cmd.OutOrStdout(), f.screen(cmd.OutOrStdout(), cmd.ErrOrStderr())
	o.Observe = screen.observe
	var failed error
	report, err := alter.RunQueue(cmd.Context(), o, entries, func(x *alter.QueueItem) {
		if x.Report != nil {
			failed = errors.Join(failed, printAlterReport(stdout, x.Report, f.json))
		}
	})
	screen.close()
	if report != nil {
		failed = errors.Join(failed, printQueue(stdout, report, f.json))
	}
	if err == nil {
		return failed
	}
	if err = alterError(cmd.Context(), err); report != nil && report.Count(telemetry.QueueDone) > 0 && !errors.Is(err, context.Canceled) {
		return &partialError{err}
	}
	return err
}

// checkQueue prints what a queue would do. It fails if an entry is refused.
func (f *alterFlags) checkQueue(cmd *cobra.Command, o alter.Options, entries []alter.QueueEntry) error {
	report, err := alter.CheckQueue(cmd.Context(), o, entries)
	if report == nil {
		return copyError(cmd.Context(), err)
	}
	stdout := cmd.OutOrStdout()
	for i := range report.Items {
		if p := report.Items[i].Plan; p != nil && !f.json {
			if err := printAlterPlan(stdout, p, false); err != nil {
				return err
			}
			fmt.Fprintln(stdout)
		}
	}
	if err := printQueue(stdout, report, f.json); err != nil {
		return err
	}
	return copyError(cmd.Context(), err)
}

// printQueue prints the state of each entry of a queue.
func printQueue(w io.Writer, r *alter.QueueReport, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Event string `json:"event"`
			*alter.QueueReport
		}{"queue", r})
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "LINE\tTABLE\tSTATE\tALTER")
	for i := range r.Items {
		x := &r.Items[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", x.Line, x.Table, x.State, x.Alter)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Items {
		if x := &r.Items[i]; x.Why != "" {
			fmt.Fprintf(w, "%s: %s\n", x.Table, x.Why)
		}
	}
	_, err := fmt.Fprintf(w, "%d altered, %d by earlier runs, of %d in %.1f s\n", r.Count(telemetry.QueueDone), r.Count(telemetry.QueueEarlier), len(r.Items), r.Seconds)
	return err
}
