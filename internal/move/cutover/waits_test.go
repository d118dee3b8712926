package cutover

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A deadSource cannot be read: its methods besides CurrentPosition are not called.
type deadSource struct{ binlog.Follower }

var errDead = errors.New("the source is lost")

func (deadSource) CurrentPosition(context.Context) (binlog.Position, error) {
	return binlog.Position{}, errDead
}

// newFollower returns a follower without a source that is not running, or has failed to connect to its target.
func newFollower(t *testing.T, failed bool) *follow.Follower {
	t.Helper()
	waits := &telemetry.Waits{Observe: func(telemetry.Event) {}}
	f, err := follow.New(follow.Options{
		Source: deadSource{}, State: &state.Following{},
		Writer: func() *state.Writer {
			return &state.Writer{Patience: 1, Waits: waits, Observe: func(telemetry.Event) {}} // no address
		},
		Shared: follow.Shared{Workers: 1, Waits: waits, Observe: func(telemetry.Event) {}, Count: func(*follow.Counts) {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if failed && f.Run(t.Context()) == nil {
		t.Fatal("a follower without a target")
	}
	return f
}

// TestReachFails has each cause for which a part of a handover does not reach the source: the error names the target, and the part is frozen only
// between transactions.
func TestReachFails(t *testing.T) {
	late, unequal := errors.New("it is late"), errors.New("rows differ")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx            context.Context
		frozen, failed bool
		caughtUp       error
		check          error
		want           string
		frozenAfter    bool
	}{
		"not caught up":                {t.Context(), false, false, late, nil, late.Error(), false},
		"not caught up, frozen before": {t.Context(), true, false, late, nil, late.Error(), true},
		"within a transaction":         {canceled, false, false, nil, nil, context.Canceled.Error(), false},
		"the follower has failed":      {t.Context(), true, true, nil, unequal, "address", true},
		"a check fails":                {t.Context(), true, false, nil, unequal, unequal.Error(), true},
		"no counters":                  {t.Context(), true, false, nil, nil, "", true},
	} {
		p := &HandoverPart{f: newFollower(t, c.failed), frozen: c.frozen, to: "target:1", Check: func(context.Context) error { return c.check }, Source: deadSource{}, notes: &state.Writer{}}
		if c.frozen {
			if _, err := p.f.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		err := p.reach(c.ctx, binlog.Position{}, func(context.Context, binlog.Position) error { return c.caughtUp }, 0)
		if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), "target:1: ") || !strings.Contains(err.Error(), c.want)) || p.frozen != c.frozenAfter {
			t.Errorf("%s: %v, frozen %t", name, err, p.frozen)
		}
		if p.thaw(); p.frozen {
			t.Errorf("%s: frozen after thaw", name)
		}
		p.thaw() // has no effect
		if _, err := p.f.Freeze(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestWaitFails has a follower that stopped before the target had caught up: its error is that of the wait, although rows differ too. Without a
// source, the step that reads its position fails.
func TestWaitFails(t *testing.T) {
	c := &Cutover{f: newFollower(t, true), copy: Copy{Unequal: func() int { return 1 }, Source: deadSource{}}, o: &Options{}}
	if err := c.wait(t.Context()); err == nil || errors.Is(err, errUnequal) || !errors.Is(err, c.f.Err()) {
		t.Errorf("%v, want %v", err, c.f.Err())
	}
	if err := c.reach(t.Context()); !errors.Is(err, errDead) || c.frozen {
		t.Errorf("%v, frozen %t", err, c.frozen)
	}
}

// TestLoad loads the records of this copy and of others. None is recorded before the table exists; a record that is not readable is not left out.
func TestLoad(t *testing.T) {
	at := binlog.Position{File: "log.000001", Offset: 4}
	version := strconv.Itoa(state.StateVersion)
	row := func(id, version, targets, phase, source, target, since string) string {
		return strings.Join([]string{id, version, targets, phase, source, target, since}, "|")
	}
	mine := row("me", version, "s.a\ns.b", string(phaseCutting), at.String(), "", "1500000")
	own := recorded{phase: phaseCutting, source: at, since: 1500 * time.Millisecond}
	for name, c := range map[string]struct {
		response any
		own      recorded
		others   string
		want     string // of the error
	}{
		"none":                       {[]string{}, recorded{}, "", ""},
		"no table":                   {mysqlwire.Errno(1146), recorded{}, "", ""},
		"refused":                    {mysqlwire.Errno(1142), recorded{}, "", "refused"},
		"of this copy":               {[]string{mine}, own, "", ""},
		"not switched":               {[]string{row("me", version, "s.a", string(phaseCutting), at.String(), at.String(), "NULL")}, recorded{phase: phaseCutting, source: at, target: at}, "", ""},
		"of others":                  {[]string{row("x", version, "s.c\ns.b", "cut", "", "", "NULL"), mine, row("y", version, "s.a\ns.d", "cut", "", "", "NULL")}, own, "s.b s.a", ""},
		"of others with no such":     {[]string{row("x", version, "s.c", "cut", "", "", "NULL")}, recorded{}, "", ""},
		"of a later version":         {[]string{row("x", "99", "s.c", "cut", "", "", "NULL"), mine}, recorded{}, "", "99"},
		"without a time":             {[]string{row("me", version, "s.a", "cut", "", "", "x")}, recorded{}, "", `"x"`},
		"without a source position":  {[]string{row("me", version, "s.a", "cut", "log", "", "NULL")}, recorded{}, "", "log"},
		"without a position of both": {[]string{row("me", version, "s.a", "cut", "", "bad", "NULL")}, recorded{}, "", "bad"},
	} {
		s := &mysqlScript{responses: map[string][]any{"SELECT id": {c.response}}}
		to := s.connect(t)
		r := record{&state.Following{ID: "me", Targets: "s.a\ns.b", State: state.State{Schema: "_tare"}}}
		got, others, err := r.load(t.Context(), to)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "schema _tare of the target")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && (got != c.own || strings.Join(others, " ") != c.others) {
			t.Errorf("%s: %+v, others %q", name, got, others)
		}
		x, openErr := Open(t.Context(), nil, Copy{To: to, State: r.Following, Follow: true})
		if refused := err != nil || others != nil || got.phase != phaseNone; x != nil || (openErr != nil) != refused || err != nil && openErr.Error() != err.Error() {
			t.Errorf("%s: a copy that follows without a gateway: %v", name, openErr)
		}
		if _, openErr := Open(t.Context(), &Options{}, Copy{To: to, State: r.Following}); fmt.Sprint(openErr) != fmt.Sprint(err) {
			t.Errorf("%s: a copy that does not follow: %v", name, openErr)
		}
	}
}
