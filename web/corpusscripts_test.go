package web

import (
	"fmt"
	"math"
	"time"

	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/incidents"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A script is one kind of incident, or of what is none. play changes a world with application statements; the first is
// the main one.
type script struct {
	name string
	want incidents.Kind // of the cause; "": there is no event that the gateway can know
	also []incidents.Kind
	none bool // no incident: nothing needs attention
	play func(w *world, main *worldStatement)
}

// event adds an event, some seconds before the onset.
func (w *world) event(m markers.Marker, before int) {
	m.Time = w.time(w.onset - before)
	w.events = append(w.events, m)
}

// schema adds a schema change of a table that ends some seconds before the onset.
func (w *world) schema(table, text string, before int) {
	m := markers.Marker{Kind: markers.KindDDL, Title: "Schema change", Text: text, Tables: []string{table}, User: "root", Client: "10.0.0.250"}
	m.End = w.time(w.onset - before)
	m.Time = m.End.Add(-time.Duration(w.IntN(20)) * time.Second)
	w.events = append(w.events, m)
}

func (w *world) deploy(before int) {
	w.event(markers.Marker{Kind: "deploy", Title: fmt.Sprintf("shop %d.%d", w.IntN(9), w.IntN(99)), User: "ci"}, before)
}

// slower has the calls of a statement take longer from the onset on, with another plan.
func (w *world) slower(st *worldStatement, times float64, plan explain.Step) {
	st.change = func(second int, s *second) {
		if second >= w.onset-3 && plan.Table != "" {
			s.plan = plan // as soon as the schema has changed; the calls that started before are the last fast ones
		}
		if second >= w.onset {
			s.took *= times
		}
	}
}

func (w *world) scan(st *worldStatement) explain.Step {
	return explain.Step{Table: st.base.plan.Table, Access: "ALL", Rows: 1e6}
}

func (w *world) by(st *worldStatement, key string) explain.Step {
	return explain.Step{Table: st.base.plan.Table, Access: "ref", Key: key, Rows: 1e5}
}

// fresh adds a statement that is called from the onset on.
func (w *world) fresh(text, user string, rate, took float64) *worldStatement {
	like := w.statements[0]
	st := &worldStatement{text: text, table: like.table, base: like.base}
	st.base.rate, st.base.took, st.base.user = 0, took, user
	st.change = func(second int, s *second) {
		if second >= w.onset {
			s.rate = rate
		}
	}
	w.statements = append(w.statements, st)
	return st
}

// all changes all statements from the onset on.
func (w *world) all(change func(st *worldStatement, s *second)) {
	for _, st := range w.statements {
		st.change = func(second int, s *second) {
			if second >= w.onset {
				change(st, s)
			}
		}
	}
}

// lock has the main statement wait for a session that holds a lock.
func (w *world) lock(st *worldStatement, kind serverstats.LockKind, seconds int) {
	sessions := 3 + w.IntN(20)
	digest := sqldigest.OfText([]byte(st.text))
	w.locks = append(w.locks, serverstats.LockWait{
		From: w.time(w.onset), To: w.time(w.onset + seconds), Kind: kind, Table: st.table, Waiters: sessions, Longest: time.Duration(seconds) * time.Second,
		Waiting: []sqldigest.Digest{digest}, Holder: serverstats.Holder{Connection: uint32(w.IntN(1e6)), User: "admin", Client: "10.0.0.250:50000", Transaction: time.Duration(seconds) * time.Second, Idle: true},
	})
	w.events = append(w.events, markers.Marker{Kind: markers.KindLock, Time: w.time(w.onset), End: w.time(w.onset + seconds), Title: "Connection held a lock", Tables: []string{st.table}})
	st.change = func(second int, s *second) {
		if second >= w.onset && second < w.onset+seconds { // sessions that wait have a load of one each, and finish later
			s.rate = max(s.rate/20, 0.05)
			s.took = float64(sessions) / s.rate
		}
	}
}

// slowdowns adds times of one to four minutes in which the machine is slower for all statements.
func (w *world) slowdowns(n int) {
	for i := range n { // apart from each other: together they would last
		from := 600 + 1000*i + w.IntN(300)
		w.slow = append(w.slow, slowdown{from, from + 60 + w.IntN(180), 2 + 3*w.Float64()})
	}
}

func (w *world) longer() float64 { return 3 * math.Exp(2*w.Float64()) }

// scripts are the kinds of the corpus. Each is played with random loads, noise, times and unrelated events nearby.
var scripts = []script{
	{name: "dropped index", want: incidents.KindDDL, play: func(w *world, st *worldStatement) {
		w.schema(st.table, "ALTER TABLE `t` DROP INDEX `"+st.base.plan.Key+"`", w.IntN(4))
		w.slower(st, w.longer(), w.scan(st))
	}},
	{name: "dropped index, another is used", want: incidents.KindDDL, play: func(w *world, st *worldStatement) {
		w.schema(st.table, "DROP INDEX "+st.base.plan.Key+" ON t", w.IntN(4))
		w.slower(st, w.longer(), w.by(st, "other_index"))
	}},
	{name: "added index", want: incidents.KindDDL, play: func(w *world, st *worldStatement) {
		w.schema(st.table, "CREATE INDEX fresh_one ON t (a, b)", w.IntN(4))
		w.slower(st, w.longer(), w.by(st, "fresh_one"))
	}},
	{name: "invisible index", want: incidents.KindDDL, play: func(w *world, st *worldStatement) {
		w.schema(st.table, "ALTER TABLE t ALTER INDEX "+st.base.plan.Key+" "+[]string{"INVISIBLE", "IGNORED"}[w.IntN(2)], w.IntN(4))
		w.slower(st, w.longer(), w.scan(st))
	}},
	{name: "changed type of a column", want: incidents.KindDDL, play: func(w *world, st *worldStatement) {
		w.schema(st.table, "ALTER TABLE t MODIFY customer VARCHAR ( ? )", w.IntN(4))
		w.slower(st, w.longer(), w.scan(st))
	}},
	{name: "changed statistics, ANALYZE", want: incidents.KindAnalyze, play: func(w *world, st *worldStatement) {
		w.event(markers.Marker{Kind: markers.KindAnalyze, Title: "Table statistics updated", Tables: []string{st.table}}, w.IntN(4))
		w.slower(st, w.longer(), w.by(st, "worse"))
	}},
	{name: "changed statistics, automatically", want: incidents.KindPlan, play: func(w *world, st *worldStatement) { w.slower(st, w.longer(), w.by(st, "worse")) }},
	{name: "changed plan by growth", want: incidents.KindPlan, play: func(w *world, st *worldStatement) { w.slower(st, w.longer(), w.scan(st)) }},
	{name: "locks of one transaction", want: incidents.KindLock, play: func(w *world, st *worldStatement) { w.lock(st, serverstats.RowLock, 60+w.IntN(200)) }},
	{name: "metadata lock behind DDL", want: incidents.KindLock, also: []incidents.Kind{incidents.KindDDL}, play: func(w *world, st *worldStatement) {
		seconds := 60 + w.IntN(100)
		w.lock(st, serverstats.MetadataLock, seconds)
		w.schema(st.table, "ALTER TABLE t ADD COLUMN extra INT", -seconds)
	}},
	{name: "deploy with a new query", want: incidents.KindDeploy, play: func(w *world, st *worldStatement) {
		w.fresh("SELECT x FROM fresh WHERE y = ?", "app", 5+20*w.Float64(), 0.05+0.1*w.Float64())
		w.deploy(w.IntN(90))
	}},
	{name: "deploy with N+1", want: incidents.KindDeploy, play: func(w *world, st *worldStatement) {
		times := 5 + 20*w.Float64()
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.rate *= times
			}
		}
		for _, other := range w.statements[1:] { // most calls are those of others
			other.base.rate *= 3
		}
		w.deploy(w.IntN(20))
	}},
	{name: "deploy with longer IN lists", want: incidents.KindDeploy, play: func(w *world, st *worldStatement) {
		times := w.longer()
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.took, s.rows = s.took*times, s.rows*times
			}
		}
		w.deploy(w.IntN(20))
	}},
	{name: "deploy with a lost LIMIT", want: incidents.KindDeploy, play: func(w *world, st *worldStatement) {
		w.fresh("SELECT all_of_it FROM t WHERE y = ? ORDER BY z", "app", st.base.rate, st.base.took*w.longer()*3).base.rows = 5000
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.rate = 0
			}
		}
		w.deploy(w.IntN(60))
	}},
	{name: "deploy with heavier values, tagged", want: incidents.KindDeploy, play: func(w *world, st *worldStatement) {
		times := w.longer()
		w.all(func(other *worldStatement, s *second) {
			s.tag = "next"
			if other == st {
				s.took *= times
			}
		})
		w.deploy(w.IntN(30))
	}},
	{name: "cache of the application cleared", play: func(w *world, st *worldStatement) {
		times := 6 + 10*w.Float64()
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.rate *= 1 + times*math.Exp(-float64(second-w.onset)/600)
			}
		}
	}},
	{name: "batch job", want: incidents.KindCaller, play: func(w *world, st *worldStatement) {
		w.fresh("UPDATE t SET a = ? WHERE b < ?", "batch", 0.5, 2+4*w.Float64()).base.clients = []string{"10.0.0.99"}
	}},
	{name: "batch job with a known statement", want: incidents.KindCaller, play: func(w *world, st *worldStatement) {
		times := 5 + 10*w.Float64()
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.apart, s.userApart, s.rate = 1-1/times, "report", s.rate*times
			}
		}
	}},
	{name: "one client in a loop", want: incidents.KindCaller, play: func(w *world, st *worldStatement) {
		times := 5 + 10*w.Float64()
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.apart, s.rate = 1-1/times, s.rate*times
			}
		}
	}},
	{name: "backup", want: incidents.KindCaller, also: []incidents.Kind{incidents.KindServer}, play: func(w *world, st *worldStatement) {
		times := 1.8 + w.Float64()
		w.all(func(_ *worldStatement, s *second) { s.took *= times })
		w.fresh("SELECT /* SQL_NO_CACHE */ * FROM t", "dump", 0.2, 4.5).base.clients = []string{"10.0.0.200"}
	}},
	{name: "replica lag behind reads", play: func(w *world, st *worldStatement) {
		st.text, st.explain = "SELECT WAIT_FOR_EXECUTED_GTID_SET ( ... )", false
		w.slower(st, 30*w.longer(), explain.Step{})
	}},
	{name: "connection storm", want: incidents.KindServer, play: func(w *world, st *worldStatement) {
		times := 2.5 + 3*w.Float64()
		w.all(func(_ *worldStatement, s *second) { s.took, s.failed, s.errorNumber = s.took*times, 0.02, 1040 })
	}},
	{name: "slow client", want: incidents.KindCaller, play: func(w *world, st *worldStatement) {
		st.base.rows = 2000
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.apart, s.tookApart = 0.25, s.took*40
			}
		}
	}},
	{name: "full disk", want: incidents.KindErrors, play: func(w *world, st *worldStatement) {
		st.text, st.explain = "INSERT INTO t VALUES ( ... )", false
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.failed, s.errorNumber, s.took = 0.9, 1114, s.took*5
			}
		}
	}},
	{name: "buffer pool too small", want: incidents.KindServer, play: func(w *world, st *worldStatement) {
		w.all(func(other *worldStatement, s *second) { s.took *= 2 + 2*float64(len(other.text)%5)/4 })
	}},
	{name: "noisy neighbour on the CPU", want: incidents.KindServer, play: func(w *world, st *worldStatement) {
		times := 2 + 2*w.Float64()
		w.all(func(_ *worldStatement, s *second) { s.took *= times })
	}},
	{name: "more traffic", want: incidents.KindTraffic, play: func(w *world, st *worldStatement) {
		times := 3 + 3*w.Float64()
		w.traffic = func(second int) float64 {
			if second >= w.onset {
				return times
			}
			return 1
		}
	}},
	{name: "switch to a cold standby", want: incidents.KindSwitch, also: []incidents.Kind{incidents.KindServer}, play: func(w *world, st *worldStatement) {
		w.event(markers.Marker{Kind: markers.KindSwitch, Title: "Clients switched to the standby"}, 1)
		times := 3 + 3*w.Float64()
		w.all(func(_ *worldStatement, s *second) { s.took, s.backend = s.took*times, "standby:3306" })
	}},

	{name: "dropped index on a noisy machine", want: incidents.KindDDL, play: func(w *world, st *worldStatement) {
		w.slowdowns(1)
		w.schema(st.table, "ALTER TABLE `t` DROP INDEX `"+st.base.plan.Key+"`", w.IntN(4))
		w.slower(st, w.longer(), w.scan(st))
	}},
	{name: "deploy with N+1 on a noisy machine", want: incidents.KindDeploy, play: func(w *world, st *worldStatement) {
		w.slowdowns(1)
		times := 8 + 20*w.Float64()
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.rate *= times
			}
		}
		w.deploy(w.IntN(20))
	}},

	{name: "noise of the machine", none: true, play: func(w *world, _ *worldStatement) { w.slowdowns(1) }},
	{name: "noise of the machine, several times", none: true, play: func(w *world, _ *worldStatement) { w.slowdowns(2 + w.IntN(2)) }},
	{name: "noise of the machine, now", none: true, play: func(w *world, _ *worldStatement) {
		w.slow = []slowdown{{worldSeconds - 60 - w.IntN(200), worldSeconds, 2 + 3*w.Float64()}}
	}},
	{name: "quiet database", none: true, play: func(w *world, st *worldStatement) {
		for _, st := range w.statements {
			st.base.rate, st.base.took = 0.05+0.3*w.Float64(), 0.002*math.Exp(w.NormFloat64())
		}
		w.hiccups = 0.05
	}},
	{name: "nothing", none: true, play: func(*world, *worldStatement) {}},
	{name: "busy machine", none: true, play: func(w *world, _ *worldStatement) { w.hiccups = 0.03 }},
	{name: "job every ten minutes", none: true, play: func(w *world, st *worldStatement) {
		st.change = func(second int, s *second) {
			if second%600 < 40 {
				s.rate *= 20
			}
		}
	}},
	{name: "DDL without effect", none: true, play: func(w *world, st *worldStatement) { w.schema(st.table, "ALTER TABLE t DROP INDEX unused", 0) }},
	{name: "deploy without effect", none: true, play: func(w *world, _ *worldStatement) { w.deploy(0) }},
	{name: "slow growth", none: true, play: func(w *world, st *worldStatement) {
		st.change = func(second int, s *second) { s.took *= 1 + 0.4*float64(second)/worldSeconds }
	}},
	{name: "light new statement", none: true, play: func(w *world, _ *worldStatement) { w.fresh("SELECT rare FROM t", "app", 0.2, 0.02) }},
	{name: "light statement ten times as often", none: true, play: func(w *world, st *worldStatement) {
		st.base.rate, st.base.took = 0.5, 0.001
		st.change = func(second int, s *second) {
			if second >= w.onset {
				s.rate *= 10
			}
		}
	}},
	{name: "falling load", none: true, play: func(w *world, st *worldStatement) { w.slower(st, 0.1, explain.Step{}) }},
	{name: "gateway restarted", none: true, play: func(w *world, _ *worldStatement) {
		w.gap = [2]int{w.onset, w.onset + 60 + w.IntN(300)}
		w.events = append(w.events, markers.Marker{Kind: markers.KindRestart, Title: "Gateway started", Time: w.time(w.gap[1])})
	}},
	{name: "history starts", none: true, play: func(w *world, _ *worldStatement) { w.began = 1200 + w.IntN(1200) }},
	{name: "one slow sample", none: true, play: func(w *world, st *worldStatement) {
		st.change = func(second int, s *second) {
			if second/worldSample == w.onset/worldSample {
				s.took *= 20
			}
		}
	}},
	{name: "traffic of a day", none: true, play: func(w *world, _ *worldStatement) {
		w.traffic = func(second int) float64 { return 1 + 0.5*math.Sin(float64(second)/2500) }
	}},
}

// newWorld returns a world with an application.
func newWorld(seed uint64) *world {
	w := &world{Rand: newRand(seed), start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), traffic: func(int) float64 { return 1 }, hiccups: 0.005}
	w.onset = 900 + w.IntN(2200)
	tag := ""
	if w.IntN(2) == 0 {
		tag = "now"
	}
	for i := range 6 + w.IntN(5) {
		table := fmt.Sprintf("shop.t%d", i)
		st := &worldStatement{
			text: fmt.Sprintf("SELECT c%d FROM t%d WHERE k = ?%s", i, i, []string{"", " LIMIT ?", " ORDER BY c"}[i%3]), table: table, explain: true,
			base: second{
				rate: 3 * math.Exp(1.2*w.Float64()), took: 0.004 * math.Exp(1.5*w.Float64()), rows: 1 + 20*w.Float64(), backend: "db:3306", user: "app", tag: tag,
				clients: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, plan: explain.Step{Table: fmt.Sprintf("t%d", i), Access: "ref", Key: fmt.Sprintf("k%d", i), Rows: 10},
			},
		}
		w.statements = append(w.statements, st)
	}
	main := w.statements[0]
	main.base.rate, main.base.took = 5+20*w.Float64(), 0.005+0.015*w.Float64()
	return w
}

// decoys adds unrelated events near the onset, before and after it.
func (w *world) decoys(main *worldStatement) {
	before := func() int { return 60 + w.IntN(500) }
	for range 1 + w.IntN(3) {
		switch w.IntN(8) {
		case 0:
			w.schema("shop.audit", "ALTER TABLE audit DROP INDEX k0", w.IntN(300))
		case 1:
			w.schema(main.table, "ALTER TABLE t ADD INDEX helps (x)", -60-w.IntN(300)) // after the onset
		case 2:
			w.deploy(200 + w.IntN(350))
		case 3:
			w.event(markers.Marker{Kind: markers.KindRules, Title: "Rules reloaded"}, w.IntN(300))
		case 4:
			w.event(markers.Marker{Kind: markers.KindAnalyze, Title: "Table statistics updated", Tables: []string{"shop.audit"}}, w.IntN(200))
		case 5:
			w.schema(main.table, "ALTER TABLE t ADD COLUMN note VARCHAR ( ? )", before())
		case 6:
			w.schema(main.table, "DROP INDEX unused_index ON t", before())
		case 7:
			w.deploy(-30 - w.IntN(200)) // after the onset
		}
	}
}
