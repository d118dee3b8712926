package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/bench"
	"github.com/taredb/tare/cmd/tare/internal/config"
)

func newBenchCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "bench",
		Short: "Measure the cost of a process: CPU, garbage collection, allocations, memory, latency",
		Long: `Measure the cost of a process: CPU, garbage collection, allocations, memory, latency.

The metrics are defined in docs/reference/bench.md.`,
	})
	cmd.AddCommand(newBenchOLTPCommand(), newBenchLogCommand(), newBenchImportCommand())
	return cmd
}

// resultFlags select the format of the results.
type resultFlags struct{ json, lines bool }

func (f *resultFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON instead of a table")
	cmd.Flags().BoolVar(&f.lines, "bench", false, "print Go benchmark lines, for benchstat, instead of a table")
}

func (f *resultFlags) print(cmd *cobra.Command, results []bench.Result) error {
	switch out := cmd.OutOrStdout(); {
	case f.json:
		return bench.WriteJSON(out, results)
	case f.lines:
		return bench.WriteLines(out, results)
	default:
		return bench.WriteTable(out, results)
	}
}

const tpcc = "tpcc" // of bench.Workloads

func bindTarget(cmd *cobra.Command, o *bench.TargetOptions) {
	cmd.Flags().IntVar(&o.PID, "pid", 0, "`id` of the process to weigh")
	cmd.Flags().StringVar(&o.Metrics, "metrics", "", "`URL` of the /metrics of the process to weigh")
}

func newBenchOLTPCommand() *cobra.Command {
	o := bench.DefaultOLTPOptions()
	var form resultFlags
	cmd := &cobra.Command{
		Use:   "oltp",
		Short: "Run a workload against a MySQL address and measure a process",
		Long: `Run a workload against a MySQL address and measure a process.

Without --rate the loop is closed: each thread starts an operation when its previous one has finished.
With --rate it is open: operations are scheduled at fixed times, and latency counts from then.
Missing tables are created and filled; --drop removes them afterwards. --trace replays a
query log that was recorded with --log-original and --log-redact none.`,
		Example: `  tare bench oltp --dsn 'app:secret@tcp(127.0.0.1:3316)/test' --workload read-write --pid $(pidof tare) --metrics http://127.0.0.1:8316/metrics
  tare bench oltp --dsn 'app:secret@tcp(127.0.0.1:3316)/test' --rate 5000 --count 10 --bench > new.txt; benchstat old.txt new.txt
  tare bench oltp --dsn 'app:secret@tcp(127.0.0.1:3316)/test' --trace query.log --speed 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checked(cmd, errors.Join(o.Validate(), exclusive(cmd, "json", "bench"),
				noEffect(cmd, o.Trace != "", "without --trace", "speed"),
				noEffect(cmd, o.Workload == tpcc, "without --workload "+tpcc, "warehouses"),
				noEffect(cmd, o.Workload != tpcc, "with --workload "+tpcc, "tables", "rows"),
				exclusive(cmd, "trace", "workload", "threads", "rate", "warmup", "duration", "prepared", "tables", "rows", "warehouses", "drop"))); err != nil {
				return err
			}
			o.Progress = cmd.ErrOrStderr()
			result, err := bench.OLTP(cmd.Context(), o)
			if err != nil {
				return err
			}
			return form.print(cmd, []bench.Result{result})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.DSN, "dsn", "", "where to: user:password@tcp(host:port)/database")
	f.StringVar(&o.Workload, "workload", o.Workload, strings.Join(bench.Workloads(), ", "))
	f.IntVar(&o.Threads, "threads", o.Threads, "connections that work at once")
	f.Float64Var(&o.Rate, "rate", 0, "operations a second of all threads (default: a closed loop)")
	f.DurationVar(&o.Warmup, "warmup", o.Warmup, "load before the first run")
	f.DurationVar(&o.Duration, "duration", o.Duration, "length of one run")
	f.IntVar(&o.Count, "count", o.Count, "how many runs")
	f.BoolVar(&o.Prepared, "prepared", false, "use prepared statements")
	f.IntVar(&o.Tables, "tables", o.Tables, "tables of the workloads that are like sysbench's")
	f.IntVar(&o.Rows, "rows", o.Rows, "rows in each of them")
	f.IntVar(&o.Warehouses, "warehouses", o.Warehouses, "warehouses of tpcc")
	f.BoolVar(&o.Drop, "drop", false, "drop the workload's tables at the end")
	f.StringVar(&o.Trace, "trace", "", "query log `file` to replay instead of a workload")
	f.Float64Var(&o.Speed, "speed", o.Speed, "how much faster than recorded a trace is replayed; 0: each connection as fast as the answers come")
	bindTarget(cmd, &o.Target)
	f.StringVar(&o.Profile, "profile", "", "`directory` for a CPU and an allocation profile of the process, taken in a run of their own")
	form.bind(cmd)
	if err := errors.Join(
		cmd.RegisterFlagCompletionFunc("workload", cobra.FixedCompletions(bench.Workloads(), cobra.ShellCompDirectiveNoFileComp)),
		cmd.MarkFlagFilename("trace"), cmd.MarkFlagDirname("profile"),
	); err != nil {
		panic("BUG: " + err.Error()) // the flags were added above
	}
	return cmd
}

func newBenchLogCommand() *cobra.Command {
	o := bench.DefaultLogOptions()
	var form resultFlags
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Measure the query log alone: each sink, with and without readers",
		Example: `  tare bench log
  tare bench log --sinks file --formats json --readers 0,3 --count 10 --bench > log.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checked(cmd, errors.Join(o.Validate(), exclusive(cmd, "json", "bench"),
				noEffect(cmd, slices.Contains(o.Sinks, "file"), "without the sink file", "dir"))); err != nil {
				return err
			}
			o.Progress = cmd.ErrOrStderr()
			results, err := bench.Log(cmd.Context(), o)
			if err != nil {
				return err
			}
			return form.print(cmd, results)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.Sinks, "sinks", o.Sinks, "what is written to: "+strings.Join(bench.LogSinks(), ", "))
	f.StringSliceVar(&o.Formats, "formats", o.Formats, "forms of a line: json, text")
	f.IntSliceVar(&o.Readers, "readers", o.Readers, "how many read the stream over HTTP meanwhile")
	f.Float64Var(&o.Rate, "rate", 0, "records a second (default: as many as are taken)")
	f.DurationVar(&o.Duration, "duration", o.Duration, "length of one run")
	f.IntVar(&o.Count, "count", o.Count, "how many runs of each case")
	f.StringVar(&o.Dir, "dir", "", "`directory` for the file (default: a temporary one)")
	form.bind(cmd)
	return cmd
}

func newBenchImportCommand() *cobra.Command {
	o := bench.DefaultImportOptions()
	size, statement := config.Bytes(o.Bytes).String(), config.Bytes(o.StatementBytes).String()
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Send a generated SQL dump and sample the memory of the relaying process",
		Long: `Send a generated SQL dump and sample the memory of the relaying process.

The dump consists of multi-row INSERTs of various sizes into the table tare_bench_import, which is
created and dropped at the end. The server's max_allowed_packet must be larger than
--statement-bytes.`,
		Example: `  tare bench import --dsn 'app:secret@tcp(127.0.0.1:3316)/test' --pid $(pidof tare) --metrics http://127.0.0.1:8316/metrics --out import/`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, v := range []struct {
				flag, text string
				to         *int64
			}{{"bytes", size, &o.Bytes}, {"statement-bytes", statement, &o.StatementBytes}} {
				n, err := config.ParseBytes(v.text)
				if err != nil {
					return checked(cmd, fmt.Errorf("--%s: %w", v.flag, err))
				}
				*v.to = int64(n)
			}
			if err := checked(cmd, o.Validate()); err != nil {
				return err
			}
			o.Progress = cmd.ErrOrStderr()
			result, err := bench.Import(cmd.Context(), o)
			if err != nil {
				return err
			}
			if o.Out != "" {
				if err := result.Write(o.Out); err != nil {
					return err
				}
			}
			if asJSON {
				return result.WriteJSON(cmd.OutOrStdout())
			}
			return result.WriteText(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.DSN, "dsn", "", "where to: user:password@tcp(host:port)/database")
	f.StringVar(&size, "bytes", size, "`bytes` of all statements")
	f.StringVar(&statement, "statement-bytes", statement, "`bytes` of the largest statement")
	f.IntVar(&o.Connections, "connections", o.Connections, "connections that import at once")
	f.DurationVar(&o.Every, "every", o.Every, "time between two samples")
	f.DurationVar(&o.Settle, "settle", o.Settle, "how long to watch after the import")
	f.BoolVar(&o.Keep, "keep", false, "keep the table")
	f.StringVar(&o.Out, "out", "", "`directory` for import.svg and import.json")
	bindTarget(cmd, &o.Target)
	f.BoolVar(&asJSON, "json", false, "print JSON instead of text")
	if err := cmd.MarkFlagDirname("out"); err != nil {
		panic("BUG: " + err.Error()) // the flag was added above
	}
	return cmd
}
