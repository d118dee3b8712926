package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	schema = testmysql.DefaultSchema
	table  = "sbtest1"
)

// options are the command-line options.
type options struct {
	rows, rounds int
	ways         []string
	workers      []int
	changes      int    // changes to catch up with; 0: no following
	tare         string // path of the binary; empty: built from the tree
	beside       string // path of another one; empty: none

	files       bool          // dump to files and load them
	live        time.Duration // of each phase of live traffic; 0: none
	liveThreads int
	liveRate    int // transactions per second; 0: no limit
	trace, svg  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "copy:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	var ways, workers string
	f := flag.NewFlagSet("copy", flag.ContinueOnError)
	f.IntVar(&o.rows, "rows", 2_000_000, "rows of the table, in sysbench's layout")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of all ways")
	f.StringVar(&ways, "ways", "tare,dump,mydumper", "ways, by comma")
	f.StringVar(&workers, "workers", "4", "tare copy --workers, by comma: a way each")
	f.IntVar(&o.changes, "changes", 0, "instead of comparing ways, how fast tare copy --follow catches up with about so many changes")
	f.BoolVar(&o.files, "files", false, "instead of comparing copies, dumps to files and loads: tare, and mydumper with and without compression")
	f.StringVar(&o.tare, "tare", "", "a tare binary; built from the tree when empty")
	f.StringVar(&o.beside, "beside", "", "another tare binary, which copies and catches up in turn; ratios are those of the first to it, round by round")
	f.DurationVar(&o.live, "live", 0, "instead of comparing ways, what live traffic feels of a copy, in five phases of this length")
	f.IntVar(&o.liveThreads, "live-threads", 4, "with -live: threads of sysbench oltp_read_only")
	f.IntVar(&o.liveRate, "live-rate", 0, "with -live: transactions a second; 0: as many as it can")
	f.StringVar(&o.trace, "trace", "", "with -live: a CSV file for the throttled phase, second by second")
	f.StringVar(&o.svg, "svg", "", "with -live: an SVG file for the same, drawn")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.live != 0 && (o.live < 5*time.Second || o.live%time.Second != 0) {
		return nil, fmt.Errorf("-live %v: use whole seconds, five or more", o.live)
	}
	o.ways = strings.Split(ways, ",")
	for w := range strings.SplitSeq(workers, ",") {
		n, err := strconv.Atoi(w)
		if err != nil {
			return nil, fmt.Errorf("-workers: %w", err)
		}
		o.workers = append(o.workers, n)
	}
	return o, nil
}

// A way is a tool for copying.
type way struct {
	name    string
	command []string
	wall    []float64 // seconds, one per round
	cpu     []float64
	rss     []float64 // MiB, of the largest process
	beside  *way      // the same with the other binary, or nil
}

func run(ctx context.Context, o *options, out, log io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "tare-copy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l := &lab{dir: dir}
	if err := l.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.source.Close(), l.target.Close()) }()
	fmt.Fprintf(log, "filling a table of %d rows\n", o.rows)
	if err := l.fill(ctx, o.rows); err != nil {
		return err
	}
	if o.changes > 0 {
		return l.catchUps(ctx, o, out, log)
	}
	if o.live > 0 {
		return l.live(ctx, o, out, log)
	}
	if o.files {
		return l.files(ctx, o, out, log)
	}
	ways, err := l.ways(ctx, o)
	if err != nil {
		return err
	}
	for round := range o.rounds {
		for i := range ways {
			w := ways[(i+round)%len(ways)]
			if err := l.measure(ctx, w, log); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return print(out, ways)
}

// A lab has the two servers.
type lab struct {
	dir            string
	source, target *testmysql.Server
}

func (l *lab) start() (err error) {
	args := testmysql.WithArgs("--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G", "--max-allowed-packet=64M")
	if l.source, err = testmysql.New(args, testmysql.WithBinlog()); err != nil {
		return fmt.Errorf("start the source: %w", err)
	}
	if l.target, err = testmysql.New(args); err != nil {
		return errors.Join(fmt.Errorf("start the target: %w", err), l.source.Close())
	}
	return nil
}

func (l *lab) fill(ctx context.Context, rows int) error {
	cmd := exec.CommandContext(ctx, "sysbench", append(programs.Sysbench("oltp_read_write", l.source.Addr, rows), "prepare")...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fill the table with sysbench: %w\n%s", err, text)
	}
	return l.source.Exec("ANALYZE TABLE " + schema + "." + table)
}

// ways returns the tools under comparison.
func (l *lab) ways(ctx context.Context, o *options) ([]*way, error) {
	login := func(s *testmysql.Server) string {
		return fmt.Sprintf("-h 127.0.0.1 -P %d -u %s -p%s", s.Port(), testmysql.AppUser, testmysql.Password)
	}
	long := func(s *testmysql.Server) string {
		return fmt.Sprintf("--host=127.0.0.1 --port=%d --user=%s --password=%s", s.Port(), testmysql.RootUser, testmysql.Password) // mydumper requires RELOAD
	}
	dump := filepath.Join(l.dir, "dump")
	var all []*way
	for _, name := range o.ways {
		switch name {
		case "tare":
			if err := l.build(ctx, o); err != nil {
				return nil, err
			}
			for _, n := range o.workers {
				w := &way{name: fmt.Sprintf("tare copy --workers %d", n), command: []string{
					o.tare, "copy", "--from", url(testmysql.AppUser, l.source), "--to", url(testmysql.AppUser, l.target), "--tables", schema + "." + table, "--workers", strconv.Itoa(n),
				}}
				all = append(all, w)
				if o.beside != "" {
					w.beside = &way{name: w.name + ", the other", command: slices.Concat([]string{o.beside}, w.command[1:])}
					all = append(all, w.beside)
				}
			}
		case "dump":
			all = append(all, &way{name: "mariadb-dump | mariadb", command: []string{"sh", "-c", fmt.Sprintf(
				"mariadb-dump %s --single-transaction %s %s | mariadb %s %s", login(l.source), schema, table, login(l.target), schema)}})
		case "mydumper":
			all = append(all, &way{name: "mydumper + myloader, 2 threads", command: []string{"sh", "-c", fmt.Sprintf(
				"rm -rf %[1]s && mydumper %[2]s --database=%[3]s --threads=2 --rows=100000 --outputdir=%[1]s && myloader %[4]s --database=%[3]s --threads=2 --directory=%[1]s --overwrite-tables",
				dump, long(l.source), schema, long(l.target))}})
		default:
			return nil, fmt.Errorf("unknown way %q: tare, dump, mydumper", name)
		}
	}
	return all, nil
}

// url returns the URL of a server for tare copy.
func url(user string, s *testmysql.Server) string {
	return fmt.Sprintf("mysql://%s:%s@%s", user, testmysql.Password, s.Addr)
}

// build builds the binary unless one is given.
func (l *lab) build(ctx context.Context, o *options) (err error) {
	o.tare, err = programs.Tare(ctx, o.tare, l.dir)
	return err
}

// measure copies once and checks the copy.
func (l *lab) measure(ctx context.Context, w *way, log io.Writer) error {
	if err := l.target.Exec("DROP DATABASE IF EXISTS "+record, "DROP DATABASE IF EXISTS "+schema, "CREATE DATABASE "+schema); err != nil {
		return err
	}
	u, err := used(ctx, w.command)
	if err != nil {
		return err
	}
	w.wall, w.cpu, w.rss = append(w.wall, u.wall), append(w.cpu, u.cpu), append(w.rss, u.rss)
	fmt.Fprintf(log, "%-32s %6.1f s, CPU %5.2f s, RSS %5.1f MiB\n", w.name, u.wall, u.cpu, u.rss)
	return l.compare(ctx)
}

// compare returns an error unless definition and rows are equal on both sides.
func (l *lab) compare(ctx context.Context) error {
	for _, sql := range []string{
		"SHOW CREATE TABLE " + schema + "." + table,
		"SELECT COUNT(*), SUM(CRC32(CONCAT_WS('#', id, k, c, pad))), BIT_XOR(CRC32(CONCAT_WS('/', id, k, c, pad))) FROM " + schema + "." + table,
	} {
		source, err := ask(ctx, l.source, sql)
		if err != nil {
			return err
		}
		target, err := ask(ctx, l.target, sql)
		if err != nil {
			return err
		}
		if source != target {
			return fmt.Errorf("the copy differs by %s:\n%s\n%s", sql, source, target)
		}
	}
	return nil
}

func ask(ctx context.Context, s *testmysql.Server, sql string) (response string, err error) {
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: s.Addr, User: testmysql.AppUser, Password: testmysql.Password})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	_, err = c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
		response += fmt.Sprintf("%s\n", row)
		return nil
	})
	return response, err
}

// print writes medians, and ratios to the other binary.
func print(out io.Writer, ways []*way) error {
	t := tabwriter.NewWriter(out, 0, 4, 1, ' ', 0)
	fmt.Fprintln(t, "| by\t| wall s\t| tool CPU s\t| RSS MiB\t|")
	fmt.Fprintln(t, "|---\t|---:\t|---:\t|---:\t|")
	for _, w := range ways {
		fmt.Fprintf(t, "| %s\t| %.1f\t| %.2f\t| %.0f\t|\n", w.name, programs.Median(w.wall), programs.Median(w.cpu), programs.Median(w.rss))
		if o := w.beside; o != nil {
			fmt.Fprintf(t, "| ratio to the other\t| %s\t| %s\t| %s\t|\n", ratio(w.wall, o.wall), ratio(w.cpu, o.cpu), ratio(w.rss, o.rss))
		}
	}
	return t.Flush()
}

// ratio returns the median of the ratios of the rounds, with the least and the greatest.
func ratio(a, b []float64) string {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", programs.Median(slices.Clone(ratios)), slices.Min(ratios), slices.Max(ratios))
}
