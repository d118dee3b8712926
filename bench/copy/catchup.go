package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/testmysql"
)

// A catchUp is the rate at which a number of writers applies changes, compared with the rate at which it
// copies rows.
type catchUp struct {
	name    string
	tare    string // path of the binary
	workers int
	rows    []float64 // rows copied per second
	changes []float64 // changes applied per second
	cpu     []float64 // of the tool, in µs per change
	beside  *catchUp  // the same with the other binary, or nil
}

// catchUps copies the table, lets sysbench change it without a follower, and follows until the target has
// caught up. Numbers of writers alternate.
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
	for round := range o.rounds {
		for i := range all {
			c := all[(i+round)%len(all)]
			if err := l.catchUp(ctx, o, c); err != nil {
				return fmt.Errorf("catch up with %s writers: %w", c.name, err)
			}
			fmt.Fprintf(log, "%s writers: %.0f rows/s copied, %.0f changes/s applied, CPU %.2f µs per change\n", c.name, c.rows[len(c.rows)-1], c.changes[len(c.changes)-1], c.cpu[len(c.cpu)-1])
		}
	}
	t := tabwriter.NewWriter(out, 0, 4, 1, ' ', 0)
	fmt.Fprintln(t, "| writers\t| rows copied/s\t| changes applied/s\t| CPU of the tool, µs per change\t|")
	fmt.Fprintln(t, "|---:\t|---:\t|---:\t|---:\t|")
	for _, c := range all {
		fmt.Fprintf(t, "| %s\t| %.0f\t| %.0f\t| %.2f\t|\n", c.name, programs.Median(c.rows), programs.Median(c.changes), programs.Median(c.cpu))
		if o := c.beside; o != nil {
			fmt.Fprintf(t, "| ratio of the time to the other's\t| %s\t| %s\t| %s\t|\n", ratio(o.rows, c.rows), ratio(o.changes, c.changes), ratio(c.cpu, o.cpu))
		}
	}
	return t.Flush()
}

func (l *lab) catchUp(ctx context.Context, o *options, c *catchUp) error {
	if err := l.target.Exec("DROP DATABASE IF EXISTS _tare", "DROP DATABASE IF EXISTS "+schema, "CREATE DATABASE "+schema); err != nil {
		return err
	}
	args := []string{ // the account for following must be able to replicate
		"copy", "--from", url(testmysql.RootUser, l.source), "--to", url(testmysql.RootUser, l.target), "--tables", schema + "." + table, "--workers", strconv.Itoa(c.workers),
		"--follow", "--follow-until", "caught-up", "--json", "--control-socket", "off",
	}
	first, err := follow(ctx, c.tare, args)
	if err != nil {
		return err
	}
	c.rows = append(c.rows, float64(first.rows)/first.copied.Seconds())
	load := exec.CommandContext(ctx, "sysbench", append(programs.Sysbench("oltp_write_only", l.source.Addr, o.rows),
		"--threads=4", "--time=0", fmt.Sprintf("--events=%d", o.changes/4), "run")...) // of four changes each
	if text, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("change the table with sysbench: %w\n%s", err, text)
	}
	second, err := follow(ctx, c.tare, args)
	if err != nil {
		return err
	}
	c.changes = append(c.changes, float64(second.changes)/second.followed.Seconds())
	c.cpu = append(c.cpu, float64(second.cpu.Microseconds())/float64(second.changes))
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
