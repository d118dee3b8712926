package throttle

import (
	"context"
	"errors"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestBeginWithoutTurn has a worker whose context ends while it waits for its turn: it does not work, and the others do.
func TestBeginWithoutTurn(t *testing.T) {
	p := NewPacer(PacerOptions{})
	first, second := p.Join(), p.Join()
	p.core.limits, p.core.looked, p.core.rate, p.core.maxRate = []Limit{{Kind: LimitP99, Bound: 20}}, true, 0.5, 1 // one worker at a time, all the time
	p.mu.Lock()
	p.allow()
	p.mu.Unlock()
	if err := first.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if err := second.Begin(ctx); !errors.Is(err, ended) || second.step || second.within {
		t.Errorf("%v, with a step %v, within the gate %v", err, second.step, second.within)
	}
	second.End()
	first.End()
	if err := second.Begin(t.Context()); err != nil {
		t.Error(err)
	}
	second.End()
	if p.steps != 0 || len(p.queue) != 0 {
		t.Errorf("%d steps, %d in the queue", p.steps, len(p.queue))
	}
	never := NewPacer(PacerOptions{MayRun: func() bool { return false }})
	if err := never.Join().Begin(ctx); !errors.Is(err, ended) {
		t.Errorf("work that is not permitted: %v", err)
	}
}

// TestSourceConnection has reads of a metric that fail: an error of the server leaves the connection open, another one closes it.
func TestSourceConnection(t *testing.T) {
	server := testmysql.Start(t)
	var failed error
	s := &sqlSource{cfg: root(server), read: func(context.Context, *mysqlconn.Client) (float64, error) { return 7, failed }}
	value := func(want error) *mysqlconn.Client {
		t.Helper()
		if _, err := s.value(t.Context()); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		return s.c
	}
	c := value(nil)
	failed = &mysqlconn.ServerError{Number: 1227, State: "42000", Message: "Access denied"}
	if value(failed) != c || c == nil {
		t.Error("the connection was closed after an error of the server")
	}
	failed = errors.New("reset")
	if value(failed) != nil {
		t.Error("the connection was kept after a failure")
	}
	if _, err := c.Exec(t.Context(), "DO 0"); err == nil {
		t.Error("the connection is open")
	}
	failed = nil
	if again := value(nil); again == nil || again == c {
		t.Error("no other connection was opened")
	}
	s.close()
	s.close()
	s.cfg.Password += "x"
	if _, err := s.value(t.Context()); err == nil || s.c != nil {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestStatusOfFailure has a limit whose metric could not be read after it was.
func TestStatusOfFailure(t *testing.T) {
	p := NewPacer(PacerOptions{})
	p.core.limits = []Limit{{Kind: LimitP99, Name: "p99", Unit: "ms", Bound: 20}}
	p.core.held = append(p.core.held, 0)
	p.values = []reading{{value: 15}}
	if l := p.Status().Limits[0]; l.Value != 15 || l.Error != "" || l.Bound != 20 {
		t.Errorf("%+v", l)
	}
	p.values[0].err = errors.New("unreachable")
	if l := p.Status().Limits[0]; l.Value != 0 || l.Error != "unreachable" {
		t.Errorf("%+v", l)
	}
}
