package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

func newCopyCommand() *cobra.Command {
	options := config.NewCopy()
	var once copyFlags
	var given map[string]string
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Copy tables from one MySQL-compatible server to another, or dump and load them",
		Long: `Copy tables from one MySQL-compatible server to another, or dump and load them.

The rows of a run come from one consistent snapshot of the source; with --follow from many short ones, which the changes
that are applied make consistent. Progress is recorded in the
target, in the transactions that write the rows: no matter what is killed, or when, the same
command resumes, and no row is lost or duplicated. Changes made during the run are copied only
with --follow, which applies them from the source's binary log until tare copy ctl finish. See docs/tasks/move-a-table.md.

With --to file:///directory or s3://bucket/prefix the tables are dumped there, and loaded from there with --from. See
docs/tasks/dump-and-load.md.

Passwords in flags are visible in process lists: TARE_FROM and TARE_TO take the same URLs.`,
		Example: `  tare copy --from mysql://app:secret@db1 --to mysql://app:secret@db2 --tables shop.orders,shop.items
  tare copy --from mysql://app@db1 --to mysql://app@db2 --tables shop.orders --where 'shop.orders: created > "2026-01-01"' --dry-run
  tare copy --from mysql://app@db1 --to mysql://app@db2 --schema shop --exclude 'shop.log_*' --dry-run
  tare copy --from mysql://app@db1 --to mysql://app@db2 --schema shop --users
  tare copy --from mysql://app@db1 --to mysql://app@db2 --tables shop.orders --follow
  tare copy --from mysql://app@db1 --to mysql://app@db2 --tables shop.orders --follow --cutover --gateway http://gw:8316
  tare copy --from mysql://app@db1 --to-shard mysql://app@db2 --to-shard mysql://app@db3 --tables shop.orders --shard-by 'shop.orders: hash(customer_id)' --follow --verify
  tare copy --from mysql://app@db1 --schema shop --to file:///backup/shop
  tare copy --from file:///backup/shop --to mysql://app@db2 --verify
  tare copy --from tare://db1:3319 --from-tls verify-identity --from-token-file token --to mysql://app@db2 --tables shop.orders`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checked(cmd, noEffect(cmd, once.restart, "without --restart", "truncate")); err != nil {
				return err
			}
			log, err := start(cmd, options, &options.Diag, given)
			if err != nil {
				return err
			}
			return runCopy(cmd.Context(), options, once, log, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	given = bindFlags(cmd, options.Set())
	cmd.Flags().BoolVar(&once.restart, "restart", false, "discard the state of earlier runs and empty the target tables that they wrote")
	cmd.Flags().StringSliceVar(&once.truncate, "truncate", nil, "target tables db.t that --restart may empty although no copy has recorded their rows")
	cmd.Flags().BoolVar(&once.dryRun, "dry-run", false, "run all checks and print the plan, without changes")
	cmd.Flags().BoolVar(&once.json, "json", false, "print events and the report as JSON lines")
	cmd.AddCommand(newCopyCtlCommand())
	return cmd
}

// newCopyServer returns the HTTP server of a copy or an alteration with its metrics.
func newCopyServer(name string, access config.HTTPAccess, m prometheus.Collector, log *slog.Logger) *server.Server {
	s := server.New(server.Options{Name: name, Server: config.Server{HTTPAccess: access}, Build: thisBuild(), Log: log})
	s.Metrics.MustRegister(m)
	return s
}

// copyFlags apply to one run: they cannot be set in a configuration file.
type copyFlags struct {
	restart, dryRun, json bool
	truncate              []string
}

// runCopy copies, or prints the plan of a copy.
func runCopy(ctx context.Context, c *config.Copy, once copyFlags, log *slog.Logger, stdout, stderr io.Writer) error {
	if len(c.Shards) > 0 || len(c.Sources) > 0 {
		return runSplit(ctx, c, once, log, stdout, stderr)
	}
	o, err := copyOptions(c)
	if err != nil {
		return err
	}
	o.Restart, o.Truncate = once.restart, once.truncate
	if c.To.IsDump() {
		return runDump(ctx, c, o, once, log, stdout, stderr)
	}
	if c.From.IsDump() {
		from, err := openDump(c.From.Dump, c.Copy.Patience)
		if err != nil {
			return err
		}
		defer func() { _ = from.Bucket.Close() }() // it was only read
		o.From = copier.FromDump(from)
	}
	if !c.Selection.Empty() || c.From.IsDump() && len(c.Copy.Tables) == 0 {
		if err := resolveSchemas(ctx, c, &o, once, stdout, stderr); err != nil {
			return err
		}
	}
	gateway, err := copyGateway(c)
	if err != nil {
		return err
	}
	if once.dryRun {
		planned, err := copier.Plan(ctx, o)
		if err != nil {
			return err
		}
		return printPlan(stdout, planned, once.json)
	}
	pages := copyPages{status: o.Metrics.Status, metrics: []*copier.Metrics{o.Metrics}}
	end, err := pages.serve(ctx, newCopyServer("copy", c.HTTPAccess, o.Metrics, log), gateway, c.Throttle.Limits.MaxP99)
	if err != nil {
		return err
	}
	defer end()
	screen := pages.recent.of(newCopyScreen(c.Copy.Tables, once.json, stdout, stderr))
	o.Observe = screen.observe
	report, err := copier.Run(ctx, o)
	screen.close()
	if err != nil {
		return copyError(ctx, err)
	}
	if err := printCopyReport(stdout, report, once.json); err != nil {
		return err
	}
	return verifyError(report)
}

// verifyError returns an error unless all rows to be compared were compared and are equal.
func verifyError(report *copier.Report) error {
	var text []string
	switch n := report.Mismatches(); n {
	case 0:
	case 1:
		text = append(text, "1 row differs between the two sides")
	default:
		text = append(text, visible.Sprintf("%d rows differ between the two sides", n))
	}
	if compared, of, incomplete := report.Unverified(); incomplete {
		text = append(text, visible.Sprintf("verification incomplete: %d of %d chunks", compared, of))
	}
	if len(text) == 0 {
		return nil
	}
	return &partialError{errors.New(strings.Join(text, "; "))}
}

// copyError returns the error of a command that copies rows. Rows that are copied, but not known to be equal, are a part of the work.
func copyError(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted):
		return context.Canceled
	case errors.As(err, new(*verify.UnexplainedError)):
		return &partialError{err}
	}
	return err
}

// copyOptions returns the options of a copy, with metrics that have the heap bytes of its connections.
func copyOptions(c *config.Copy) (copier.Options, error) {
	metrics := &copier.Metrics{}
	fromLeg, err := loadLeg(c.FromTLS, "--tls-ca", c.TLSCA, &c.FromKey)
	if err != nil {
		return copier.Options{}, err
	}
	toLeg, err := loadLeg(c.ToTLS, "--tls-ca", c.TLSCA, &c.ToKey)
	if err != nil {
		return copier.Options{}, err
	}
	fromLeg.heap, toLeg.heap = &metrics.Heap.Connections, &metrics.Heap.Connections
	source := fromLeg.server(c.From.MySQL)
	source.Patience = c.Copy.Patience
	from := copier.FromServer(source)
	if c.From.Tare != "" {
		remote, err := remoteOptions(c, fromLeg.authorities)
		if err != nil {
			return copier.Options{}, err
		}
		from = copier.FromRemote(remote)
	}
	o := c.Copy
	o.From, o.To = from, toLeg.server(c.To.MySQL)
	o.UntilCaughtUp = c.FollowUntil == config.FollowUntilCaughtUp
	o.Throttle, o.Metrics = copyThrottle(c, fromLeg), metrics
	gateway, err := copyGateway(c)
	if err != nil {
		return o, err
	}
	if o.Throttle.MaxP99 > 0 {
		o.Throttle.Gateway = gateway
	}
	o.Heartbeat = copier.HeartbeatOptions{Off: c.Heartbeat == config.HeartbeatOff, OnReplica: c.OnReplica}
	if !o.Follow {
		o.MaxViewAge = 0
	}
	if c.Cutover.On {
		cutover := c.Cutover.Options
		cutover.Gateway, cutover.Back = gateway, source
		o.Cutover = &cutover
	}
	if c.Selection.Empty() && !c.To.IsDump() {
		o.Control, err = copyControl(c)
	}
	return o, err
}

// copyGateway returns the gateway for the live traffic, with its account.
func copyGateway(c *config.Copy) (gatewayclient.Gateway, error) { return throttleGateway(&c.Throttle) }

// throttleGateway returns the gateway of limits, with its account.
func throttleGateway(t *config.CopyThrottle) (g gatewayclient.Gateway, err error) {
	g.URL = t.Gateway.Reveal()
	if g.Token, err = t.GatewayToken.Read(); err != nil {
		return g, fmt.Errorf("--gateway-token-file: %w", err)
	}
	g.RootCAs, err = server.LoadCAs("--gateway-ca", t.GatewayCA)
	return g, err
}

// copyThrottle returns the limits and the servers to poll: with the TLS options of the source.
func copyThrottle(c *config.Copy, source leg) throttle.Options {
	o := c.Throttle.Limits
	for _, replica := range c.Throttle.Replicas {
		o.Replicas = append(o.Replicas, source.server(replica))
	}
	if o.MaxThreadsRunning > 0 || o.Query != "" {
		asked := c.Throttle.Server
		if asked.Addr == "" {
			asked = c.From.MySQL
		}
		o.Server = source.server(asked)
	}
	return o
}

// remoteOptions returns the options for reading from --from tare://….
func remoteOptions(c *config.Copy, authorities *x509.CertPool) (o wire.RemoteOptions, err error) {
	o.Addr = string(c.From.Tare)
	if o.Token, err = c.FromToken.Read(); err != nil {
		return o, err
	}
	if c.Compress == config.WireZstd {
		o.Compression = wire.Zstd
	}
	if c.FromTLS != mysqlconn.TLSDisabled && c.FromTLS != mysqlconn.TLSPreferred {
		host, _, _ := net.SplitHostPort(o.Addr) // the option is validated
		o.TLS = mysqlconn.ClientTLS(c.FromTLS, server.ClientTLS(authorities), host)
	}
	return o, nil
}

func printPlan(w io.Writer, planned []copier.PlannedTable, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(planned)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tTO\tROWS (ABOUT)\tBYTES (ABOUT)\tCHUNKS\tKEY\tSTATE")
	for _, p := range planned {
		state := p.Phase
		switch {
		case p.Create:
			state += ", table is created"
		case p.CopiedBefore > 0:
			state += ", " + quantity.Of(p.CopiedBefore, "chunk") + " copied before"
		}
		visible.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%s\t%s\n", p.Source, p.Target, p.RowsEstimate, megabytes(p.BytesEstimate), p.Chunks, p.Key, state)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range planned {
		for _, x := range p.Indexes {
			visible.Fprintf(w, "%s: built after the rows: %s\n", p.Target, x)
		}
		for _, k := range p.ForeignKeys {
			visible.Fprintf(w, "%s: created after the rows: %s\n", p.Target, k)
		}
		for _, note := range p.Notes {
			visible.Fprintf(w, "%s: %s\n", p.Source, note)
		}
	}
	_, err := fmt.Fprintln(w, "dry run: nothing was changed")
	return err
}

func printCopyReport(w io.Writer, r *copier.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Event string `json:"event"`
			*copier.Report
		}{"report", r})
	}
	if err := printHeld(w, r.Throttle); err != nil {
		return err
	}
	for i := range r.NotCopied {
		if _, err := visible.Fprintf(w, "not copied: %s\n", &r.NotCopied[i]); err != nil {
			return err
		}
	}
	if a := r.Accounts; a != nil {
		visible.Fprintf(w, "accounts: %d copied; this run has created %d and executed %s\n", a.Accounts, a.Created, quantity.Of(a.Granted, "GRANT"))
		for _, note := range a.Notes {
			visible.Fprintf(w, "account %s\n", note)
		}
	}
	for _, t := range r.Tables {
		before := ""
		if t.Before > 0 {
			before = visible.Sprintf(", %d of them before this run", t.Before)
		}
		if _, err := visible.Fprintf(w, "%s: copied to %s: %s in %s%s\n", t.Source, t.Target, quantity.Of(t.Rows, "row"), quantity.Of(t.Chunks, "chunk"), before); err != nil {
			return err
		}
		if err := printVerified(w, t); err != nil {
			return err
		}
	}
	if err := printCutover(w, r.Cutover); err != nil {
		return err
	}
	if f := r.Follow; f != nil {
		_, err := visible.Fprintf(w, "followed from %s: %d inserts, %d updates and %d deletes were applied; everything before %s is in the target\n",
			f.From, f.Inserts, f.Updates, f.Deletes, f.Position)
		return err
	}
	if r.Position == "" {
		return nil
	}
	_, err := visible.Fprintf(w, "the source's binary log stood at %s\n", r.Position)
	return err
}

// printCutover prints the server that clients use.
func printCutover(w io.Writer, c *cutover.Report) error {
	if c == nil {
		return nil
	}
	if c.Phase == cutover.PhaseHanded {
		_, err := visible.Fprintf(w, "handed over: everything before %s of the source's binary log is here\n", c.SourcePosition)
		return err
	}
	text := "clients are at the source: it was told to finish before they were switched\n"
	if c.Phase != "" {
		text = "clients are at the target\n"
	}
	if c.PauseSeconds > 0 {
		text = visible.Sprintf("clients are at the target: %d sessions were switched, and commands waited for at most %.0f ms\n", c.Moved, c.PauseSeconds*1000)
		if c.Closed > 0 {
			text += visible.Sprintf("%d sessions were closed, since they could not be switched\n", c.Closed)
		}
	}
	if f := c.Reverse; f != nil {
		text += visible.Sprintf("%d inserts, %d updates and %d deletes were written back to the source: it has everything before %s of the target's log\n", f.Inserts, f.Updates, f.Deletes, f.Position)
	}
	_, err := io.WriteString(w, text)
	return err
}

func megabytes(n int64) string { return visible.Sprintf("%.1f MB", float64(n)/1e6) }

// shownMismatches is the number of differing rows per table shown to people; --json has more.
const shownMismatches = 20

// printVerified prints the result of comparing a table.
func printVerified(w io.Writer, t copier.TableReport) error {
	v := t.Verify
	if v == nil {
		return nil
	}
	before := ""
	if v.Before > 0 {
		before = ", after " + quantity.Of(v.Before, "chunk") + " found equal before"
	}
	if v.Mismatches() == 0 && v.Incomplete() {
		_, err := visible.Fprintf(w, "%s: verification incomplete: %d of %s; equal: %s\n", t.Source, v.Compared(), quantity.Of(v.Of, "chunk"), quantity.Of(v.Rows, "row"))
		return err
	}
	if v.Mismatches() == 0 {
		_, err := visible.Fprintf(w, "%s: verified: %s in %s equal, checksum %s%s\n", t.Source, quantity.Of(v.Rows, "row"), quantity.Of(v.Chunks, "chunk"), v.Checksum, before)
		return err
	}
	visible.Fprintf(w, "%s: NOT EQUAL: rows missing in the target: %d, only there: %d, with other values: %d; compared: %s in %s%s\n",
		t.Source, v.Missing, v.Extra, v.Changed, quantity.Of(v.Rows, "row"), quantity.Of(v.Chunks, "chunk"), before)
	shown, earlier := 0, false
	for _, d := range v.Different {
		earlier = earlier || d.Earlier
		for _, row := range d.Rows {
			if shown++; shown <= shownMismatches {
				visible.Fprintf(w, "  %s %s\n", row.Kind, strings.Join(row.Key, ", "))
			}
		}
	}
	if int64(min(shown, shownMismatches)) < v.Mismatches() {
		fmt.Fprintln(w, "  … (--json names more)")
	}
	if earlier {
		fmt.Fprintln(w, "  some of them were copied by an earlier run: the source may have been written to since")
	}
	return nil
}
