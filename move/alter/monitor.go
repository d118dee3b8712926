package alter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A Monitor observes an alteration, for pages, metrics and the control socket. Its zero value is ready, and it is safe for
// concurrent use. It is set as Options.Monitor.
type Monitor struct {
	Copy copier.Metrics // of the copy, and of the way back

	mu      sync.Mutex
	addr    string // of the server
	server  string // its identity; "" before the alteration has connected
	started time.Time
	alter   telemetry.AlterStatus

	queue []telemetry.QueueItem // of the present run; nil: it has none

	tries  int64   // of all alterations of the process
	waited float64 // seconds of those that failed
}

var _ prometheus.Collector = (*Monitor)(nil)

// runBytes is the heap of an alteration besides its copy, as determined by profiles: the table's description, goroutines, contexts, and
// the tables of encoding/json for its records.
const runBytes = 28 << 10

// Bounds of the lists of a status.
const (
	shownSteps = 50
	shownTries = 50
)

// Status returns the state of the alteration, and of its copy if there is one.
func (m *Monitor) Status() telemetry.Status {
	s := m.Copy.Status()
	m.mu.Lock()
	defer m.mu.Unlock()
	s.From, s.To = m.addr, m.addr
	if m.server != "" {
		s.Servers = []string{m.server}
	}
	if s.Started = m.started; s.Started.IsZero() {
		s.Started = time.Now()
	}
	s.Alter = m.snapshot()
	return s
}

// status returns the state of the alteration alone.
func (m *Monitor) status() *telemetry.AlterStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot()
}

// snapshot returns a copy of the state. m.mu must be locked.
func (m *Monitor) snapshot() *telemetry.AlterStatus {
	a := m.alter
	a.Steps, a.Tries, a.Queue = slices.Clone(a.Steps), slices.Clone(a.Tries), m.queue
	if a.Steps == nil {
		a.Steps = []telemetry.StepStatus{}
	}
	if a.Tries == nil {
		a.Tries = []telemetry.LockTry{}
	}
	return &a
}

// begin starts the observation of an alteration.
func (m *Monitor) begin(addr, table, clauses string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.addr = addr; m.started.IsZero() {
		m.started = time.Now()
	}
	m.alter = telemetry.AlterStatus{Table: table, Alter: clauses}
	m.enter(telemetry.StepChecking)
}

// connected records the identity of the server.
func (m *Monitor) connected(ctx context.Context, c *mysqlconn.Client) error {
	server, err := session.ServerIdentity(ctx, c)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server = server
	return err
}

// queued sets the entries of a queue, which the caller does not change.
func (m *Monitor) queued(items []telemetry.QueueItem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = items
}

// named sets the table's name as the server has it, and the clauses.
func (m *Monitor) named(table, clauses string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alter.Table, m.alter.Alter = table, clauses
}

// step records that a step has started.
func (m *Monitor) step(s telemetry.AlterStep) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enter(s)
}

// enter adds a step. m.mu must be locked.
func (m *Monitor) enter(s telemetry.AlterStep) {
	a := &m.alter
	if len(a.Steps) > 0 && a.Step() == s {
		return
	}
	if len(a.Steps) == shownSteps {
		a.Steps = slices.Delete(a.Steps, 0, 1)
	}
	a.Steps = append(a.Steps, telemetry.StepStatus{Step: s, Start: time.Now()})
}

// chose records the way.
func (m *Monitor) chose(w Way, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alter.Way, m.alter.Why = string(w), why
}

// tried records a try that began at a time. A failed one counts as a wait for the table's lock.
func (m *Monitor) tried(began time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	try := telemetry.LockTry{Start: began, Seconds: time.Since(began).Seconds()}
	a := &m.alter
	m.tries++
	if a.LockTries++; err != nil {
		try.Error = err.Error()
		a.LockSeconds += try.Seconds
		m.waited += try.Seconds
	}
	if len(a.Tries) == shownTries {
		a.Tries = slices.Delete(a.Tries, 0, 1)
	}
	a.Tries = append(a.Tries, try)
}

// swapped records how long clients waited for a swap.
func (m *Monitor) swapped(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alter.PauseSeconds = d.Seconds()
}

// old records the state of the old table.
func (m *Monitor) old(name string, k *Kept, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := &telemetry.OldTable{Name: name, State: string(k.State), NoWay: k.NoWay, Lossy: slices.Clone(k.Lossy)}
	if k.State == KeptKept {
		o.Until = &until
	}
	m.alter.Old = o
}

// monitorDescs are the descriptors of the metrics of an alteration, besides those of its copy.
type monitorDescs struct{ step, tries, waited, pause, old, queue *prometheus.Desc }

func newMonitorDescs() *monitorDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_alter_"+name, help, labels, nil)
	}
	return &monitorDescs{
		step:   desc("step", "1 for the step of the alteration, 0 for the others.", "step"),
		tries:  desc("lock_tries_total", "Statements and swaps that waited for the table's lock."),
		waited: desc("lock_wait_seconds_total", "Time of the tries that failed, for which clients may have waited."),
		pause:  desc("swap_pause_seconds", "From the request for the lock to the end of the last swap. Absent: no swap."),
		old:    desc("old_table_until_timestamp_seconds", "When the old table is dropped. Absent: none is kept."),
		queue:  desc("queue_entries", "Entries of the queue by state. Absent: there is no queue.", "state"),
	}
}

// Describe implements prometheus.Collector.
func (m *Monitor) Describe(ch chan<- *prometheus.Desc) {
	m.Copy.Describe(ch)
	d := newMonitorDescs()
	for _, one := range []*prometheus.Desc{d.step, d.tries, d.waited, d.pause, d.old, d.queue} {
		ch <- one
	}
}

// Collect implements prometheus.Collector.
func (m *Monitor) Collect(ch chan<- prometheus.Metric) {
	m.Copy.Collect(ch)
	d, a := newMonitorDescs(), m.status()
	m.mu.Lock()
	tries, waited := m.tries, m.waited
	m.mu.Unlock()
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, kind, v, labels...)
	}
	for _, s := range []telemetry.AlterStep{
		telemetry.StepChecking, telemetry.StepAltering, telemetry.StepCopying, telemetry.StepPostponed, telemetry.StepSwapping, telemetry.StepBack, telemetry.StepDone,
	} {
		send(d.step, prometheus.GaugeValue, truth(s == a.Step()), string(s))
	}
	send(d.tries, prometheus.CounterValue, float64(tries))
	send(d.waited, prometheus.CounterValue, waited)
	if a.PauseSeconds > 0 {
		send(d.pause, prometheus.GaugeValue, a.PauseSeconds)
	}
	if o := a.Old; o != nil && o.Until != nil {
		send(d.old, prometheus.GaugeValue, float64(o.Until.Unix()))
	}
	entries := make(map[telemetry.QueueState]int)
	for _, x := range a.Queue {
		entries[x.State]++
	}
	for s, n := range entries {
		send(d.queue, prometheus.GaugeValue, float64(n), string(s))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
