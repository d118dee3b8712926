package cutover

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestValidateOptions has options at the edges of their ranges.
func TestValidateOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string // "": valid
	}{
		{"the defaults", func(*Options) {}, ""},
		{"no lag", func(o *Options) { o.Lag = -1 }, "times and tries"},
		{"a window", func(o *Options) { o.Window = 1 }, ""},
		{"no window", func(o *Options) { o.Window = -1 }, "times and tries"},
		{"no tries", func(o *Options) { o.Tries = -1 }, "times and tries"},
		{"one try", func(o *Options) { o.Tries = 1 }, ""},
		{"closed before", func(o *Options) { o.ClosePinned = -1 }, "times and tries"},
		{"a negative pause", func(o *Options) { o.MaxPause = -1 }, "holds clients for -1ns"},
		{"the longest pause", func(o *Options) { o.MaxPause = 30 * time.Second }, ""},
		{"a longer pause", func(o *Options) { o.MaxPause = 30*time.Second + 1 }, "holds clients for"},
		{"another gateway", func(o *Options) { o.Gateway.URL = "x" }, "gateway"},
		{"no source", func(o *Options) { o.Back.Addr = "" }, "no address"},
		{"no gateway", func(o *Options) { *o = Options{Lag: -1} }, ""},
	} {
		o := Options{Gateway: gatewayclient.Gateway{URL: "http://localhost:1"}, Back: mysqlconn.Config{Addr: "x:1"}}
		c.change(&o)
		if err := o.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if o.MaxPause == 0 || o.Tries == 0 {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*HandoverOptions)
		parts  int
		want   string
	}{
		{"two parts", func(*HandoverOptions) {}, 2, ""},
		{"no lag", func(o *HandoverOptions) { o.Lag = -1 }, 2, "0 or more"},
		{"no tries", func(o *HandoverOptions) { o.Tries = -1 }, 2, "0 or more"},
		{"no pause", func(o *HandoverOptions) { o.MaxPause = -1 }, 2, "0 or more"},
		{"no source", func(o *HandoverOptions) { o.Source.Addr = "" }, 2, "no address"},
	} {
		o := HandoverOptions{Source: mysqlconn.Config{Addr: "x:1"}, Tables: []tabledef.Spec{{Schema: "s", Name: "t"}}, Observe: func(telemetry.Event) {}}
		c.change(&o)
		if _, err := NewHandover(o, c.parts); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("handover, %s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestStart starts cutovers with each record in the target, with clients on each side: what a run may do.
func TestStart(t *testing.T) {
	s := newSides(t)
	k := &cut{copied: s.copy("dst")}
	k.g = newModelGateway(t, s.source.Addr(), s.through.Addr)
	p := binlog.Position{File: "binlog.000001", Offset: 4}
	for _, c := range []struct {
		name     string
		recorded phase
		moved    bool // clients are on the target
		change   func(*Options, *Copy)
		want     string // of the error; "": none
		past     bool
		phase    phase
	}{
		{"new", phaseNone, false, nil, "", false, phaseNone},
		{"clients are on the target already", phaseNone, true, nil, "no cutover of this copy has brought them there", false, phaseNone},
		{"cutting", phaseCutting, false, nil, "", false, phaseNone},
		{"cutting, moved", phaseCutting, true, nil, "", true, phaseCut},
		{"cut", phaseCut, true, nil, "", true, phaseCut},
		{"done", phaseDone, true, nil, "", true, phaseDone},
		{"restarted", phaseCutting, false, func(_ *Options, c *Copy) { c.Restart = true }, "", false, phaseNone},
		{"restarted, moved", phaseCut, true, func(_ *Options, c *Copy) { c.Restart = true }, "switch them back first", true, phaseCut},
		{"restarted, done and back", phaseDone, false, func(_ *Options, c *Copy) { c.Restart = true }, "", false, phaseNone},
		{"without a gateway, cut", phaseCut, true, func(o *Options, _ *Copy) { o.Gateway.URL = "" }, "recorded as cut", true, phaseCut},
		{"without a gateway, of other tables", phaseNone, true, func(o *Options, c *Copy) { o.Gateway.URL = "" }, "", false, phaseNone},
		{"a window over a part", phaseNone, false, func(o *Options, c *Copy) { o.Window = time.Hour; k.change(c).Where = "n > 1" }, "only a part of src.a", false, phaseNone},
		{"a window over a shard", phaseNone, false, func(o *Options, c *Copy) { o.Window = time.Hour; k.change(c).ShardColumn = "id" }, "only a part of src.a", false, phaseNone},
		{"a window, triggers", phaseNone, false, func(o *Options, c *Copy) {
			o.Window = time.Hour
			k.change(c)
			source := *c.Tables[0].Source
			source.Triggers = []string{"tr"}
			c.Tables[0].Source = &source
		}, "has triggers (tr)", false, phaseNone},
		{"a window", phaseNone, false, func(o *Options, _ *Copy) { o.Window = time.Hour }, "", false, phaseNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			k.reset()
			k.g.set(0, "")
			if c.moved {
				k.g.address = k.g.to
			}
			r := record{k.state}
			if c.recorded != phaseNone {
				s.must(r.recordCutting(t.Context(), k.holder, p, p))
			}
			if c.recorded != phaseNone && c.recorded != phaseCutting {
				s.must(r.recordPhase(t.Context(), k.holder, c.recorded))
			}
			o, copy := k.options(), k.of()
			if c.change != nil {
				c.change(o, &copy)
			}
			x, err := Open(t.Context(), o, copy)
			if err == nil && x != nil {
				before := k.phase()
				if checked := x.Check(t.Context()); (checked == nil) != (c.want == "") || k.phase() != before {
					t.Errorf("checked: %v, record %q", checked, k.phase())
				}
				x.Close()
				if x, err = Open(t.Context(), o, copy); err == nil {
					defer x.Close()
					err = x.Start(t.Context())
				}
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err == nil && x.Past() != c.past || k.phase() != c.phase && !(c.past && k.phase() == phaseDone) {
				t.Errorf("past: %t, record %q, want %q", x.Past(), k.phase(), c.phase)
			}
		})
	}
}

// change returns the specification of the copy's table, which may be changed.
func (k *cut) change(c *Copy) *tabledef.Spec {
	table, spec := *k.table, *k.table.Spec
	table.Spec, c.Tables = &spec, []*tabledef.Table{&table}
	return &spec
}

// TestOtherTables has a record of a cutover of other tables with the same target.
func TestOtherTables(t *testing.T) {
	s := newSides(t)
	k := &cut{copied: s.copy("dst")}
	k.g = newModelGateway(t, s.source.Addr(), s.through.Addr)
	p := binlog.Position{File: "binlog.000001", Offset: 4}
	s.must((&record{k.state}).recordCutting(t.Context(), k.holder, p, p))
	s.exec("UPDATE " + k.st.Cutovers() + " SET id = 'another'")
	copy := k.of()
	for _, follows := range []bool{true, false} {
		copy.Follow = follows
		x, err := Open(t.Context(), k.options(), copy)
		if (err == nil) == follows || err != nil && !strings.Contains(err.Error(), "with other tables includes dst.a") {
			t.Errorf("follows: %t: %v", follows, err)
		}
		if x != nil {
			x.Close()
		}
	}
	if err := OpenHandoverPart(t.Context(), k.holder, k.state, false); err == nil || !strings.Contains(err.Error(), "with other tables includes dst.a") {
		t.Errorf("a handover: %v", err)
	}
	s.exec("UPDATE " + k.st.Cutovers() + " SET version = 1000")
	if _, err := Open(t.Context(), k.options(), copy); err == nil || !strings.Contains(err.Error(), "another version of Tare") {
		t.Errorf("a later version: %v", err)
	}
	k.reset()
	s.must((&record{k.state}).recordCutting(t.Context(), k.holder, p, p))
	for _, column := range []string{"source_position", "target_position"} {
		s.exec("UPDATE " + k.st.Cutovers() + " SET " + column + " = 'x'")
		if _, err := Open(t.Context(), k.options(), copy); err == nil || !strings.Contains(err.Error(), "of a binary log") {
			t.Errorf("a damaged %s: %v", column, err)
		}
		s.exec("UPDATE " + k.st.Cutovers() + " SET " + column + " = '" + p.String() + "'")
	}
	if err := OpenHandoverPart(t.Context(), k.holder, k.state, false); err == nil || !strings.Contains(err.Error(), "to one target is recorded as cutting") {
		t.Errorf("a handover of a cutover: %v", err)
	}
}

// TestNames has gateways whose names of the servers are others than those of the copy.
func TestNames(t *testing.T) {
	s := newSides(t)
	other := newSides(t)
	k := &cut{copied: s.copy("dst")}
	local := func(addr string) string {
		_, port, err := net.SplitHostPort(addr)
		s.must(err)
		return net.JoinHostPort("localhost", port)
	}
	for _, c := range []struct {
		name              string
		backend, standby  string
		want              string // of the error; "": none
		side, named, back string
	}{
		{"the same", s.source.Addr(), s.through.Addr, "", "standby", s.source.Addr(), s.through.Addr},
		{"the other way", s.through.Addr, s.source.Addr(), "", "backend", s.source.Addr(), s.through.Addr},
		{"other names", local(s.source.Addr()), local(s.through.Addr), "", "standby", local(s.source.Addr()), local(s.through.Addr)},
		{"another standby", s.source.Addr(), other.direct.Addr, "must be the same two servers", "", "", ""},
		{"no standby", s.source.Addr(), "", "and nothing (standby)", "", "", ""},
		{"unreachable", s.source.Addr(), "127.0.0.1:1", "asked whether they are", "", "", ""},
	} {
		x, err := Open(t.Context(), func() *Options {
			k.g = newModelGateway(t, c.backend, c.standby)
			return k.options()
		}(), k.of())
		s.must(err)
		err = x.findNames(t.Context(), &gatewayclient.Route{Backend: c.backend, Standby: c.standby})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if want := (routeNames{c.named, c.back, c.side}); x.names != want {
			t.Errorf("%s: the names are %+v, want %+v", c.name, x.names, want)
		}
		x.Close()
	}
	k.g = newModelGateway(t, local(s.through.Addr), local(other.through.Addr))
	for _, side := range []*sides{s, other} {
		side.proxy.EachFails(t, func() error {
			o, copy := k.options(), k.of()
			o.Back, copy.Target = s.through, other.through
			x, err := Open(t.Context(), o, copy)
			s.must(err)
			defer x.Close()
			return x.findNames(t.Context(), &gatewayclient.Route{Backend: k.g.from, Standby: k.g.to})
		}, "SELECT VERSION(), CONNECTION_ID(),", "SET @@SESSION.max_statement_time = ", "SELECT RELEASE_")
	}
}

// TestReverse switches clients, writes what they write to the target back to the source, and ends when that is finished, or when clients are back.
func TestReverse(t *testing.T) {
	s := newSides(t)
	k := &cut{copied: s.copy("dst")}
	k.g = newModelGateway(t, s.source.Addr(), s.through.Addr)
	var n strings.Builder
	n.WriteString("70")
	for _, name := range []string{"finished", "the window is over", "clients are back"} {
		back, over := name == "clients are back", name == "the window is over"
		n.WriteString("1")
		k.reset()
		s.exec("DELETE FROM " + k.st.Follows())
		k.g.set(0, "")
		o, copy := k.options(), k.of()
		if o.Window = time.Hour; over {
			o.Window = 2 * time.Second
		}
		copy.NewHeartbeat = func(source binlog.Follower, id string, tables []*tabledef.Table) *follow.Heartbeat {
			return follow.NewHeartbeat(follow.HeartbeatOptions{Source: source, Copy: id, Tables: tables, Patience: testwait.Limit, Waits: s.waits, Observe: func(telemetry.Event) {}})
		}
		var ending sync.WaitGroup
		copy.Watch = func(f *follow.Follower, p telemetry.RunPhase) {
			if p != telemetry.RunReversing {
				t.Errorf("%s: the stream is %v", name, p)
			}
			ending.Go(func() {
				c := testrows.Connect(t, s.direct)
				testrows.Exec(t, c, "REPLACE INTO dst.a VALUES (500, "+n.String()+"), (501, "+n.String()+")", "UPDATE dst.a SET n = "+n.String()+" WHERE id = 1")
				testwait.Until(t, "the rows to come back", func() bool { return len(testrows.Column(t, c, "SELECT id FROM src.a WHERE n = "+n.String())) == 3 })
				if k.phase() != phaseReversing {
					t.Errorf("%s: the record is %q", name, k.phase())
				}
				switch {
				case over:
					return
				case !back:
					f.Finish()
					return
				}
				k.g.mu.Lock()
				k.g.address = k.g.from
				k.g.mu.Unlock()
			})
		}
		writing, stop := context.WithCancel(t.Context())
		var client sync.WaitGroup
		client.Go(func() { s.write(writing, k.g.side, k.g.done) })
		report, err := k.runWith(o, copy)
		stop()
		testwait.Group(t, "the client to end", &client)
		testwait.Group(t, "the stream to be ended", &ending)
		if back {
			if err == nil || report.Phase != string(phaseReversing) {
				t.Errorf("%s: %v, %+v", name, err, report)
			}
			continue
		}
		if err != nil || report.Phase != string(phaseDone) || report.Reverse == nil || k.phase() != phaseDone {
			t.Errorf("%s: %v, %+v, record %q", name, err, report, k.phase())
		}
	}
}

// TestReverseWithoutPosition resumes a cutover that was started without a window with one: it fails, and releases the lease at the source.
func TestReverseWithoutPosition(t *testing.T) {
	s := newSides(t)
	k := &cut{copied: s.copy("dst")}
	k.g = newModelGateway(t, s.source.Addr(), s.through.Addr)
	k.g.address = k.g.to
	r := record{k.state}
	s.must(r.recordCutting(t.Context(), k.holder, binlog.Position{File: "binlog.000001", Offset: 4}, binlog.Position{}))
	s.must(r.recordPhase(t.Context(), k.holder, phaseCut))
	o, copy := k.options(), k.of()
	o.Window, copy.Patience = time.Hour, 3*time.Second
	for range 2 {
		if _, err := k.runWith(o, copy); err == nil || !strings.Contains(err.Error(), "no position of the target's log was recorded") {
			t.Errorf("got %v", err)
		}
	}
}
