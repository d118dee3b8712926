package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/move/alter"
)

// arguments requires the clauses as one argument, and none with a queue.
func (f *alterFlags) arguments(cmd *cobra.Command, args []string) error {
	switch {
	case f.cancel && (len(args) > 0 || f.queue != ""):
		return &usageError{err: errors.New("--cancel takes --table alone: no clauses, and no --queue"), try: cmd.CommandPath() + " --help"}
	case f.cancel:
		return nil
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
	text, err := localstate.ReadInput(path)
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
		visible.Fprintf(t, "%d\t%s\t%s\t%s\n", x.Line, x.Table, x.State, x.Alter)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Items {
		if x := &r.Items[i]; x.Why != "" {
			visible.Fprintf(w, "%s: %s\n", x.Table, x.Why)
		}
	}
	_, err := visible.Fprintf(w, "%d altered, %d by earlier runs, of %d in %.1f s\n", r.Count(telemetry.QueueDone), r.Count(telemetry.QueueEarlier), len(r.Items), r.Seconds)
	return err
}

// newAlterServerCommand returns a command about all alterations of a server. do returns those that it lists.
func newAlterServerCommand(cmd *cobra.Command, named []string, do func(cmd *cobra.Command, o alter.Options) ([]alter.Listed, error), line func(*alter.Listed) string) *cobra.Command {
	options := config.NewAlter()
	options.Whole, options.Queue = true, false
	var once alterFlags
	var given map[string]string
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := once.connection(cmd, options, given)
		if err != nil {
			return err
		}
		all, err := do(cmd, o)
		if once.json {
			encoder := json.NewEncoder(cmd.OutOrStdout())
			for i := range all {
				err = errors.Join(err, encoder.Encode(&all[i]))
			}
			return copyError(cmd.Context(), err)
		}
		for i := range all {
			if _, failed := visible.Fprintf(cmd.OutOrStdout(), "%s\n", line(&all[i])); failed != nil {
				return failed
			}
		}
		if err != nil {
			return copyError(cmd.Context(), err)
		}
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), quantity.Of(len(all), "table"))
		return err
	}
	given = bindFlags(cmd, options.Set(), named...)
	cmd.Flags().BoolVar(&once.json, "json", false, "print a JSON line per table")
	return cmd
}

func newAlterListCommand() *cobra.Command {
	return newAlterServerCommand(&cobra.Command{
		Use:   "list",
		Short: "List the unfinished alterations and the old tables of a server",
		Long: `List the unfinished alterations of a server, whether a process works on them, and the old tables that are kept. They are
recorded in the server (_tare.alter_job).`,
		Example: "  tare alter list --on mysql://app@db1",
	}, alterAccount, func(cmd *cobra.Command, o alter.Options) ([]alter.Listed, error) { return alter.List(cmd.Context(), o) }, (*alter.Listed).Text)
}

func newAlterCleanupCommand() *cobra.Command {
	return newAlterServerCommand(&cobra.Command{
		Use:   "cleanup",
		Short: "Drop the old tables of a server whose time is over",
		Long: `Drop the old tables of a server whose time of --keep-old is over, such as once a day. Those that a process works on are left out, and
unfinished copies too.`,
		Example: "  tare alter cleanup --on mysql://app@db1",
	}, slices.Concat(alterAccount, []string{"patience"}), func(cmd *cobra.Command, o alter.Options) ([]alter.Listed, error) {
		return alter.Cleanup(cmd.Context(), o)
	},
		func(l *alter.Listed) string {
			return visible.Sprintf("%s: the old table %s is dropped", l.Table, l.Old)
		})
}

// runCancel removes an unfinished copy.
func (f *alterFlags) runCancel(cmd *cobra.Command, c *config.Alter, given map[string]string) error {
	var unused []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Name != "cancel" && !slices.Contains(alterCancel, flag.Name) {
			unused = append(unused, flag.Name)
		}
	})
	if err := checked(cmd, noEffect(cmd, false, "with --cancel", unused...)); err != nil {
		return err
	}
	o, err := f.connection(cmd, c, given)
	if err != nil {
		return err
	}
	clauses, err := alter.Cancel(cmd.Context(), o)
	if err != nil {
		return copyError(cmd.Context(), err)
	}
	_, err = visible.Fprintf(cmd.OutOrStdout(), "%s.%s: cancelled %q: the table is as it was, and the shadow table and the state of the copy are removed\n", o.Schema, o.Table, clauses)
	return err
}

func newAlterCtlCancelCommand(o *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use: "cancel", Short: "Stop it, remove its shadow table and its state, and wait until that is done", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.notify(cmd, func(c *control.Client) (*telemetry.Status, error) {
				s, err := c.Cancel(cmd.Context())
				if err != nil {
					return nil, err
				}
				return s, awaitCancelled(cmd, c)
			})
		},
	}
}

// awaitCancelled blocks until an alteration that was cancelled has ended.
func awaitCancelled(cmd *cobra.Command, c *control.Client) error {
	for {
		_, err := c.Status(cmd.Context())
		var ended *control.NotRunningError
		switch {
		case errors.As(err, &ended) && ended.Last != nil && ended.Last.Error == alter.ErrCancelled.Error():
			return nil
		case errors.As(err, &ended):
			return err
		}
		if !telemetry.Sleep(cmd.Context(), 100*time.Millisecond) {
			return cmd.Context().Err()
		}
	}
}
