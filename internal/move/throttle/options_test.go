package throttle

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestOptions has limits that are valid, at the edges of their ranges, and each reason for which they are not. Each limit has a source, the name
// and the unit of its metric.
func TestOptions(t *testing.T) {
	server, replica := mysqlconn.Config{Addr: "db:1"}, mysqlconn.Config{Addr: "r:1"}
	gateway := gatewayclient.Gateway{URL: "http://127.0.0.1:1"}
	for _, c := range []struct {
		o    Options
		want string // of the error
		kind string // of the limits
	}{
		{Options{}, "", ""},
		{Options{Patience: 1}, "", ""},
		{Options{MaxLag: -1}, "a limit is negative", ""},
		{Options{MaxThreadsRunning: -1}, "a limit is negative", ""},
		{Options{MaxP99: -1}, "a limit is negative", ""},
		{Options{Above: -1}, "a limit is negative", ""},
		{Options{Patience: -1}, "a limit is negative", ""},
		{Options{MaxLag: 1}, "the lag is limited and no replica is named", ""},
		{Options{Replicas: []mysqlconn.Config{replica}}, "a replica is named and its lag not limited", ""},
		{Options{MaxLag: 1, Replicas: []mysqlconn.Config{replica}}, "", "lag lag of replica r:1 1e-09 s 2s"},
		{Options{MaxLag: time.Second, Replicas: []mysqlconn.Config{replica, server}}, "", "lag lag of replica r:1 1 s 2s, lag lag of replica db:1 1 s 2s"},
		{Options{MaxLag: 1, Replicas: []mysqlconn.Config{replica, {}}}, "replica : no address", ""},
		{Options{MaxP99: 1}, "the p99 is limited and no gateway is named", ""},
		{Options{Gateway: gateway}, "a gateway is named and the p99 not limited", ""},
		{Options{MaxP99: 5 * time.Millisecond, Gateway: gateway}, "", "p99 p99 of live traffic 5 ms 2s"},
		{Options{MaxP99: 1, Gateway: gatewayclient.Gateway{URL: "ftp://h"}}, "want host:port", ""},
		{Options{MaxThreadsRunning: 1}, "no server is named", ""},
		{Options{Query: "SELECT 1"}, "no server is named", ""},
		{Options{MaxThreadsRunning: 1, Server: server}, "", "threads_running Threads_running of db:1 1  1s"},
		{Options{Query: "SELECT 1", Server: server}, "", "query answer to the throttle query 0  1s"},
		{
			Options{Query: "SELECT 1", Above: 2.5, Server: server, MaxThreadsRunning: 9, MaxP99: 1, Gateway: gateway},
			"",
			"threads_running Threads_running of db:1 9  1s, query answer to the throttle query 2.5  1s, p99 p99 of live traffic 1e-06 ms 2s",
		},
	} {
		err := c.o.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
		if err != nil {
			continue
		}
		limits, sources := c.o.limits()
		var kinds []string
		for _, l := range limits {
			kinds = append(kinds, strings.Join([]string{string(l.Kind), l.Name, strconv.FormatFloat(l.Bound, 'g', -1, 64), l.Unit, l.Memory.String()}, " "))
		}
		if got := strings.Join(kinds, ", "); got != c.kind || len(sources) != len(limits) || c.o.Limited() != (len(limits) > 0) || c.o.Patience == 0 {
			t.Errorf("%+v: limits %q, %d sources, limited %v, want %q", c.o, got, len(sources), c.o.Limited(), c.kind)
		}
		for _, s := range sources {
			s.close()
		}
	}
	if o := (&Options{}); o.Validate() != nil || o.Patience != DefaultPatience {
		t.Errorf("the default patience is %v", o.Patience)
	}
}

// TestReports has the event of each state of a pacer, reported once until another one follows.
func TestReports(t *testing.T) {
	p := NewPacer(PacerOptions{})
	p.core.limits = []Limit{{Kind: LimitP99, Name: "p99", Unit: "ms", Bound: 20}, {Kind: LimitLag, Name: "lag", Unit: "s", Bound: 1}}
	p.core.held = []time.Duration{0, 0}
	p.core.looked, p.core.rate, p.core.maxRate, p.core.holding = true, 1, 1, -1
	for _, c := range []struct {
		name   string
		change func()
		news   bool
	}{
		{"full speed at the start", func() {}, false},
		{"crossed", func() { p.core.crossed, p.core.holding = true, 0 }, true},
		{"still crossed", func() {}, false},
		{"another limit crossed", func() { p.core.holding = 1 }, true},
		{"stopped by it", func() { p.core.stopped = true }, true},
		{"told to stop", func() { p.core.maxRate = 0 }, true},
		{"still told to stop", func() { p.core.crossed = false }, false},
		{"told to be slow", func() { p.core.maxRate, p.core.stopped = 0.5, false }, true},
		{"slow by a limit", func() { p.core.rate = 0.25 }, true},
		{"still slow by a limit", func() { p.core.rate = 0.75; p.core.maxRate = 1 }, false},
		{"full speed", func() { p.core.rate = 1 }, true},
		{"still full speed", func() {}, false},
	} {
		c.change()
		rate, reason, news := p.unreported()
		if news != c.news || news != (reason != "") || news && rate != p.core.allowed() {
			t.Errorf("%s: %v %q, news %v", c.name, rate, reason, news)
		}
	}
}
