package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/visible"
)

// A ctlFlags selects a copy and the output format.
type ctlFlags struct {
	socket string
	json   bool

	what string                 // copy or alter
	dir  func() (string, error) // of the control sockets
}

func newCopyCtlCommand() *cobra.Command {
	o := ctlFlags{what: "copy", dir: control.Dir}
	cmd := group(&cobra.Command{
		Use:   "ctl",
		Short: "Watch and change a running copy",
		Long: `Watch and change a copy running on this machine, through its control socket.

Without --socket, the only running copy of this user is selected.`,
		Example: "  tare copy ctl status\n  tare copy ctl throttle --share 0.2\n  tare copy ctl throttle --max-p99 40ms\n  tare copy ctl resume",
	})
	cmd.PersistentFlags().StringVar(&o.socket, "socket", "", "control socket of the copy, if several are running: the `path` of its --control-socket")
	cmd.PersistentFlags().BoolVar(&o.json, "json", false, "print the status as JSON")
	plain := o.plain
	cmd.AddCommand(
		plain("status", "Say how far it is, how fast it may go, and why", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) { return c.Status(cmd.Context()) }),
		newCtlThrottleCommand(&o),
		plain("resume", "Undo throttle --share: only the limits apply", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) { return c.Resume(cmd.Context()) }),
		plain("abort", "End it now; the same command resumes it later", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) { return c.Abort(cmd.Context()) }),
		plain("finish", "End one that follows its source, as soon as the target has what the source has", func(c *control.Client, cmd *cobra.Command) (*telemetry.Status, error) { return c.Finish(cmd.Context()) }),
	)
	return cmd
}

func newCtlThrottleCommand(o *ctlFlags) *cobra.Command {
	var share, above float64
	var threads int
	var lag, p99 time.Duration
	cmd := &cobra.Command{
		Use:   "throttle",
		Short: "Throttle it, or change its limits",
		Long: `Throttle a copy, or change the limits it was started with.

--share 0 pauses it until tare copy ctl resume, --share 0.2 permits a fifth of full speed. The
other flags are those of tare copy; limits that the copy was not started with cannot be added.`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Float64Var(&share, "share", 1, "maximum fraction of full speed, 0 to 1")
	f.DurationVar(&lag, "max-lag", 0, "see tare copy --help")
	f.IntVar(&threads, "max-threads-running", 0, "see tare copy --help")
	f.Float64Var(&above, "throttle-above", 0, "see tare copy --help")
	f.DurationVar(&p99, "max-p99", 0, "see tare copy --help")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var change throttle.LimitChange
		given := 0
		set := func(name string, to **float64, v float64) {
			if f.Changed(name) {
				given++
				*to = &v
			}
		}
		set("share", &change.Share, share)
		set("max-lag", &change.Lag, lag.Seconds())
		set("max-threads-running", &change.ThreadsRunning, float64(threads))
		set("throttle-above", &change.Above, above)
		set("max-p99", &change.P99, float64(p99)/float64(time.Millisecond))
		if given == 0 {
			return &usageError{err: errors.New("no change given, for example --share 0.2"), try: cmd.CommandPath() + " --help"}
		}
		return o.notify(cmd, func(c *control.Client) (*telemetry.Status, error) { return c.Throttle(cmd.Context(), change) })
	}
	return cmd
}

// notify calls do with the copy's control and prints the resulting status.
func (o *ctlFlags) notify(cmd *cobra.Command, do func(*control.Client) (*telemetry.Status, error)) error {
	path := o.socket
	if path == "" {
		var err error
		if path, err = o.only(cmd); err != nil {
			return err
		}
	}
	c := control.NewClient(path)
	defer c.Close()
	s, err := do(c)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
	}
	return printCopyStatus(cmd.OutOrStdout(), s)
}

// plain returns a subcommand without flags.
func (o *ctlFlags) plain(use, short string, do func(*control.Client, *cobra.Command) (*telemetry.Status, error)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return o.notify(cmd, func(c *control.Client) (*telemetry.Status, error) { return do(c, cmd) })
	}}
}

// only returns the socket of this user's copy, if exactly one runs.
func (o *ctlFlags) only(cmd *cobra.Command) (string, error) {
	dir, err := o.dir()
	if err != nil {
		return "", err
	}
	running, err := control.Running(cmd.Context(), dir)
	if err != nil {
		return "", err
	}
	switch len(running) {
	case 0:
		last := ""
		if e := control.LastStopped(dir); e != nil {
			last = "\n" + e.Error()
		}
		return "", fmt.Errorf("no running %s found in %s; select one started with --control-socket by --socket%s", o.what, dir, last)
	case 1:
		for path := range running {
			return path, nil
		}
	}
	var lines []string
	for path, s := range running {
		lines = append(lines, visible.Sprintf("  --socket %s  (%s to %s)", path, s.From, s.To))
	}
	slices.Sort(lines)
	many := "copies"
	if o.what != "copy" {
		many = o.what + "s"
	}
	return "", fmt.Errorf("%d %s run; say which one:\n%s", len(lines), many, strings.Join(lines, "\n"))
}

// printCopyStatus writes a status for people.
func printCopyStatus(w io.Writer, s *telemetry.Status) error {
	if s.Alter != nil {
		fmt.Fprint(w, alterStatusText(s.Alter))
	}
	visible.Fprintf(w, "%s to %s: %s for %v, process %d\n", s.From, s.To, s.Phase, time.Since(s.Started).Round(time.Second), s.PID)
	speed := "at full speed"
	switch {
	case s.Throttle.Stopped:
		speed = "paused: " + s.Throttle.Reason
	case s.Throttle.Reason != "":
		speed = visible.Sprintf("at %s of its speed: %s", sharePercent(s.Throttle.Share), s.Throttle.Reason)
	}
	fmt.Fprintln(w, speed)
	if s.Progress != nil {
		visible.Fprintf(w, "copied %s\n", s.Progress.Text())
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if len(s.Throttle.Limits) > 0 {
		fmt.Fprintln(t, "\nLIMIT\tNOW\tBOUND\tHELD IT FOR")
	}
	for _, l := range s.Throttle.Limits {
		unit := ""
		if l.Unit != "" {
			unit = " " + l.Unit
		}
		now := strconv.FormatFloat(l.Value, 'g', 4, 64) + unit
		if l.Error != "" {
			now = "not known: " + l.Error
		}
		visible.Fprintf(t, "%s\t%s\t%s%s\t%.0f s\n", l.Name, now, strconv.FormatFloat(l.Bound, 'g', 4, 64), unit, l.HeldSeconds)
	}
	fmt.Fprintln(t, "\nTABLE\tTO\tIS\tROWS\tOF ABOUT\tCHUNKS")
	for _, x := range s.Tables {
		visible.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d of %d\n", x.Source, x.Target, x.Phase, x.Rows, x.RowsEstimate, x.ChunksCopied, x.Chunks)
	}
	for i := range s.Waits {
		visible.Fprintf(t, "\n%s\n", s.Waits[i].Text())
	}
	if f := s.Follow; f != nil {
		behind := ""
		if f.LagBytes != nil {
			behind = visible.Sprintf(", %d bytes of log to apply", *f.LagBytes)
		}
		visible.Fprintf(t, "\nfollows the source: %s%s, at %s\n", f.Lag, behind, f.Position)
		if f.Outrun != nil {
			visible.Fprintf(t, "it will not catch up: %s\n", f.Outrun)
		}
		if f.Held != "" {
			visible.Fprintf(t, "changes have waited for %.0f s, and are held back now: %s\n", f.HeldSeconds, f.Held)
		}
	}
	if v := s.Verify; v != nil {
		visible.Fprintf(t, "\nverified %d of %d chunks; %d to recheck; %d differing rows\n", v.Compared, v.Chunks, v.Waiting, v.Mismatches)
	}
	return t.Flush()
}

func sharePercent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

// throttleText formats an event about throttling for people.
func throttleText(e telemetry.Event) string {
	if e.Share == nil {
		return e.Text
	}
	if *e.Share == 0 {
		return "the copy paused: " + e.Text
	}
	return visible.Sprintf("the copy goes at %s of its speed: %s", sharePercent(*e.Share), e.Text)
}

// printHeld prints the limits that throttled a copy.
func printHeld(w io.Writer, s *throttle.Status) error {
	if s == nil {
		return nil
	}
	for _, l := range s.Limits {
		if l.HeldSeconds >= 1 {
			if _, err := visible.Fprintf(w, "held back for %.0f s by the %s\n", l.HeldSeconds, l.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// alterStatusText formats the state of an ALTER TABLE for people.
func alterStatusText(a *telemetry.AlterStatus) string {
	text := visible.Sprintf("%s: %s%s\n", a.Table, a.Step(), alterWayText(a))
	if n := a.QueuePosition(); n > 0 {
		text = visible.Sprintf("%d of %d in the queue: ", n, len(a.Queue)) + text
	}
	if a.LockTries > 0 {
		text += visible.Sprintf("its lock: %d tries, %.1f s in those that failed\n", a.LockTries, a.LockSeconds)
	}
	if o := a.Old; o != nil {
		text += visible.Sprintf("the old table %s: %s", o.Name, o.State)
		if o.Until != nil {
			text += " until " + o.Until.UTC().Format("2006-01-02 15:04:05 UTC")
		}
		switch {
		case o.NoWay != "":
			text += "; it cannot be reverted: " + o.NoWay
		case len(o.Lossy) > 0:
			text += "; values could be lost: " + strings.Join(o.Lossy, "; ")
		}
		text += "\n"
	}
	return text
}

// alterWayText formats the way of an ALTER TABLE, once it is chosen.
func alterWayText(a *telemetry.AlterStatus) string {
	if a.Way == "" {
		return ""
	}
	return visible.Sprintf(", by %s (%s)", a.Way, a.Why)
}

// copyControl returns the path of the control socket, empty if it is disabled.
func copyControl(c *config.Copy) (string, error) {
	switch c.Control {
	case config.ControlOff:
		return "", nil
	case config.ControlAuto:
		dir, err := control.Dir()
		if err != nil || len(c.Copy.Tables) == 0 {
			return "", err
		}
		return filepath.Join(dir, control.Name(string(c.To.MySQL.Addr), c.Copy.Tables)), nil
	}
	return c.Control, nil
}

// splitControl returns the path of the control socket of all parts, empty if it is disabled.
func splitControl(c *config.Copy) (string, error) {
	if c.Control != config.ControlAuto || len(c.Sources) > 0 {
		return copyControl(c)
	}
	dir, err := control.Dir()
	if err != nil {
		return "", err
	}
	addrs := make([]string, len(c.Shards))
	for i, u := range c.Shards {
		addrs[i] = string(u.Addr)
	}
	return filepath.Join(dir, control.Name(strings.Join(addrs, ","), c.Copy.Tables)), nil
}
