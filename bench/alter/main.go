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
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

const (
	alone  = "alone" // the traffic without a tool
	schema = testmysql.DefaultSchema
	table  = "sbtest1"
	full   = schema + "." + table
	base   = schema + ".base" // a table with the rows that each tool gets
)

// options are the command-line options.
type options struct {
	rows    int
	product string
	clauses string
	tools   []string
	paths   map[string]*string // of the tools' programs, by name
	threads int
	rate    int           // transactions per second
	bursts  bool          // threefold for 5 s of 15
	alone   time.Duration // of the traffic before the first tool
	limit   time.Duration // of the p99 of statements; 0: twice that of the traffic alone
	flags   []string      // more flags of tare alter
	printed string        // file for the output of the tools, or empty
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "alter:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{paths: make(map[string]*string)}
	var tools, flags string
	f := flag.NewFlagSet("alter", flag.ContinueOnError)
	f.IntVar(&o.rows, "rows", 5_000_000, "rows of the table, in sysbench's layout")
	f.StringVar(&o.product, "product", "mysql", "mysql or mariadb")
	f.StringVar(&o.clauses, "alter", "MODIFY k BIGINT NOT NULL DEFAULT 0, ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'x'", "clauses of the ALTER TABLE")
	f.StringVar(&tools, "tools", "tare,tare-unlimited,gh-ost,spirit,pt-online-schema-change", "tools, by comma, in this order; alone: the traffic alone, once more")
	f.IntVar(&o.threads, "threads", 4, "threads of sysbench")
	f.IntVar(&o.rate, "rate", 30, "transactions of sysbench per second")
	f.BoolVar(&o.bursts, "bursts", false, "five seconds of fifteen have three times the rate")
	f.DurationVar(&o.alone, "alone", 20*time.Second, "duration of the traffic alone, by which the limits are set")
	f.DurationVar(&o.limit, "limit", 0, "limit of the p99 of statements; twice that of the traffic alone when 0")
	f.StringVar(&o.printed, "printed", "", "file to which what the tools print is added")
	f.StringVar(&flags, "flags", "", "more flags of tare alter, by blanks")
	for _, name := range []string{"tare", "gh-ost", "spirit", "pt-online-schema-change"} {
		o.paths[name] = f.String(name, "", "path of "+name+"; looked up, or for tare built from the tree, when empty")
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.tools, o.flags = strings.Split(tools, ","), strings.Fields(flags)
	for _, name := range o.tools {
		if commands[name] == nil && name != alone {
			return nil, fmt.Errorf("unknown tool %q", name)
		}
	}
	if o.product != "mysql" && o.product != "mariadb" {
		return nil, fmt.Errorf("unknown product %q: mysql or mariadb", o.product)
	}
	if o.alone < 5*time.Second {
		return nil, fmt.Errorf("-alone %v: use 5s or more", o.alone)
	}
	return o, nil
}

// A result is that of one tool.
type result struct {
	name, version  string
	missing        string // why it was not measured; empty: it was
	wall, cpu, rss float64
	load           summary
}

// A lab has the server and the gateway before it.
type lab struct {
	o       *options
	dir     string
	server  *testmysql.Server
	tare    string
	gateway string // address
	pages   string // its URL
	limits  limits
}

// limits are those of the latency, in ms.
type limits struct{ statement, transaction float64 }

func run(ctx context.Context, o *options, out, log io.Writer) (err error) {
	l := &lab{o: o}
	if l.dir, err = os.MkdirTemp("", "tare-alter-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if l.tare, err = programs.Tare(ctx, *o.paths["tare"], l.dir); err != nil {
		return err
	}
	server := []testmysql.Option{testmysql.WithBinlog(), testmysql.WithArgs("--innodb-buffer-pool-size=1G", "--max-allowed-packet=64M")}
	if o.product == "mysql" {
		server = append(server, testmysql.WithMySQL())
	}
	if l.server, err = testmysql.New(server...); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	defer func() { err = errors.Join(err, l.server.Close()) }()
	stop, err := l.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	fmt.Fprintf(log, "filling a table of %d rows\n", o.rows)
	if err := l.fill(ctx); err != nil {
		return err
	}
	calibrated, err := l.calibrate(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "traffic alone: %s; limits: %.2f ms per statement, %.2f ms per transaction\n", calibrated, l.limits.statement, l.limits.transaction)
	results := make([]*result, len(o.tools))
	for i, name := range o.tools {
		if results[i], err = l.measure(ctx, name, log); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return l.print(out, calibrated, results)
}

// serve starts the gateway.
func (l *lab) serve(ctx context.Context) (stop func() error, err error) {
	if l.gateway, err = programs.FreeAddress(); err != nil {
		return nil, err
	}
	pages, err := programs.FreeAddress()
	if err != nil {
		return nil, err
	}
	l.pages = "http://" + pages
	c, err := programs.Serve(ctx, "tare serve", l.gateway, l.tare, "serve", "--listen", l.gateway, "--http", pages, "--backend", "mysql://"+l.server.Addr,
		"--log-file", filepath.Join(l.dir, "query.log"), "--data-dir", filepath.Join(l.dir, "data"))
	if err != nil {
		return nil, err
	}
	return func() error { return c.Stop(programs.StopGrace) }, nil
}

// fill creates the table base.
func (l *lab) fill(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "sysbench", append(programs.Sysbench("oltp_read_write", l.server.Addr, l.o.rows), "prepare")...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fill the table with sysbench: %w\n%s", err, text)
	}
	return l.server.Exec("RENAME TABLE "+full+" TO "+base, "ANALYZE TABLE "+base)
}

// restore gives the table its first definition and rows.
func (l *lab) restore() error {
	return l.server.Exec("DROP DATABASE IF EXISTS _tare", "DROP TABLE IF EXISTS "+full, "CREATE TABLE "+full+" LIKE "+base,
		"INSERT INTO "+full+" SELECT * FROM "+base, "ANALYZE TABLE "+full)
}

// calibrate runs the traffic alone and sets the limits.
func (l *lab) calibrate(ctx context.Context) (summary, error) {
	traffic, err := l.runAlone(ctx)
	if err != nil {
		return summary{}, err
	}
	if len(traffic.statements) == 0 || len(traffic.p99s) < 2 {
		return summary{}, errors.New("the traffic alone has no p99: use a longer -alone")
	}
	l.limits = limits{2 * programs.Median(slices.Clone(traffic.statements)), 2 * programs.Median(slices.Clone(traffic.p99s[1:]))}
	if l.o.limit > 0 {
		l.limits.statement = l.o.limit.Seconds() * 1000
	}
	return traffic.summary(l.limits), nil
}

// runAlone runs the traffic alone.
func (l *lab) runAlone(ctx context.Context) (*load, error) {
	if err := l.restore(); err != nil {
		return nil, err
	}
	traffic, err := l.startLoad(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(l.o.alone):
	}
	return traffic, errors.Join(context.Cause(ctx), traffic.stop())
}

// measure runs a tool while the traffic runs.
func (l *lab) measure(ctx context.Context, name string, log io.Writer) (*result, error) {
	r := &result{name: name}
	if name == alone {
		traffic, err := l.runAlone(ctx)
		if err == nil {
			r.load = traffic.summary(l.limits)
			fmt.Fprintf(log, "%s: %s\n", name, r.load)
		}
		return r, err
	}
	path, err := l.program(name)
	if err != nil {
		r.missing = err.Error()
		fmt.Fprintf(log, "%s: not measured: %v\n", name, err)
		return r, nil
	}
	if err := l.restore(); err != nil {
		return nil, err
	}
	traffic, err := l.startLoad(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, commands[name](l)...)
	began := time.Now()
	text, err := cmd.CombinedOutput()
	r.wall = time.Since(began).Seconds()
	err = errors.Join(err, l.keep(name, text))
	if err := errors.Join(err, traffic.stop()); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	r.cpu, r.rss = time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds(), float64(used.Maxrss)/1024
	r.load = traffic.summary(l.limits)
	r.version = version(ctx, path)
	fmt.Fprintf(log, "%s: %.1f s, CPU %.2f s; %s\n", name, r.wall, r.cpu, r.load)
	return r, l.check(ctx)
}

// keep adds what a tool printed to the file for it.
func (l *lab) keep(name string, text []byte) error {
	if l.o.printed == "" {
		return nil
	}
	f, err := os.OpenFile(l.o.printed, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s:\n%s\n", name, text)
	return errors.Join(err, f.Close())
}

// version returns the first line that a program prints for --version.
func version(ctx context.Context, path string) string {
	text, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(line) > 80 {
		return ""
	}
	return line
}

// check returns an error unless the table has the definition of a plain ALTER TABLE, and as many rows as before.
func (l *lab) check(ctx context.Context) error {
	c, err := session.Connect(ctx, mysqlconn.Config{Addr: l.server.Addr, User: testmysql.RootUser, Password: testmysql.Password})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it only reads
	twin := schema + ".twin"
	if err := l.server.Exec("DROP TABLE IF EXISTS "+twin, "CREATE TABLE "+twin+" LIKE "+base, "ALTER TABLE "+twin+" "+l.o.clauses); err != nil {
		return err
	}
	var columns [2][]rowstream.Column
	for i, name := range []string{table, "twin"} {
		t, err := rowstream.ReadTable(ctx, c, schema, name)
		if err != nil {
			return err
		}
		columns[i] = t.Columns
	}
	if !slices.Equal(columns[0], columns[1]) {
		return fmt.Errorf("the columns are %v, want %v", columns[0], columns[1])
	}
	n, err := session.QueryValue(ctx, c, "SELECT COUNT(*) FROM "+full)
	if err == nil && n != fmt.Sprint(l.o.rows) {
		err = fmt.Errorf("the table has %s rows, want %d", n, l.o.rows)
	}
	return err
}

func (l *lab) print(out io.Writer, calibrated summary, results []*result) error {
	t := tabwriter.NewWriter(out, 0, 4, 1, ' ', 0)
	fmt.Fprintf(t, "| %d rows, %s\t| wall, s\t| CPU, s\t| RSS, MiB\t| transactions/s\t| p99 per second: median, ms\t| maximum, ms\t| seconds below %.1f ms\t| statements: seconds below %.2f ms\t|\n", l.o.rows, l.o.product, l.limits.transaction, l.limits.statement)
	fmt.Fprintln(t, "|---\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|")
	row := func(name, wall, cpu, rss string, s summary) {
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %s\t| %.1f\t| %.2f\t| %.1f\t| %d of %d\t| %d of %d\t|\n", name, wall, cpu, rss, s.rate, s.median, s.most, s.below, s.seconds, s.statementsBelow, s.statements)
	}
	row("the traffic alone", "", "", "", calibrated)
	for _, r := range results {
		if r.missing != "" {
			fmt.Fprintf(t, "| %s\t| not measured: %s\t|\t|\t|\t|\t|\t|\t|\t|\n", r.name, r.missing)
			continue
		}
		if r.name == alone {
			row("the traffic alone", "", "", "", r.load)
			continue
		}
		row(strings.TrimSpace(r.name+" "+strings.TrimPrefix(r.version, r.name+" ")), fmt.Sprintf("%.1f", r.wall), fmt.Sprintf("%.2f", r.cpu), fmt.Sprintf("%.0f", r.rss), r.load)
	}
	return t.Flush()
}
