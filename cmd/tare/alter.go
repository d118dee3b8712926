package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/alter"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/server"
)

func newAlterCommand() *cobra.Command {
	options := config.NewAlter()
	var once alterFlags
	var given map[string]string
	cmd := &cobra.Command{
		Use:   "alter 'CLAUSES'",
		Short: "Alter a table while clients use it",
		Long: `Alter a table while clients use it.

CLAUSES are those of an ALTER TABLE, as one argument. The server is asked to do it at once (INSTANT), or in place without
blocking writes if the table is small or no rows are written. No client waits for longer than --max-lock-wait behind a statement
that waits for the table's lock. tare alter lint prints what an ALTER TABLE would do. See docs/tasks/alter-a-table.md.

Passwords in flags are visible in process lists: TARE_ON takes the same URL.`,
		Example: `  tare alter --on mysql://app:secret@db1 --table shop.orders 'ADD COLUMN note VARCHAR(200), DROP INDEX k'
  tare alter lint --on mysql://app@db1 --table shop.orders 'MODIFY total DECIMAL(12,2) NOT NULL'`,
		Args: oneClauses,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := once.options(cmd, options, given, args)
			if err != nil {
				return err
			}
			return runAlter(cmd.Context(), o, &once, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	given = bindFlags(cmd, options.Set())
	once.bind(cmd)
	cmd.AddCommand(newAlterLintCommand())
	return cmd
}

func newAlterLintCommand() *cobra.Command {
	options := config.NewAlter()
	var once alterFlags
	var given map[string]string
	cmd := &cobra.Command{
		Use:   "lint 'CLAUSES'",
		Short: "Print what an ALTER TABLE would do, without doing it",
		Long: `Print what an ALTER TABLE would do: the way that tare alter would take, and for each clause the algorithm, whether writes are
blocked, and whether the rows are written again.

The clauses are executed on a table of the schema _tare with the same definition and a sample of the rows, which is dropped.`,
		Example: "  tare alter lint --on mysql://app@db1 --table shop.orders 'ADD COLUMN note VARCHAR(200), DROP INDEX k'",
		Args:    oneClauses,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := once.options(cmd, options, given, args)
			if err != nil {
				return err
			}
			return lintAlter(cmd.Context(), o, &once, cmd.OutOrStdout())
		},
	}
	given = bindFlags(cmd, options.Set())
	once.bind(cmd)
	return cmd
}

// oneClauses requires the clauses as one argument, in which a shell has not split them.
func oneClauses(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return &usageError{err: fmt.Errorf("want the clauses as one argument, such as 'ADD COLUMN note VARCHAR(200)', not %s", quantity.Of(len(args), "argument")), try: cmd.CommandPath() + " --help"}
}

// alterFlags are for one run: a configuration file has no place for them.
type alterFlags struct{ json bool }

func (f *alterFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print events and the result as JSON lines")
}

// options returns the options of the command line.
func (f *alterFlags) options(cmd *cobra.Command, c *config.Alter, given map[string]string, args []string) (o alter.Options, err error) {
	if _, err := start(cmd, c, &c.Diag, given); err != nil {
		return o, err
	}
	authorities, err := server.LoadCAs("--tls-ca", c.TLSCA)
	if err != nil {
		return o, err
	}
	o = c.Options()
	o.On, o.Clauses = mysqlServer(c.On, c.OnTLS, authorities), args[0]
	if _, err := alter.Parse(o.Schema, o.Table, o.Clauses); err != nil {
		return o, &usageError{err: err, try: cmd.CommandPath() + " --help"}
	}
	return o, nil
}

// runAlter alters the table.
func runAlter(ctx context.Context, o alter.Options, f *alterFlags, stdout, stderr io.Writer) error {
	screen := newCopyScreen(nil, f.json, stdout, stderr)
	o.Observe = screen.observe
	report, err := alter.Run(ctx, o)
	screen.close()
	if err != nil {
		return copyError(ctx, err)
	}
	return printAlterReport(stdout, report, f.json)
}

func printAlterReport(w io.Writer, r *alter.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Event string `json:"event"`
			*alter.Report
		}{"report", r})
	}
	text := fmt.Sprintf("%s: altered by %s in %.1f s (%s)\n", r.Table, r.Way, r.Seconds, r.Why)
	if n := len(r.LockWaits); n > 0 {
		text += fmt.Sprintf("its lock was not to be had in %s\n", quantity.Of(n, "attempt"))
	}
	_, err := io.WriteString(w, text)
	return err
}

// lintAlter prints what would be done. It fails if the clauses cannot be executed.
func lintAlter(ctx context.Context, o alter.Options, f *alterFlags, stdout io.Writer) error {
	p, err := alter.Lint(ctx, o)
	if err != nil {
		return copyError(ctx, err)
	}
	if err := printAlterPlan(stdout, p, f.json); err != nil {
		return err
	}
	if p.Way == alter.WayNone {
		return errors.New(p.Why)
	}
	return nil
}

func printAlterPlan(w io.Writer, p *alter.Plan, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(p)
	}
	fmt.Fprintf(w, "%s: about %s, %s with indexes, on %s\n", p.Table, quantity.Of(p.Rows, "row"), megabytes(p.Bytes), p.Server)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "CLAUSE\tALGORITHM\tWRITES\tREBUILD\tREASON")
	for _, v := range append(p.Clauses, p.Whole) {
		text, rebuild := v.Text, "no"
		if len(p.Clauses) > 1 && v.Text == p.Whole.Text {
			text = "all together"
		}
		switch {
		case v.Algorithm == alter.Unknown:
			rebuild = "unknown"
		case v.Rebuild:
			rebuild = "yes"
		}
		writes := map[string]string{"none": "continue", "shared": "blocked"}[v.Lock]
		if writes == "" {
			writes = v.Lock
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", text, v.Algorithm, writes, rebuild, strings.TrimSpace(v.Error+" "+v.Why))
		if len(p.Clauses) == 1 {
			break
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if p.Seconds > 0 {
		fmt.Fprintf(w, "writing all rows again takes about %.1f s, by a sample of %s\n", p.Seconds, quantity.Of(p.SampleRows, "row"))
	}
	if p.RowVersions >= 0 {
		fmt.Fprintf(w, "row versions since the last rebuild: %d; at its limit MySQL refuses INSTANT for columns\n", p.RowVersions)
	}
	_, err := fmt.Fprintf(w, "replication: %s\nway: %s: %s\n", p.Replication, p.Way, p.Why)
	return err
}
