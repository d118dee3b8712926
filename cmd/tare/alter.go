package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/move/alter"
	"github.com/taredb/tare/move/copier"
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
blocking writes if the table is small or no rows are written. Otherwise the rows are copied into a shadow table with the new
definition, which follows all changes, is compared with the table row by row, and takes its name. No client waits for
longer than twice --max-lock-wait at a time, also if this command is stopped or cut off meanwhile: the server ends its sessions. The old table is kept for --keep-old, so that tare alter revert can swap them back. After kill -9 the
same command resumes. tare alter lint prints what an ALTER TABLE would do. See docs/tasks/alter-a-table.md.

Passwords in flags are visible in process lists: TARE_ON takes the same URL.`,
		Example: `  tare alter --on mysql://app:secret@db1 --table shop.orders 'ADD COLUMN note VARCHAR(200), DROP INDEX k'
  tare alter lint --on mysql://app@db1 --table shop.orders 'MODIFY total DECIMAL(12,2) NOT NULL'
  tare alter --on mysql://app@db1 --table shop.orders 'MODIFY id BIGINT' --max-p99 20ms --gateway http://gw:8316 --postpone-cutover
  tare alter --on mysql://app@db1 --queue tonight.txt`,
		Args: func(cmd *cobra.Command, args []string) error { return once.arguments(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checked(cmd, noEffect(cmd, !once.neverCopy, "with --never-copy", "restart", "postpone-cutover")); err != nil {
				return err
			}
			switch {
			case once.cancel:
				return once.runCancel(cmd, options, given)
			case once.queue != "":
				return once.runQueue(cmd, options, given)
			}
			o, err := once.options(cmd, options, given, args)
			if err != nil {
				return err
			}
			if once.dryRun {
				return lintAlter(cmd.Context(), o, &once, cmd.OutOrStdout())
			}
			stop, err := once.serve(cmd.Context(), options, &o)
			if err != nil {
				return err
			}
			defer stop()
			return runAlter(cmd.Context(), o, &once, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	given = bindFlags(cmd, options.Set())
	once.bind(cmd)
	cmd.Flags().StringVar(&once.queue, "queue", "", "alter several tables, one after the other: a `file` with lines such as shop.orders: ADD COLUMN note VARCHAR(200)")
	cmd.Flags().BoolVar(&once.dryRun, "dry-run", false, "print what would be done, as tare alter lint does")
	cmd.Flags().BoolVar(&once.cancel, "cancel", false, "remove an unfinished copy of --table that no command works on: its shadow table and its state; no clauses")
	cmd.Flags().BoolVar(&once.restart, "restart", false, "discard an unfinished copy of the table, and start again")
	cmd.Flags().BoolVar(&once.postpone, "postpone-cutover", false, "when the rows are copied, keep the shadow table current until tare alter ctl cutover")
	cmd.AddCommand(newAlterLintCommand(), newAlterRevertCommand(), newAlterFinishCommand(), newAlterListCommand(), newAlterCleanupCommand(), newAlterCtlCommand())
	return cmd
}

// Options of tare alter that commands about altered tables use.
var (
	alterAccount = []string{"config", "on", "on-tls", "on-public-key", "on-get-public-key", "tls-ca", "diag-format", "diag-level", "umask"}
	alterPage    = []string{"http", "web-config-file", "web-accounts-file", "http-allowed-hosts", "http-max-connections"}
	alterCancel  = slices.Concat(alterAccount, []string{"table", "patience"})           //nolint:gochecknoglobals // names of options
	alterLint    = slices.Concat(alterCancel, []string{"max-lock-wait", "max-inplace"}) //nolint:gochecknoglobals // names of options
	alterFinish  = slices.Concat(alterCancel, alterPage)                                //nolint:gochecknoglobals // names of options
	alterRevert  = slices.Concat(alterFinish, []string{                                 //nolint:gochecknoglobals // names of options
		"max-lock-wait", "lock-tries", "workers", "chunk-bytes", "max-view-age", "on-event", "gateway", "gateway-token", "gateway-token-file", "gateway-ca", "control-socket",
	})
)

// newAlterEndCommand returns a command that ends the time for which an old table is kept, with some of the options.
func newAlterEndCommand(cmd *cobra.Command, once *alterFlags, named []string, end func(context.Context, alter.Options) (*alter.Report, error)) *cobra.Command {
	options := config.NewAlter()
	var given map[string]string
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := once.connection(cmd, options, given)
		if err != nil {
			return err
		}
		stop, err := once.serve(cmd.Context(), options, &o)
		if err != nil {
			return err
		}
		defer stop()
		screen := once.screen(cmd.OutOrStdout(), cmd.ErrOrStderr())
		o.Observe = screen.observe
		report, err := end(cmd.Context(), o)
		screen.close()
		if err != nil {
			return alterError(cmd.Context(), err)
		}
		return printAlterEnd(cmd.OutOrStdout(), report, once.json)
	}
	given = bindFlags(cmd, options.Set(), named...)
	cmd.Flags().BoolVar(&once.json, "json", false, "print events and the result as JSON lines")
	return cmd
}

func newAlterRevertCommand() *cobra.Command {
	var once alterFlags
	cmd := newAlterEndCommand(&cobra.Command{
		Use:   "revert",
		Short: "Give a table that was altered by a copy its former definition back",
		Long: `Give a table that was altered by a copy its former definition back, with all rows that were written since, if its old table is kept
(--keep-old). The changes since the swap are followed into the old table, all rows are compared, and the tables are swapped back. While
the tare alter of the table still runs, tare alter ctl revert does the same.`,
		Example: "  tare alter revert --on mysql://app@db1 --table shop.orders",
	}, &once, alterRevert, alter.Revert)
	cmd.Flags().BoolVar(&once.lossyRevert, "lossy-revert", false, "revert even if the old definition may not have all values that the new one has")
	return cmd
}

func newAlterFinishCommand() *cobra.Command {
	return newAlterEndCommand(&cobra.Command{
		Use:   "finish",
		Short: "Drop the old table of one that was altered by a copy",
		Long: `Drop the old table of one that was altered by a copy, before the time of --keep-old is over. There is no way back then. While the
tare alter of the table still runs, tare alter ctl finish does the same.`,
		Example: "  tare alter finish --on mysql://app@db1 --table shop.orders",
	}, new(alterFlags), alterFinish, alter.Finish)
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
	given = bindFlags(cmd, options.Set(), alterLint...)
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
type alterFlags struct {
	queue                 string // file; empty: none
	json, dryRun          bool
	alwaysCopy, neverCopy bool
	restart, postpone     bool
	cancel                bool
	lossyRevert           bool

	log   *slog.Logger // set by connection
	pages copyPages
}

// serve serves the metrics and the progress of a run until end is called.
func (f *alterFlags) serve(ctx context.Context, c *config.Alter, o *alter.Options) (end func(), err error) {
	f.pages.status, f.pages.metrics = o.Monitor.Status, []*copier.Metrics{&o.Monitor.Copy}
	return f.pages.serve(ctx, newCopyServer("alter", c.HTTPAccess, o.Monitor, f.log), o.Gateway, c.Throttle.Limits.MaxP99)
}

// screen returns what events are printed to.
func (f *alterFlags) screen(stdout, stderr io.Writer) copyScreen {
	if f.json {
		return f.pages.recent.of(jsonScreen(stdout))
	}
	return f.pages.recent.of(lineScreen(stderr))
}

func (f *alterFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print events and the result as JSON lines")
	cmd.Flags().BoolVar(&f.alwaysCopy, "always-copy", false, "copy the rows also where the server could alter the table at once or in place")
	cmd.Flags().BoolVar(&f.neverCopy, "never-copy", false, "fail where the rows would have to be copied")
}

// options returns the options of the command line.
func (f *alterFlags) options(cmd *cobra.Command, c *config.Alter, given map[string]string, args []string) (o alter.Options, err error) {
	if o, err = f.connection(cmd, c, given); err != nil {
		return o, err
	}
	if f.alwaysCopy && f.neverCopy {
		return o, &usageError{err: errors.New("--always-copy and --never-copy exclude each other"), try: cmd.CommandPath() + " --help"}
	}
	o.Clauses = args[0]
	if _, err := alter.Parse(o.Schema, o.Table, o.Clauses); err != nil {
		return o, &usageError{err: err, try: cmd.CommandPath() + " --help"}
	}
	return o, nil
}

// connection returns the options of the command line, besides the clauses.
func (f *alterFlags) connection(cmd *cobra.Command, c *config.Alter, given map[string]string) (o alter.Options, err error) {
	if f.log, err = start(cmd, c, &c.Diag, given); err != nil {
		return o, err
	}
	on, err := loadLeg(c.OnTLS, "--tls-ca", c.TLSCA, &c.OnKey)
	if err != nil {
		return o, err
	}
	o = c.Options()
	o.Monitor = &alter.Monitor{}
	on.heap = &o.Monitor.Copy.Heap.Connections
	o.On = on.server(c.On)
	o.AlwaysCopy, o.NeverCopy, o.Restart, o.Postpone = f.alwaysCopy, f.neverCopy, f.restart, f.postpone
	o.LossyRevert = f.lossyRevert
	for _, replica := range c.Throttle.Replicas {
		o.Throttle.Replicas = append(o.Throttle.Replicas, on.server(replica))
	}
	if o.Throttle.MaxThreadsRunning > 0 {
		o.Throttle.Server = o.On
	}
	if o.Gateway, err = throttleGateway(&c.Throttle); err != nil {
		return o, err
	}
	if o.Throttle.MaxP99 > 0 {
		o.Throttle.Gateway = o.Gateway
	}
	if !c.Queue {
		o.Control, err = alterControl(c, []tabledef.Spec{{Schema: c.Alter.Schema, Name: c.Alter.Table}})
	}
	return o, err
}

// alterControl is the path of the control socket, empty when there is to be none.
func alterControl(c *config.Alter, tables []tabledef.Spec) (string, error) {
	switch c.Control {
	case config.ControlOff:
		return "", nil
	case config.ControlAuto:
		dir, err := alterControlDir()
		if err != nil {
			return "", err
		}
		return filepath.Join(dir, control.Name(string(c.On.Addr), tables)), nil
	}
	return c.Control, nil
}

// alterControlDir is the directory for the control sockets of tare alter.
func alterControlDir() (string, error) {
	dir, err := control.Dir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "alter")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("create the directory for control sockets: %w", err)
	}
	return dir, nil
}

// runAlter alters the table.
func runAlter(ctx context.Context, o alter.Options, f *alterFlags, stdout, stderr io.Writer) error {
	screen := f.screen(stdout, stderr)
	o.Observe = screen.observe
	swapped := false
	var failed error
	o.Swapped = func(r *alter.Report) {
		swapped, failed = true, printAlterReport(stdout, r, f.json)
	}
	report, err := alter.Run(ctx, o)
	screen.close()
	switch {
	case err != nil:
		return alterError(ctx, err)
	case failed != nil:
		return failed
	case swapped && report.Copy.Kept.State == alter.KeptKept, swapped && report.Copy.Kept.State == alter.KeptDropped && o.KeepOld == 0:
		return nil
	case swapped:
		return printAlterEnd(stdout, report, f.json)
	}
	return printAlterReport(stdout, report, f.json)
}

// alterError returns the error of a run. One that comes after the swap is that of a part of the work.
func alterError(ctx context.Context, err error) error {
	if e := copyError(ctx, err); !errors.Is(err, alter.ErrNotFollowed) || errors.Is(e, context.Canceled) {
		return e
	}
	return &partialError{err}
}

// printAlterEnd prints the state of an old table.
func printAlterEnd(w io.Writer, r *alter.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Event string `json:"event"`
			*alter.Report
		}{"end", r})
	}
	k, text := &r.Copy.Kept, ""
	switch {
	case k.State == alter.KeptDropped:
		text = visible.Sprintf("%s: the old table %s is dropped; there is no way back\n", r.Table, r.Copy.Old)
	case r.Copy.PauseSeconds == 0:
		text = visible.Sprintf("%s: an earlier run has reverted it\n", r.Table)
	default:
		text = visible.Sprintf("%s: reverted; it has its former definition, and the %s made since\n", r.Table, quantity.Of(k.Changes, "change")) + alterPauseText(r.Copy)
	}
	if k.Altered != "" {
		text += visible.Sprintf("the table with the new definition is %s: drop it when it is no longer of use\n", k.Altered)
	}
	_, err := io.WriteString(w, text)
	return err
}

func printAlterReport(w io.Writer, r *alter.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Event string `json:"event"`
			*alter.Report
		}{"report", r})
	}
	text := visible.Sprintf("%s: altered by %s in %.1f s (%s)\n", r.Table, r.Way, r.Seconds, r.Why)
	if n := len(r.LockWaits); n > 0 {
		text += visible.Sprintf("its lock was not granted in %s\n", quantity.Of(n, "attempt"))
	}
	if c := r.Copy; c != nil {
		text += alterCopyText(r.Table, c)
	}
	_, err := io.WriteString(w, text)
	return err
}

// alterCopyText returns the human-readable report of a copy.
func alterCopyText(table string, c *alter.CopyReport) (text string) {
	if c.Report != nil {
		for _, t := range c.Tables {
			text += visible.Sprintf("%s copied in %s", quantity.Of(t.Rows, "row"), quantity.Of(t.Chunks, "chunk"))
			if v := t.Verify; v != nil {
				text += visible.Sprintf("; compared: %s equal, checksum %s", quantity.Of(v.Rows, "row"), v.Checksum)
			}
			text += "\n"
		}
		if f := c.Follow; f != nil {
			text += visible.Sprintf("%d inserts, %d updates and %d deletes were applied, from %s to %s\n", f.Inserts, f.Updates, f.Deletes, f.From, f.Position)
		}
		d := &c.Durations
		text += visible.Sprintf("rows took %.1f s, catching up %.1f s, comparing %.1f s, the swap with its tries %.1f s\n", d.Rows, d.CatchUp, d.Compare, d.Swap) + alterPauseText(c)
	}
	return text + alterKeptText(table, c)
}

// alterPauseText states how long clients waited for a swap.
func alterPauseText(c *alter.CopyReport) string {
	text := visible.Sprintf("clients waited for at most %.0f ms at the swap, after %s", c.PauseSeconds*1000, quantity.Of(len(c.SwapTries)+1, "attempt"))
	if c.GatewayPauses > 0 {
		text += visible.Sprintf("; the gateway paused them for at most %.0f ms", c.GatewayPauseSeconds*1000)
	}
	return text + "\n"
}

// alterKeptText states what becomes of the old table.
func alterKeptText(table string, c *alter.CopyReport) string {
	k := &c.Kept
	switch {
	case k.State == alter.KeptDropped:
		return visible.Sprintf("the old table %s is dropped\n", c.Old)
	case k.NoWay != "":
		return visible.Sprintf("the old table %s is kept until %s, and dropped by tare alter finish or the next tare alter after that; it cannot be reverted: %s\n", c.Old, k.Until, k.NoWay)
	case len(k.Lossy) > 0:
		return visible.Sprintf("the old table %s is kept until %s; tare alter revert --table %s --lossy-revert goes back to it; values could be lost: %s\n", c.Old, k.Until, table, strings.Join(k.Lossy, "; "))
	}
	return visible.Sprintf("the old table %s is kept until %s; tare alter revert --table %s goes back to it without loss\n", c.Old, k.Until, table)
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
	visible.Fprintf(w, "%s: about %s, %s with indexes, on %s\n", p.Table, quantity.Of(p.Rows, "row"), megabytes(p.Bytes), p.Server)
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
		visible.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", text, v.Algorithm, writes, rebuild, strings.Trim(v.Error+"; "+v.Why, "; "))
		if len(p.Clauses) == 1 {
			break
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if p.Seconds > 0 {
		visible.Fprintf(w, "writing all rows again takes about %.1f s, by a sample of %s\n", p.Seconds, quantity.Of(p.SampleRows, "row"))
	}
	if p.RowVersions >= 0 {
		visible.Fprintf(w, "row versions since the last rebuild: %d; at its limit MySQL refuses INSTANT for columns\n", p.RowVersions)
	}
	for _, note := range p.Notes {
		visible.Fprintf(w, "%s\n", note)
	}
	switch back := p.Revert; {
	case p.CopyRefused != "":
		visible.Fprintf(w, "a copy is refused: %s\n", p.CopyRefused)
	case back.Refused != "":
		visible.Fprintf(w, "a copy could not be reverted: %s\n", back.Refused)
	case len(back.Lossy) > 0:
		visible.Fprintf(w, "a copy could be reverted with --lossy-revert alone: %s\n", strings.Join(back.Lossy, "; "))
	}
	_, err := visible.Fprintf(w, "replication: %s\nway: %s: %s\n", p.Replication, p.Way, p.Why)
	return err
}

func newAlterCtlCommand() *cobra.Command {
	o := ctlFlags{what: "alter", dir: alterControlDir}
	cmd := group(&cobra.Command{
		Use:   "ctl",
		Short: "Watch and change a tare alter that copies rows",
		Long: `Watch and change a tare alter that copies rows on this machine, through its control socket.

Without --socket, the only running one of this user is selected.`,
		Example: "  tare alter ctl status\n  tare alter ctl throttle --share 0.2\n  tare alter ctl cutover",
	})
	cmd.PersistentFlags().StringVar(&o.socket, "socket", "", "control socket, if several are running: the `path` of its --control-socket")
	cmd.PersistentFlags().BoolVar(&o.json, "json", false, "print the status as JSON")
	var lossy bool
	revert := o.plain("revert", "Swap the tables back, of one that follows changes into the old table", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) {
		return c.Revert(cmd.Context(), lossy)
	})
	revert.Flags().BoolVar(&lossy, "lossy-revert", false, "revert even if the old definition may not have all values that the new one has")
	cmd.AddCommand(revert,
		o.plain("finish", "Drop the old table, of one that follows changes into it", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) {
			return c.Finish(cmd.Context())
		}),
		o.plain("status", "Print its progress, its rate, and the reasons for it", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) {
			return c.Status(cmd.Context())
		}),
		o.plain("pause", "Pause it until resume: throttle --share 0", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) {
			none := 0.0
			return c.Throttle(cmd.Context(), throttle.LimitChange{Share: &none})
		}),
		newCtlThrottleCommand(&o),
		o.plain("resume", "Undo pause and throttle --share: only the limits apply", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) {
			return c.Resume(cmd.Context())
		}),
		o.plain("cutover", "Swap the tables of one with --postpone-cutover, as soon as all rows are equal", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) {
			return c.Proceed(cmd.Context())
		}),
		newAlterCtlCancelCommand(&o),
		o.plain("abort", "Stop it now; the same command resumes it later", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) {
			return c.Abort(cmd.Context())
		}),
	)
	return cmd
}
