package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// maxTraceConns bounds the concurrent connections of a replay.
const maxTraceConns = 1000

// replay replays a trace, once per run.
func replay(ctx context.Context, o *OLTPOptions, t *target) (Result, error) {
	tr, err := readTraceFile(o.Trace)
	if err != nil {
		return Result{}, err
	}
	if n := len(tr.conns); n > maxTraceConns {
		return Result{}, fmt.Errorf("the trace has %d connections, more than the %d that a replay opens", n, maxTraceConns)
	}
	progressf(o.Progress, "%d statements of %d connections over %v; skipped: %d without text, %d cut, %d other records",
		tr.total, len(tr.conns), tr.length, tr.skipped.noText, tr.skipped.cut, tr.skipped.notStatements)
	cfg, err := parseDSN(o.DSN)
	if err != nil {
		return Result{}, err
	}
	result := Result{Name: "OLTP/trace", Threads: len(tr.conns)}
	var last time.Duration
	for n := range o.Count {
		progressf(o.Progress, "run %d of %d", n+1, o.Count)
		run, err := replayOnce(ctx, tr, cfg, o.Speed, t)
		if err != nil {
			return result, err
		}
		qps, _ := run.value("queries/s")
		progressf(o.Progress, "run %d of %d: %.0f queries/s", n+1, o.Count, qps)
		last = time.Duration(run.Seconds * float64(time.Second))
		result.Runs = append(result.Runs, run)
	}
	if o.Profile == "" {
		return result, nil
	}
	progressf(o.Progress, "profiling one more run")
	profiled := make(chan error, 1)
	go func() { profiled <- t.keepProfiles(ctx, o.Profile, last) }()
	_, err = replayOnce(ctx, tr, cfg, o.Speed, t)
	return result, errors.Join(err, <-profiled)
}

// replayOnce performs one run: all connections of the trace, each in its recorded order.
func replayOnce(ctx context.Context, tr *trace, cfg mysqlconn.Config, speed float64, t *target) (Run, error) {
	from, err := t.read(ctx)
	if err != nil {
		return Run{}, err
	}
	running, playing := errgroup.WithContext(ctx)
	begin := time.Now()
	players := make([]player, len(tr.conns))
	for i := range tr.conns {
		p := &players[i]
		p.cfg, p.begin, p.speed = cfg, begin, speed
		running.Go(func() error {
			if err := p.play(playing, &tr.conns[i]); err != nil {
				return fmt.Errorf("replay connection %d: %w", tr.conns[i].id, err)
			}
			return nil
		})
	}
	err = running.Wait()
	if ctx.Err() != nil {
		return Run{}, ctx.Err() // not its effect on the current statements
	}
	if err != nil {
		return Run{}, err
	}
	seconds := time.Since(begin).Seconds()
	to, err := t.read(ctx)
	if err != nil {
		return Run{}, err
	}
	var sum counts
	var failed, differ int
	for i := range players {
		sum.merge(&players[i].counts)
		failed += players[i].failed
		differ += players[i].differ
	}
	run := Run{Seconds: seconds, Operations: sum.operations}
	sum.addTo(&run)
	run.add("errors", float64(failed))
	run.add("differing-errors", float64(differ))
	run.add("skipped", float64(tr.skipped.total()))
	t.addWeight(&run, from, to, sum.queries)
	return run, nil
}

// A player replays one connection.
type player struct {
	cfg   mysqlconn.Config
	begin time.Time
	speed float64

	session *connection
	schema  string

	counts counts
	failed int // statements that the server refused
	differ int // statements with another error than in the recording
}

// play sends the connection's statements, each at its due time. It returns early if the connection breaks.
func (p *player) play(ctx context.Context, c *traceConn) (err error) {
	defer func() {
		if p.session != nil {
			err = errors.Join(err, p.session.close())
		}
	}()
	for i := range c.statements {
		st := &c.statements[i]
		due := time.Now()
		if p.speed > 0 {
			due = p.begin.Add(time.Duration(float64(st.after) / p.speed))
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := p.openSession(ctx, st); err != nil {
			return err
		}
		queries, rows := p.session.queries, p.session.rows
		p.session.prepared, p.session.always = st.prepared, st.prepared
		err := p.session.run(ctx, st.text, st.values...)
		p.counts.latency.record(time.Since(due))
		p.counts.operations++
		p.counts.queries += p.session.queries - queries
		p.counts.rows += p.session.rows - rows
		if err := p.countOutcome(err, st); err != nil {
			return err
		}
	}
	return nil
}

// countOutcome counts the outcome of a statement. Anything but a response of the server is an error.
func (p *player) countOutcome(err error, st *traceStatement) error {
	var number mysqlwire.Errno
	if err != nil {
		e, ok := errors.AsType[*mysqlconn.ServerError](err)
		if !ok {
			return err
		}
		number = e.Number
		p.failed++
	}
	if uint16(number) != st.errorNumber {
		p.differ++
	}
	return nil
}

// openSession opens the connection for its first statement and changes its schema as in the recording.
func (p *player) openSession(ctx context.Context, st *traceStatement) error {
	if p.session == nil {
		c := connector{p.cfg, true}
		if st.schema != "" {
			c.cfg.Database = st.schema
		}
		var err error
		if p.session, err = c.connect(ctx); err != nil {
			return err
		}
		p.schema = c.cfg.Database
	}
	if st.schema == "" || st.schema == p.schema {
		return nil
	}
	if err := p.session.run(ctx, "USE "+quoteName(st.schema)); err != nil {
		return err
	}
	p.schema = st.schema
	return nil
}

// quoteName returns an identifier in backticks.
func quoteName(name string) string {
	b := []byte{'`'}
	for i := range len(name) {
		if name[i] == '`' {
			b = append(b, '`')
		}
		b = append(b, name[i])
	}
	return string(append(b, '`'))
}
