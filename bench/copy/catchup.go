package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/testmysql"
)

// record is the schema in which a copy keeps its record at the target.
const record = "_tare"

// A catchUp is the rate at which a number of writers applies changes, compared with the rate at which it
// copies rows.
type catchUp struct {
	name    string
	tare    string // path of the binary
	workers int
	kept    string    // begins the names of the schemas that have its copy
	rows    float64   // copied per second
	changes []float64 // changes applied per second
	cpu     []float64 // of the tool, in µs per change
	beside  *catchUp  // the same with the other binary, or nil
}

// catchUps copies the table with each binary and number of writers, lets sysbench change it without a follower, and follows until the
// target has caught up. All of them apply the same log, in turn: each round begins with the copy as it was.
func (l *lab) catchUps(ctx context.Context, o *options, out, log io.Writer) error {
	if err := l.build(ctx, o); err != nil {
		return err
	}
	var all []*catchUp
	for _, n := range o.workers {
		c := &catchUp{name: strconv.Itoa(n), tare: o.tare, workers: n}
		all = append(all, c)
		if o.beside != "" {
			c.beside = &catchUp{name: c.name + ", the other", tare: o.beside, workers: n}
			all = append(all, c.beside)
		}
	}
	for i, c := range all {
		if err := l.firstCopy(ctx, c, fmt.Sprintf("kept%d_", i)); err != nil {
			return fmt.Errorf("copy with %s writers: %w", c.name, err)
		}
	}
	load := exec.CommandContext(ctx, "sysbench", append(programs.Sysbench("oltp_write_only", l.source.Addr, o.rows),
		"--threads=4", "--time=0", fmt.Sprintf("--events=%d", o.changes/4), "run")...) // of four changes each
	if text, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("change the table with sysbench: %w\n%s", err, text)
	}
	for round := range o.rounds {
		for i := range all {
			c := all[(i+round)%len(all)]
			if err := l.catchUp(ctx, c); err != nil {
				return fmt.Errorf("catch up with %s writers: %w", c.name, err)
			}
			fmt.Fprintf(log, "%s writers: %.0f changes/s applied, CPU %.2f µs per change\n", c.name, c.changes[len(c.changes)-1], c.cpu[len(c.cpu)-1])
		}
	}
	t := tabwriter.NewWriter(out, 0, 4, 1, ' ', 0)
	fmt.Fprintln(t, "| writers\t| rows copied/s\t| changes applied/s\t| CPU of the tool, µs per change\t|")
	fmt.Fprintln(t, "|---:\t|---:\t|---:\t|---:\t|")
	for _, c := range all {
		fmt.Fprintf(t, "| %s\t| %.0f\t| %.0f\t| %.2f\t|\n", c.name, c.rows, programs.Median(c.changes), programs.Median(c.cpu))
		if o := c.beside; o != nil {
			fmt.Fprintf(t, "| ratio of the time to the other's\t| %.3f\t| %s\t| %s\t|\n", o.rows/c.rows, ratio(o.changes, c.changes), ratio(c.cpu, o.cpu))
		}
	}
	return t.Flush()
}

// follow returns the arguments of a copy that follows until it has caught up.
func (l *lab) follow(c *catchUp) []string {
	return []string{ // the account for following must be able to replicate
		"copy", "--from", url(testmysql.RootUser, l.source), "--to", url(testmysql.RootUser, l.target), "--tables", schema + "." + table, "--workers", strconv.Itoa(c.workers),
		"--follow", "--follow-until", "caught-up", "--json", "--control-socket", "off",
	}
}

// firstCopy copies the table and keeps the target, with its record, in schemas that begin with kept.
func (l *lab) firstCopy(ctx context.Context, c *catchUp, kept string) error {
	if err := l.target.Exec("DROP DATABASE IF EXISTS "+record, "DROP DATABASE IF EXISTS "+schema, "CREATE DATABASE "+schema); err != nil {
		return err
	}
	r, err := follow(ctx, c.tare, l.follow(c))
	if err != nil {
		return err
	}
	c.kept, c.rows = kept, float64(r.rows)/r.copied.Seconds()
	return errors.Join(l.duplicate(ctx, schema, kept+schema), l.duplicate(ctx, record, kept+record))
}

// duplicate replaces a schema of the target with the tables of another one.
func (l *lab) duplicate(ctx context.Context, from, to string) error {
	names, err := ask(ctx, l.target, "SELECT GROUP_CONCAT(table_name) FROM information_schema.tables WHERE table_schema = '"+from+"'")
	if err != nil {
		return err
	}
	statements := []string{"DROP DATABASE IF EXISTS " + to, "CREATE DATABASE " + to}
	for name := range strings.SplitSeq(strings.Trim(names, "[]\n"), ",") {
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s.%s LIKE %s.%[2]s", to, name, from), fmt.Sprintf("INSERT INTO %s.%s SELECT * FROM %s.%[2]s", to, name, from))
	}
	return l.target.Exec(statements...)
}

// catchUp follows from the first copy on.
func (l *lab) catchUp(ctx context.Context, c *catchUp) error {
	if err := errors.Join(l.duplicate(ctx, c.kept+schema, schema), l.duplicate(ctx, c.kept+record, record)); err != nil {
		return err
	}
	r, err := follow(ctx, c.tare, l.follow(c))
	if err != nil {
		return err
	}
	c.changes = append(c.changes, float64(r.changes)/r.followed.Seconds())
	c.cpu = append(c.cpu, float64(r.cpu.Microseconds())/float64(r.changes))
	return l.compare(ctx)
}

// A copyRun is the result that a following copy reports.
type copyRun struct {
	rows, changes    int64
	copied, followed time.Duration
	cpu              time.Duration
}

// follow runs a copy until it has caught up.
func follow(ctx context.Context, tare string, args []string) (r copyRun, err error) {
	cmd := exec.CommandContext(ctx, tare, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	var began, following time.Time
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var e struct {
			Event  string `json:"event"`
			Rows   int64  `json:"rows"`
			Follow *struct{ Inserts, Updates, Deletes int64 }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return r, fmt.Errorf("an event of the copy: %w: %s", err, lines.Bytes())
		}
		switch e.Event {
		case "snapshot":
			began = time.Now()
		case "chunk":
			r.rows += e.Rows
			r.copied = time.Since(began)
		case "follow":
			following = time.Now()
		case "caught-up":
			r.followed = time.Since(following)
		case "report":
			if f := e.Follow; f != nil {
				r.changes = f.Inserts + f.Updates + f.Deletes
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		return r, fmt.Errorf("%w\n%s", err, said.Bytes())
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, nil
}
